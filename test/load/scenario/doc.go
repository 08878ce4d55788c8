// Package scenario is what is measured. No scenario knows a kind: all that they need of one is
// in the harness's Subject.
package scenario
