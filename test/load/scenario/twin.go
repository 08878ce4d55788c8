package scenario

import (
	"context"
	"strconv"

	"github.com/labkeeper/labkeeper/test/load/harness"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// twin creates objects one after the other, each when the one before is done, in turns with those of a peer if there
// is one: what each takes alone, on the same machine at the same time.
func twin(ctx context.Context, l *harness.Lab, n int) (measure.Figures, error) {
	m, err := l.Begin(ctx, namespace)
	if err != nil {
		return nil, err
	}
	const beside = namespace + "-peer"
	var peer *harness.RunningPeer
	if l.Peer() != nil {
		if peer, err = l.StartPeer(ctx, beside); err != nil {
			return nil, err
		}
	}
	window, err := l.Open(ctx, m)
	if err != nil {
		return nil, err
	}
	if peer != nil {
		if err := peer.Open(ctx); err != nil {
			return nil, err
		}
	}
	for i := range n {
		name := "twin-" + strconv.Itoa(i)
		if err := l.Create(ctx, namespace, name, harness.Plain); err != nil {
			return nil, err
		}
		if err := l.Watcher.Await(ctx, namespace, l.Subject.Done, i+1, patience(1)); err != nil {
			return nil, err
		}
		if peer == nil {
			continue
		}
		if err := peer.Create(ctx, beside, name); err != nil {
			return nil, err
		}
		if err := peer.Await(ctx, beside, i+1, patience(1)); err != nil {
			return nil, err
		}
	}
	f := measure.Figures{}
	if err := window.Close(ctx, n, f); err != nil {
		return nil, err
	}
	stories := l.Counted(namespace, n)
	l.PutReactions(stories, f)
	f.Put("statuses", statuses(stories))
	if peer == nil {
		return f, nil
	}
	return f, peer.Close(ctx, beside, n, f)
}
