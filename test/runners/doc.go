// Package runners plays the kubelet for the pods of HibernatePlans' Jobs, for tests and for the demo: it runs the
// container of each as a real process, with the token of the pod's own ServiceAccount, and tells the API server how
// that has ended: exit code, termination message, log. What the process may do the API server decides by RBAC.
//
// Pods are bound to its own node where nobody else schedules them. It plays a kubelet that can be told to be unkind:
// Options.Started sees each process, and may kill it.
package runners
