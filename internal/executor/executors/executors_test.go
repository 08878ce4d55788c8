package executors_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/executors"
)

func TestAll(t *testing.T) {
	t.Parallel()
	for name, parameters := range map[string]string{
		"noop":           `{}`,
		"karpenter":      `{}`,
		"workloadscaler": `{"namespace": {"literals": ["shop"]}}`,
	} {
		if _, err := executors.All().Parse(name, json.RawMessage(parameters)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err := executors.All().Parse(name, json.RawMessage(`{"nonsense": 1}`))
		if invalid, is := errors.AsType[*executor.InvalidError](err); !is || invalid.Path != "nonsense" {
			t.Errorf("%s: got %v, want an error of nonsense", name, err)
		}
	}
}
