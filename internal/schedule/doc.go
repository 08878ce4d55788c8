// Package schedule tells when something sleeps: the off-hours of a HibernatePlan, and the
// exceptions to them.
//
// A [Schedule] is built once by [New], which names everything that is wrong with a [Spec], and
// never changes, so it may be shared between goroutines. All of its answers are read off one list
// of intervals that is a function of the Spec alone: whoever asks about an instant gets the same
// answer whenever they ask, a process that was down catches up by asking again, and the state, the
// next change and a preview of the week cannot disagree. Nothing is delayed by some grace.
//
// # Windows
//
// A [Window] is a half-open interval of the local wall clock that is anchored on the day that it
// starts on: MON-FRI 20:00-06:00 begins on five evenings and ends on the five mornings after, the
// last of them Saturday's. An end that is not after the start is on the next calendar day, and 24:00
// is the midnight that ends the day of the start. Times have minutes and no seconds.
//
// A Window may be a pair of cron expressions instead: it is asleep from each firing of the first
// until the next firing of the second after it. Where both fire at once it goes on sleeping. Cron is
// run on the wall clock as if there were no time zone, and only then are its firings made instants,
// so none is lost or doubled when clocks change.
//
// # Wall clock to instants
//
//   - A time that occurs once is that instant.
//   - A time in a gap (clocks go forward, or a calendar day is left out as in Pacific/Apia at the
//     end of 2011) is the first instant after the gap. What lies in a gap as a whole is nothing.
//   - A time in an overlap (clocks go back) is its first occurrence where it starts a window, and
//     its last where it ends one: a window never begins twice, and lasts until its end is past for
//     good. That includes the first minute of the overlap: at a change from 02:00 back to 01:00, an
//     end at 01:00 is the second 01:00.
//
// # Exceptions
//
// They apply in this order, whatever order they are listed in; those of one type are united:
//
//  1. Replace: within [From, Until) the windows of the Spec do not count, and those of the exception
//     do. Where two overlap, the windows of both do.
//  2. Extend: within [From, Until) its windows count, too.
//  3. Suspend: nothing of [From, Until), or of its windows in there if it has any, is asleep. It is
//     made of stretches: what is left of its windows when they are cut to [From, Until) and merged.
//     LeadTime keeps sleep from beginning shortly before it would be broken: of what is left when
//     the stretches of all suspensions are taken out, an interval that starts at most LeadTime before
//     a stretch of this one starts is dropped. It is dropped as a whole, as it ends with that stretch
//     at the latest. An interval that started earlier goes on until the stretch, and what follows
//     the stretch is an interval of its own. So is what follows another suspension: sleep is not
//     resumed between two suspensions that are closer than LeadTime.
//
// The windows of an exception are cut to [From, Until): one that began before From counts from
// From on. An Extend or a Suspend that has windows, and none of them in there, would change nothing,
// and is refused, unless it lasts longer than the [Horizon]. A Replace without any is awake.
//
// # Horizon
//
// Intervals that overlap or touch are one. One interval may go on for ever, so nobody looks further
// than [Horizon], 400 days: what lies beyond is the zero [time.Time], "not within the horizon". Ask
// again within that time.
//
// # Cost
//
// Time is linear in the windows, in the span that is asked about and, for [Schedule.At], in the time until the state
// changes. Asking about a weekday plan takes microseconds. A cron expression costs the same however often it fires,
// except that its real changes are listed one by one: New refuses off-hours, and exceptions, whose windows begin and
// end more than 2,880 times a day. It looks for the first window in the time of each exception, which is mostly one of
// the first days. Whatever it takes does not cost more than some 50 ms and 20 MB for each list of windows that fills
// the Horizon with changes. Windows are united on the wall clock before they are made instants. A LeadTime, of 30 days
// at most, is looked at only where something would begin, and up to the next stretch of its suspension. How many
// exceptions there are is for whoever asks to bound.
//
// The package is pure: it holds no client and asks no clock. It embeds the time zones
// (time/tzdata) because an image may have none, and without them [New] would refuse every zone; a
// zoneinfo of the system, if there is one, goes first.
package schedule

import _ "time/tzdata" // an image from scratch has no zoneinfo
