package env

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUndescribe(t *testing.T) {
	schema := map[string]any{
		"description": "a", "type": "object",
		"properties": map[string]any{
			"description": map[string]any{"type": "string", "description": "b"},
			"items":       map[string]any{"oneOf": []any{map[string]any{"description": "c", "required": []any{"description"}}}},
		},
	}
	undescribe(schema)
	want := map[string]any{
		"type": "object",
		"properties": map[string]any{
			"description": map[string]any{"type": "string"},
			"items":       map[string]any{"oneOf": []any{map[string]any{"required": []any{"description"}}}},
		},
	}
	if diff := cmp.Diff(want, schema); diff != "" {
		t.Errorf("without descriptions (-want +got):\n%s", diff)
	}
}
