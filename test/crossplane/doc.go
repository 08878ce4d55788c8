// Package crossplane tests config/crossplane: what a hub applies so that Crossplane makes the
// clusters of targets of type gke.
//
// What a kustomization lists is what is tested. It is held against four things: the claim that the
// manager writes and the rest of the tests believe in (test/crds/gkecluster.yaml); Crossplane's own
// definitions, of v1.20 and v2, which `make k8s` copies; the input of function-patch-and-transform,
// by the schema of spec.resources in Crossplane v1.20, which the Function took over; and gcp.yaml,
// the fields of provider-gcp's resources that the compositions use, written from the provider's API
// types, and the provider's own definitions; those of namespaced resources are made of the others' ([Provider]), because
// version 2 of the provider is not to be had as a Go module. With Crossplane and the Functions themselves clusters are
// composed by `make test-crossplane`, in both ways.
//
// [render] does what function-patch-and-transform does with the patches that are in use, and refuses
// all others. It is written from the Function's documentation and source and is not the Function; what it
// makes of both compositions was once compared with what Crossplane v1.20's own patch and transform, from
// which the Function comes, makes of them, and was the same.
package crossplane
