package schedule_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/labkeeper/labkeeper/internal/schedule"
)

// The image is from scratch and has no files with time zones: the program has them all in itself. Here there are such
// files, at least those that come with Go, and no file can be opened.
func TestZonesWithoutFiles(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, opened := os.Open(os.DevNull)
	zones := map[string]error{}
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Antarctica/Troll", "UTC"} {
		_, zones[name] = schedule.New(schedule.Spec{Timezone: name, OffHours: parse("MON-FRI 20:00-06:00")})
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(opened, syscall.EMFILE) {
		t.Fatalf("a file is opened: %v", opened)
	}
	for name, err := range zones {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
