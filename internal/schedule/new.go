package schedule

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// MaxLeadTime is that of a suspension: whoever asks what comes next looks so far ahead.
const MaxLeadTime = 30 * 24 * time.Hour

// maxChanges is how often the windows of a list may turn to sleep and from it in a day, all taken together: two pairs of
// cron expressions that fire every other minute in turns, or 1,440 windows that are there every day.
const maxChanges = 2 * 24 * 60

// New returns the Schedule of spec, or InvalidErrors with everything that is wrong with it. The
// Schedule shares nothing with spec.
func New(spec Spec) (*Schedule, error) {
	var p problems
	s := &Schedule{zone: p.zone("timezone", spec.Timezone), offHours: p.windows("offHours", spec.OffHours)}
	for i, e := range spec.Exceptions {
		p.exception = e.Name
		valid := p.checkAll(fmt.Sprintf("exceptions[%d]", i), e, s.zone)
		switch e.Type {
		case Replace:
			s.replaces = append(s.replaces, valid)
		case Extend:
			s.extends = append(s.extends, valid)
		case Suspend:
			s.suspends = append(s.suspends, valid)
		}
	}
	if len(p.list) > 0 {
		return nil, p.list
	}
	return s, nil
}

// problems collects what is wrong. What its methods return is of use only if nothing is.
type problems struct {
	list      InvalidErrors
	exception string // name of the one that is checked
}

func (p *problems) add(path, format string, args ...any) {
	p.list = append(p.list, &InvalidError{Path: path, Exception: p.exception, Problem: fmt.Sprintf(format, args...)})
}

// machineZone matches what some machines have beside the names of IANA: their own zone, and copies of
// the others, which may count leap seconds.
var machineZone = regexp.MustCompile(`^(Local|localtime|posixrules|(posix|right)/.*)$`)

func (p *problems) zone(path, name string) *time.Location {
	if name == "" {
		p.add(path, "is missing; write an IANA time zone like Europe/Berlin")
		return nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || machineZone.MatchString(name) {
		p.add(path, "%q is not an IANA time zone; write one like Europe/Berlin", name)
	}
	return zone
}

// dateTime is how a message shows an instant.
const dateTime = "Mon 2006-01-02 15:04"

// checkAll checks an exception, and where nothing else is wrong with it whether it changes anything in a zone. One that replaces does so
// by its time alone.
func (p *problems) checkAll(path string, e Exception, zone *time.Location) exception {
	before := len(p.list)
	valid := p.check(path, e)
	if len(p.list) == before && zone != nil && e.Type != Replace && valid.idle(zone) {
		p.add(path+".windows", "none of them is between validFrom and validUntil, which are %s to %s in %s; move these, or correct the windows",
			e.From.In(zone).Format(dateTime), e.Until.In(zone).Format(dateTime), zone)
	}
	return valid
}

func (p *problems) check(path string, e Exception) exception {
	switch e.Type {
	case Replace, Extend, Suspend:
	case "":
		p.add(path+".type", "is missing; write replace, extend or suspend")
	default:
		p.add(path+".type", "%q is none of replace, extend and suspend", e.Type)
	}
	if e.From.IsZero() {
		p.add(path+".validFrom", "is missing")
	}
	if e.Until.IsZero() {
		p.add(path+".validUntil", "is missing")
	} else if !e.Until.After(e.From) {
		p.add(path+".validUntil", "is not after validFrom")
	}
	switch {
	case e.Type == Suspend && (e.LeadTime < 0 || e.LeadTime > MaxLeadTime):
		p.add(path+".leadTime", "%s is not between 0s and %s", e.LeadTime, MaxLeadTime)
	case (e.Type == Replace || e.Type == Extend) && e.LeadTime != 0:
		p.add(path+".leadTime", "is for exceptions of type suspend")
	}
	if (e.Type == Replace || e.Type == Extend) && len(e.Windows) == 0 {
		p.add(path+".windows", "is missing; an exception of type %s needs a window", e.Type)
	}
	return exception{
		Interval: Interval{e.From.Round(0), e.Until.Round(0)}, // without a monotonic clock's reading
		lead:     e.LeadTime,
		windows:  p.windows(path+".windows", e.Windows),
	}
}

func (p *problems) windows(path string, list []Window) []window {
	var valid []window
	changes := 0
	for i, w := range list {
		v := p.window(fmt.Sprintf("%s[%d]", path, i), w)
		if valid = append(valid, v); v != nil {
			changes += v.changes()
		}
	}
	if changes > maxChanges {
		p.add(path, "begin and end %d times a day, more than %d; write fewer, or cron expressions that fire less often", changes, maxChanges)
	}
	return valid
}

func (p *problems) window(path string, w Window) window {
	if w.StartCron == "" && w.EndCron == "" {
		return p.weekly(path, w)
	}
	for _, field := range []struct {
		name string
		set  bool
	}{{".start", w.Start != ""}, {".end", w.End != ""}, {".daysOfWeek", len(w.Days) > 0}} {
		if field.set {
			p.add(path+field.name, "does not go with startCron and endCron")
		}
	}
	start, startOK := p.cron(path+".startCron", w.StartCron)
	end, endOK := p.cron(path+".endCron", w.EndCron)
	if !startOK || !endOK {
		return nil
	}
	valid := newCrons(start, end)
	if !valid.wakes() {
		p.add(path+".endCron", "fires only when startCron does; sleep would never end")
	}
	return valid
}

func (p *problems) weekly(path string, w Window) window {
	var valid weekly
	var startOK, endOK bool
	valid.start, startOK = p.timeOfDay(path+".start", w.Start, "23:59")
	valid.end, endOK = p.timeOfDay(path+".end", w.End, "24:00")
	switch {
	case startOK && endOK && valid.start == valid.end:
		p.add(path+".end", "is the same as start; write 00:00 and 24:00 for a whole day")
	case valid.end < valid.start:
		valid.end += day
	}
	if len(w.Days) == 0 {
		p.add(path+".daysOfWeek", "is missing; list the days that the window starts on")
	}
	for i, name := range w.Days {
		d := slices.Index(dayNames, name)
		switch {
		case d < 0:
			p.add(fmt.Sprintf("%s.daysOfWeek[%d]", path, i), "%q is none of MON, TUE, WED, THU, FRI, SAT and SUN", name)
		case valid.days[d]:
			p.add(fmt.Sprintf("%s.daysOfWeek[%d]", path, i), "%s is there twice", name)
		default:
			valid.days[d] = true
		}
	}
	return valid
}

// dayNames are by time.Weekday.
var dayNames = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

// timeOfDay is HH:MM; H:MM is taken as that.
var timeOfDay = regexp.MustCompile(`^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`)

// timeOfDay returns the seconds from midnight to text, which is no later than latest.
func (p *problems) timeOfDay(path, text, latest string) (seconds int64, ok bool) {
	if len(text) == len("8:00") && text[1] == ':' {
		text = "0" + text
	}
	switch {
	case text == "":
		p.add(path, "is missing; write HH:MM")
		return 0, false
	case !timeOfDay.MatchString(text):
		p.add(path, "%q is not a time of day; write HH:MM", text)
		return 0, false
	case text > latest:
		p.add(path, "%q ends a day; write 00:00", text)
		return 0, false
	}
	hours, _ := strconv.ParseInt(text[:2], 10, 64)
	minutes, _ := strconv.ParseInt(text[3:], 10, 64)
	return (hours*60 + minutes) * minute, true
}

func (p *problems) cron(path, text string) (expression, bool) {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		p.add(path, "is missing; a window has both startCron and endCron, or neither")
		return expression{}, false
	case strings.HasPrefix(trimmed, "TZ="), strings.HasPrefix(trimmed, "CRON_TZ="):
		p.add(path, "%q names a time zone; that of the schedule applies", text)
		return expression{}, false
	case strings.HasPrefix(trimmed, "@every"):
		p.add(path, "%q has no fixed times; write five fields", text)
		return expression{}, false
	}
	parsed, err := cron.ParseStandard(trimmed)
	if err != nil {
		hint := ""
		if strings.Contains(err.Error(), "range (7) above maximum (6)") { // of days of the week: other fields have a 7
			hint = "; Sunday is 0 or SUN"
		}
		p.add(path, "%q is not a cron expression: %v%s", text, err, hint)
		return expression{}, false
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok || !(expression{spec}).fires() {
		p.add(path, "%q never fires", text)
		return expression{}, false
	}
	return expression{spec}, true
}
