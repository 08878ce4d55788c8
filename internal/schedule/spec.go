package schedule

import "time"

// Spec is what a Schedule is made of.
type Spec struct {
	// Timezone is the IANA name of the zone of all wall clock times: Europe/Berlin, UTC.
	Timezone string
	// OffHours are asleep; without any, only exceptions are.
	OffHours []Window
	// Exceptions to OffHours, in any order.
	Exceptions []Exception
}

// Window is off-hours that repeat: Start, End and Days, or StartCron and EndCron.
type Window struct {
	// Start is the time of day that the window starts at, "00:00" to "23:59".
	Start string
	// End is the time of day that it ends at, "00:00" to "24:00": on the day after if it is not after
	// Start. It is not the same as Start, which might mean nothing or the whole day; write
	// 00:00 and 24:00 for that.
	End string
	// Days are those that it starts on, MON to SUN: at least one, none twice.
	Days []string

	// StartCron begins sleep: a cron expression of five fields, or a descriptor from @hourly to
	// @yearly. The zone is that of the Spec; TZ=, CRON_TZ= and @every are refused.
	StartCron string
	// EndCron ends it, where StartCron does not fire, too; if it always does, EndCron is refused.
	EndCron string
}

// ExceptionType says what an Exception does with its windows.
type ExceptionType string

const (
	// Replace makes the windows of the exception count instead of those of the Spec.
	Replace ExceptionType = "replace"
	// Extend makes the windows of the exception count, too.
	Extend ExceptionType = "extend"
	// Suspend is awake in the windows of the exception, or all the time.
	Suspend ExceptionType = "suspend"
)

// Exception changes the off-hours for a while; the package comment says how.
type Exception struct {
	// Name is for messages, and may be empty.
	Name string
	Type ExceptionType
	// From and Until are the half-open interval in which it applies.
	From, Until time.Time
	// LeadTime before a suspension in which sleep does not begin: 0 to MaxLeadTime. For Suspend only.
	LeadTime time.Duration
	// Windows that replace or extend, at least one; or that are awake, none for all of the time. Of those that extend or are awake
	// at least one must be in that time.
	Windows []Window
}
