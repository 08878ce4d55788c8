package integration_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/test/env"
)

var _ = Describe("What users are shown", func() {
	It("is taken by the API server", func(ctx SpecContext) {
		shown := map[string]string{}
		pages, err := filepath.Glob(filepath.Join(env.Root(), "docs", "*.md"))
		Expect(err).NotTo(HaveOccurred())
		for _, page := range append(pages, filepath.Join(env.Root(), "README.md")) {
			text, err := os.ReadFile(page)
			Expect(err).NotTo(HaveOccurred())
			for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
				if strings.Contains(block[1], "kind: ") { // the others are parts of one
					shown[page+": "+block[1]] = block[1]
				}
			}
		}
		Expect(len(shown)).To(BeNumerically(">=", 4))
		samples := filepath.Join(env.Root(), "config", "samples")
		Expect(filepath.WalkDir(samples, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || strings.Contains(path, "kustomization") {
				return err
			}
			text, err := os.ReadFile(path)
			shown[path] = string(text)
			return err
		})).To(Succeed())
		for name, text := range shown {
			Expect(hub.applies(ctx, metav1.NamespaceNone, text)).To(
				And(ContainSubstring("dry run)"), Not(ContainSubstring("rror"))), name)
		}
	})
})
