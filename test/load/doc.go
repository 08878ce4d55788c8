// Command load measures how fast the manager is, and what it costs: `make load SCENARIO=name`.
//
// It prints a table, writes bin/load/<scenario>.json and exits with 1 when a gate of
// rangespec.json does not hold, when anything went wrong, or when the machine had other things
// to do. What the figures are worth stands in the package harness.
package main
