// Package machine tells what the machine does with its CPUs, and what it is. It reads /proc,
// so it knows Linux only.
package machine
