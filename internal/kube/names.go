package kube

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// hashLength of base32 characters is 40 bits: two children of one system meet by chance
	// once in a million millions.
	hashLength = 8
	// maxLabel is the longest label value, and the longest DNS label.
	maxLabel = 63
)

// ChildName is the name of an owner's child: readable, at most max characters, a DNS label,
// and different for every owner and every list of parts. Parts are joined with dashes and
// cut from the end; the hash is over the owner's UID and the parts as they are, so that
// ("a-b", "c") and ("a", "b-c"), two namespaces, or an owner deleted and created again,
// never share a name.
func ChildName(maxLength int, owner types.UID, parts ...string) string {
	readable := strings.Map(func(r rune) rune {
		if r == '.' {
			return '-'
		}
		return r
	}, strings.Join(parts, "-"))
	return cut(readable, maxLength-hashLength-1) + "-" + hash(append([]string{string(owner)}, parts...)...)
}

// LabelValue is a name as a label's value: the name itself where it fits, else cut and with
// a hash of the whole.
func LabelValue(name string) string {
	if len(name) <= maxLabel {
		return name
	}
	return cut(name, maxLabel-hashLength-1) + "-" + hash(name)
}

// NamespaceName is name where that can be a namespace's name (63 characters, no dots), else
// a ChildName.
func NamespaceName(owner types.UID, name string) string {
	if len(name) <= maxLabel && !strings.Contains(name, ".") {
		return name
	}
	return ChildName(maxLabel, owner, name)
}

func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.TrimRight(s, "-.")
}

// hash is unambiguous: no part can hold a NUL.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashLength]
}
