// Package runner carries out one operation on one target, in a pod of its own: "manager runner".
//
// # What it promises
//
// After a shutdown and a wake-up, whatever was killed, cut off or started again in between, every resource is as it was
// before the shutdown; or it was left as somebody else has made it, and the [Result] names it. A Result is Completed
// only when everything is as the operation wants it and the restore point that says so has been written.
//
// # The order of writes
//
// A shutdown captures all that it is going to change, and writes that in one update before its first change. If that
// cannot be written, for instance because it is too large, nothing is changed. What it has made of the resources is
// written at most a second later or every 50 resources, and at the end: a run that is killed in between has changed
// what is known as captured, and a wake-up brings that back too. What somebody else changes between the capture and
// the moment that it is put to sleep is captured again, and that is written, before it is put to sleep; nothing is
// captured again that this run, or one before in the same turn of the cycle, may have put to sleep. What one has found
// asleep, and somebody has woken since (another plan, for instance), was not put to sleep: it is captured as it is by
// then. A restore point of a former cycle, which a plan has left, or a backup has brought back, or of an evening before
// in the same cycle, after which not everything has woken, tells of what still sleeps alone: what somebody has woken
// since is as he has made it. What was put to sleep, and the target does not have any more, stays as it is, awake or
// not, in every attempt from then on, and is woken with the rest. A run that ends in good order before it has touched a
// resource forgets it: it was not asleep, and others may change it.
//
// A wake-up goes backwards through what is still to be restored, and notes what it has restored, or left, in the same
// steps. What it was killed before it noted is woken again, which changes nothing.
//
// # The fence
//
// The ConfigMap of a restore point names the execution that may write to it. A runner reads that before it acts, and
// each of its writes is an update of what it has read: once another execution is named, or another runner has written,
// it writes nothing, stops, and says Superseded. Between two writes, which is about a second, it does not know; whoever
// names another execution first sees to it that the pod of the former is gone.
//
// # Which cluster
//
// A restore point knows whether its target is in the manager's own cluster, or in which other one, by the UID of that
// one's Namespace kube-system, where it may be read. A run that reaches another cluster, or can no longer tell, changes
// nothing while anything of the point is asleep (OtherCluster): everything would be gone there, and the restore point
// be let go. Nor does one in the manager's own cluster, which can always be told, what sleeps in one that could not.
// Credentials that lead back to the manager's own cluster are known by the UID that the manager gives of it: it is one
// cluster, whatever it is reached by, and the manager's own namespace does not sleep there, nor one of that name in a
// cluster that cannot be told, which may be the same.
//
// # What is said of another cluster
//
// Whoever writes a connector has a runner speak to an address of his choice. It follows no redirect, and of what is
// answered there that is no success it repeats a Status, as API servers write it, and nothing else.
//
// Whoever reads a plan may not read the Secret of its connector, of which the address of the server is a part: no error
// tells that, nor what its certificate is for, but the words that a connector says when its server does not answer.
//
// # What takes its time
//
// Webhooks of others that hang, and are to be ignored, have an API server take up to a minute for a write. So long each
// request is waited for, and what is not answered by then has been lost: the next resource is gone on with, and the
// restore point is written again. A capture needs an answer to each of its lists, of which a large target has
// thousands: what is not answered, or only by a proxy, or by a server that is busy, is asked for again, three times.
//
// # When it is told to stop
//
// By a signal or by its deadline: the call in hand is given ten seconds to end, and what is known is written. What is
// waited for is looked at for the last time right before the deadline, so that what is still missing then is told.
//
// A machine that stands still for hours, as one that is suspended does, wakes with timers that know nothing of it. The
// manager has given the runner up by then, may have taken its rights away, and goes on with another; in a cluster that it
// reaches by credentials of its own nobody takes those away. So every change there is refused when the deadline and those
// ten seconds have passed by either of the machine's clocks.
package runner
