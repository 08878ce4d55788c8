package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/internal/executor/cluster"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// Store is where the restore point of one target is kept, for one execution.
type Store interface {
	// Load reads the point; nil if none was ever written. Errors: *Failure with RestorePointLost or Superseded, and
	// others, after which it may be tried again.
	Load(ctx context.Context) (*restore.Point, error)
	// Save writes the point, and the result if there is one, durably and at once: both or none. Without a point the one
	// that there is stays. An error other than *Failure and *restore.TooLargeError leaves open whether it was written;
	// it may be tried again.
	Save(ctx context.Context, point *restore.Point, result *Result) error
}

// ConfigMaps is what a store needs of those of a namespace.
type ConfigMaps interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.ConfigMap, error)
	Update(ctx context.Context, c *corev1.ConfigMap, o metav1.UpdateOptions) (*corev1.ConfigMap, error)
}

// configMapStore keeps a point in a ConfigMap that the manager has made.
type configMapStore struct {
	api             ConfigMaps
	name, execution string
	// object as it was read or written last; nil before.
	object *corev1.ConfigMap
	// tried are the points that may have been written, since the one in object, without that it was told.
	tried [][]byte
}

// NewConfigMapStore keeps the point in the ConfigMap of that name, as long as that names the execution.
func NewConfigMapStore(api ConfigMaps, name, execution string) Store {
	return &configMapStore{api: api, name: name, execution: execution}
}

// fieldOwner is who writes restore points.
const fieldOwner = "labkeeper-runner"

// conflicts are how often a write is tried that others come before.
const conflicts = 5

// Load reads the ConfigMap.
func (s *configMapStore) Load(ctx context.Context) (*restore.Point, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	content, ok := s.object.BinaryData[KeyPoint]
	if !ok {
		return nil, nil
	}
	point, err := restore.Decode(content)
	if err != nil {
		return nil, &Failure{ReasonRestorePointLost, fmt.Errorf("reading ConfigMap %s: %w", s.name, err)}
	}
	return point, nil
}

// read reads the ConfigMap and looks who may write to it, and who has.
func (s *configMapStore) read(ctx context.Context) error {
	object, err := s.api.Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case cluster.IsGone(err):
		return s.lost()
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s: %w", s.name, err)
	}
	if named := object.Annotations[AnnotationExecution]; named != s.execution {
		return failure(ReasonSuperseded, "ConfigMap %s is that of execution %q, and this is %q", s.name, named, s.execution)
	}
	// One that was taken away is no other's: what is known of it here is all that is left of it.
	point, there := object.BinaryData[KeyPoint]
	ours := func(other []byte) bool { return bytes.Equal(point, other) }
	if s.object != nil && there && !ours(s.object.BinaryData[KeyPoint]) && !slices.ContainsFunc(s.tried, ours) {
		return failure(ReasonSuperseded, "another runner of execution %q has written to ConfigMap %s", s.execution, s.name)
	}
	s.object = object
	return nil
}

func (s *configMapStore) lost() error {
	return failure(ReasonRestorePointLost, "ConfigMap %s does not exist; bring it back from a backup, or wake the target by hand", s.name)
}

// Save updates the ConfigMap.
func (s *configMapStore) Save(ctx context.Context, point *restore.Point, result *Result) error {
	if s.object == nil {
		return errors.New("writing ConfigMap " + s.name + ": it was not read")
	}
	set, err := s.contents(point, result)
	if err != nil {
		return err
	}
	for range conflicts {
		object := s.object.DeepCopy()
		set(object)
		written, err := s.api.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldOwner})
		switch {
		case err == nil:
			s.object, s.tried = written, nil
			return nil
		case cluster.IsGone(err):
			return s.lost()
		case !apierrors.IsConflict(err):
			// It may have come through, and a later write then finds it there.
			s.tried = append(s.tried, object.BinaryData[KeyPoint])
			return fmt.Errorf("writing ConfigMap %s: %w", s.name, err)
		}
		if err := s.read(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("writing ConfigMap %s: others have written to it %d times meanwhile", s.name, conflicts)
}

// contents sets what is to be written.
func (s *configMapStore) contents(point *restore.Point, result *Result) (func(*corev1.ConfigMap), error) {
	var content, told []byte
	var err error
	if point != nil {
		if content, err = point.Encode(); err != nil {
			return nil, fmt.Errorf("writing ConfigMap %s: %w", s.name, err)
		}
	}
	if result != nil {
		if told, err = result.Encode(); err != nil {
			return nil, fmt.Errorf("writing ConfigMap %s: %w", s.name, err)
		}
	}
	return func(c *corev1.ConfigMap) {
		if content != nil {
			if c.BinaryData == nil {
				c.BinaryData = map[string][]byte{}
			}
			c.BinaryData[KeyPoint] = content
		}
		if told != nil {
			if c.Data == nil {
				c.Data = map[string]string{}
			}
			c.Data[KeyResult] = string(told)
		}
	}, nil
}
