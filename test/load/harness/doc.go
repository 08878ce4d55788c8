// Package harness measures a reconciler from outside: the real manager as a child process
// beside a real control plane, a simulator of the outside systems as another, and a watcher
// with a connection of its own that sees everything and tells how long it took.
//
// Nothing in here knows a kind: a Subject does. Another reconciler is measured by writing
// another Subject.
//
// # What a figure is worth
//
// The rules of honesty are in the code, and none of them can be turned off:
//
//   - What an operation costs is told in CPU-milliseconds of every process of ours, from
//     /proc; the wall clock comes second. What others use is told too, and more than a
//     twentieth makes a run contended: it has figures and no verdict.
//   - The floor (the cost of a bare create and status patch of an object of that size) is
//     measured before and after. More than a tenth of drift between the two discards the
//     repetition.
//   - A CPU-millisecond of a shared machine is worth more at one time than at another, and no
//     counter of the kernel shows it. A fixed piece of work is therefore timed all along (see
//     machine.Pace), and what is compared across time is corrected by its pace: the drift of
//     the floor, the ceiling and what follows from it, and cpu_all_paced, which is cpu_all at
//     the pace of the floor before. All else is raw, and so are the figures and the floors of
//     a repetition beside them.
//   - An object counts when the watcher has seen all that belongs to it, created by the
//     manager. One that is missing fails the run, as does any answer that is not a success,
//     an error in the manager's log, and a manager that ends: in a repetition that is discarded,
//     too. A run passes with as many counted repetitions as were asked for and with limits to
//     judge them by.
//   - On an empty store everything is cheaper. A scenario that fills the store before it measures
//     takes the floor before again then; one that fills it while it measures has its ceiling by the
//     mean of the floors before and after, and if those are too far apart, the floor of a new
//     store tells whether the machine has changed.
//   - etcd syncs its log to the disk, the audit log is off, nobody limits the clients, and the
//     manager has its default flags, and those that the subject needs. The scenarios that count
//     requests have the audit log on; they time nothing.
package harness
