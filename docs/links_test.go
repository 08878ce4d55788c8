// Package docs holds what users read beside the README.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	strange = regexp.MustCompile("[^a-z0-9 -]")
	code    = regexp.MustCompile("(?s)```.*?```")
)

// anchors are those that a page's headings have where it is shown.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(code.ReplaceAllString(page, ""), -1) {
		found[strings.ReplaceAll(strange.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

// A link between pages leads to a file that is there, and to a heading that it has.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("there are the pages %q: this test proves nothing (%v)", pages, err)
	}
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		links := link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1)
		if len(links) == 0 {
			t.Errorf("%s has no links: this test proves nothing of it", page)
		}
		for _, l := range links {
			to, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			there := page
			if to != "" {
				there = filepath.Join(filepath.Dir(page), to)
			}
			target, err := os.ReadFile(there)
			if err != nil {
				t.Errorf("%s: %s: %v", page, l[1], err)
			} else if anchor != "" && !anchors(string(target))[anchor] {
				t.Errorf("%s: %s: there is no such heading", page, l[1])
			}
		}
	}
}
