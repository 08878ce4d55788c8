// Package crds holds objects of outside kinds against the CustomResourceDefinitions of those
// kinds, so that a test fails when we write or read a field that does not exist.
//
// Outside objects are unstructured: the compiler checks no path into them, and neither does the
// fake client. [Schemas.Validate] is the check for what we build. It is as strict as an API
// server that is asked for strict field validation on create, and a little stricter.
// [Schemas.HasField] is the check for the paths that we read.
//
// The definitions come from two places, which [Default] loads: test/crds holds those of
// projects that publish no Go module, and short ones of Argo Workflows; bin/crds those that
// `make k8s` copies from the modules of others.
package crds
