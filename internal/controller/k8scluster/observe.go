package k8scluster

import (
	"context"
	"errors"

	"github.com/labkeeper/labkeeper/internal/connector"
)

// Observed is what a pass has seen.
type Observed struct {
	// Asked says that the server was asked and takes the credentials; Version is what it says it is.
	Asked   bool
	Version string
	// Refused is why the cluster cannot be used.
	Refused *connector.Error
}

// observe asks the cluster, if somebody here can. What is wrong with the connector is no error.
func (s *scope) observe(ctx context.Context) (err error) {
	access := s.owner.Spec.K8S
	if access == nil {
		return nil
	}
	config := s.Own
	if access.KubeconfigRef != nil {
		k, err := connector.Read(ctx, s.Live, s.owner.Namespace, *access.KubeconfigRef)
		if err != nil {
			return s.refused(err)
		}
		config = k.Config
	}
	if s.seen.Version, err = s.Ask(ctx, config); err != nil {
		return s.refused(err)
	}
	s.seen.Asked = true
	return nil
}

// refused takes in what is wrong with the connector; any other error it returns.
func (s *scope) refused(err error) error {
	if errors.As(err, &s.seen.Refused) {
		return nil
	}
	return err
}
