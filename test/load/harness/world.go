package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

// worldWorkers is how many objects the world plays at the same time.
const worldWorkers = 16

// RunWorld plays a world until ctx is done. It is a process of its own, so that its CPU is
// known. Every line it writes is an error.
func RunWorld(ctx context.Context, kubeconfig string, world World, errors io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	watching, err := NewClient(config, answerTimeout)
	if err != nil {
		return err
	}
	writing, err := NewClient(config, 0)
	if err != nil {
		return err
	}
	p := &player{world: world, client: writing, errors: errors, objects: map[string]played{}}
	p.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, time.Second))
	for range worldWorkers {
		go p.work(ctx)
	}
	failed := make(chan error, len(world.Watched))
	if err := watching.followAll(ctx, world.Watched, p.happened, func(err error) { failed <- err }); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		p.queue.ShutDown()
		return nil
	case err := <-failed:
		return err
	}
}

// player plays the objects that have changed, each by one worker at a time.
type player struct {
	world  World
	client *Client
	queue  workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex
	errors  io.Writer
	objects map[string]played // as they were seen last, by path
}

type played struct {
	object *Object
	gone   bool
}

func (p *player) happened(e Event) {
	o := e.Object
	o.Metadata.ManagedFields = nil
	path := o.Path()
	p.mu.Lock()
	p.objects[path] = played{&o, e.Type == "DELETED"}
	p.mu.Unlock()
	p.queue.Add(path)
}

func (p *player) work(ctx context.Context) {
	for {
		path, over := p.queue.Get()
		if over {
			return
		}
		p.play(ctx, path)
		p.queue.Done(path)
	}
}

// play takes a step. One that comes too late is no error: the object is seen again.
func (p *player) play(ctx context.Context, path string) {
	p.mu.Lock()
	now := p.objects[path]
	if now.gone {
		delete(p.objects, path)
	}
	p.mu.Unlock()
	if now.object == nil {
		return
	}
	err := Ignore(p.world.Play(ctx, p.client, now.object, now.gone), http.StatusNotFound, http.StatusConflict)
	if err == nil || ctx.Err() != nil {
		p.queue.Forget(path)
		return
	}
	p.mu.Lock()
	fmt.Fprintf(p.errors, "playing %s: %v\n", path, err)
	p.mu.Unlock()
	p.queue.AddRateLimited(path)
}
