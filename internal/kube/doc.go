// Package kube holds what every reconciler does the same way: naming and marking children,
// writing them without touching what is another's, watching foreign kinds that may not be
// installed, the one exit of a pass, how many there are at the same time, what metrics tell of
// objects and Events, and the fence that keeps those from writing whose time is over, or whose
// clock is wrong.
package kube
