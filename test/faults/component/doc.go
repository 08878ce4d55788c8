// Package component is the world of Components. They are of the whole cluster, and the manager looks after all
// namespaces: the proxy lets each see those of its run, which are named and labelled after that, and the Experiments of
// its namespace (faults.World.Sees). Experiments are there to name Components, and are suspended.
package component
