// Package restore is what is known of a target's resources as they were before it was put to sleep: the restore
// point, which a wake-up brings them back by. Everything of a hibernation can be done again but this.
//
// # The rules
//
// A resource is captured, and that is durable, before the first call that changes it. What was captured once is never
// captured again while the point lives: a second look, by a retry, a restarted runner or a plan that was deleted and
// created again, sees what the first has made of the resource. But for what was asleep as it was captured: nothing was
// made of that, and where it is awake by the next look, somebody else has woken it, and it is captured as he has. A
// point lives until every resource in it has been restored or left to whoever has changed it meanwhile; then, and only
// then, it is released.
//
// A point belongs to a target of a plan by their names, not to a cycle or a UID: as long as it lives, the target is
// asleep by it, whoever asks. One that another cycle goes on with, as it was left, or has come back with a backup, tells
// only of what still sleeps: what somebody has woken is captured as it is by then.
//
// # Its form
//
// A [Point] is written as JSON, with a checksum over what matters, compressed where that is shorter, and read back
// strictly: what was cut off or changed is an error that says so, and never an empty point, because that would be
// nothing to restore. What would not fit into an object of the API server is refused before anything is stopped.
//
// The package is pure: where points are kept is for others.
package restore
