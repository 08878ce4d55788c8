// Package measure turns samples into figures, figures into verdicts, and both into a table
// and a file. It is pure.
package measure
