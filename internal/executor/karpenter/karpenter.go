// Package karpenter puts NodePools of Karpenter to sleep: it takes their nodes, and lets them have none.
//
// # Parameters
//
//	nodePools: [gpu, spot]                  # by their names, at least one
//	nodeSelector: {matchLabels: {team: ml}} # or by their own labels; neither is all
//	awaitCompletion: {enabled: true, timeout: 5m}
//
// # What is changed
//
// spec.limits.cpu of a NodePool (karpenter.sh/v1) is set to "0", so that Karpenter makes no more nodes for it; other
// limits stay. Then its NodeClaims are deleted, which drains their nodes as they would be for any other reason: budgets
// of pods and karpenter.sh/do-not-disrupt hold that up until terminationGracePeriod of the NodePool. The NodePool itself
// is never deleted: it may be in GitOps, and nothing of it but the limit has to be kept. To wake is to bring back that
// limit; Karpenter makes nodes as pods need them, so that is settled at once.
//
// In the manager's own cluster a NodePool with the node that the manager is on is refused: nobody would wake it. Let the manager run
// elsewhere, or leave it out. The node that the runner is on goes when it has ended, as it has karpenter.sh/do-not-disrupt, and is not
// waited for; what wakes needs room elsewhere.
//
// A NodePool that has a limit of zero before, of whatever resource, is left as it is, with the nodes that it has: when it wakes, none
// could come back.
//
// A NodeClaim that Karpenter was making when the limit came is deleted by the next call of Shutdown; until then Settled
// says that it is there. A NodePool with static capacity (spec.replicas) takes no limit of cpu: the API server refuses
// it, and the error names the pool.
//
// # What others change meanwhile
//
// It stays: a limit that is not "0" any more is left, and so is a NodePool that is gone, or was deleted and created
// again, and one that an admission webhook gives another limit than it is woken with. One that somebody changes between
// the capture and the moment that it is put to sleep, or that was deleted and created again and may have nodes when
// another attempt comes, is captured again; until then the latter keeps its attempt from success. NodePools that the
// cluster serves in another version only are not gone: that fails, until it serves karpenter.sh/v1 again.
//
// What an admission webhook does not let have the limit of 0 keeps its nodes, and has its limit back at once; the attempt
// has failed. Where a runner does not come to that, managedFields tell that nobody else has made that of it.
//
// What Argo CD manages counts as asleep when it has been so for some seconds, as workloads do (internal/executor/cluster);
// the error says who has woken it, and what he needs. Its nodes are drained once by that: another attempt waits those
// seconds before. Of what has its limit again by somebody else when it is to wake the note says that it was awake already.
package karpenter

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/executor/cluster"
	"github.com/labkeeper/labkeeper/internal/restore"
)

const (
	// Type of targets.
	Type = "karpenter"
	// ClusterRole of runners.
	ClusterRole = "labkeeper-runner-karpenter"

	usualTimeout = 5 * time.Minute
	usualPause   = 2 * time.Second
	// labelPool is on the NodeClaims and the Nodes of a NodePool.
	labelPool = "karpenter.sh/nodepool"
	prefix    = "NodePool.karpenter.sh/"
)

var (
	nodePools  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// Executor is that of NodePools.
type Executor struct{}

// spec is the parameters as they are written.
type spec struct {
	NodePools       []string                  `json:"nodePools"`
	NodeSelector    *metav1.LabelSelector     `json:"nodeSelector"`
	AwaitCompletion *executor.AwaitCompletion `json:"awaitCompletion"`
}

// parameters are what was read.
type parameters struct {
	names    []string
	selector string
	await    time.Duration
	// emptied says that nodePools was written, and names none.
	emptied bool
}

// Parse reads parameters.
func (Executor) Parse(raw json.RawMessage) (executor.Parameters, error) {
	var s spec
	if err := executor.Decode(raw, &s); err != nil {
		return nil, err
	}
	p := &parameters{names: slices.Clone(s.NodePools), emptied: s.NodePools != nil && len(s.NodePools) == 0}
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	if slices.Contains(p.names, "") {
		return nil, &executor.InvalidError{Path: "nodePools", Problem: "a name is empty"}
	}
	if s.NodeSelector != nil && len(p.names) > 0 {
		return nil, &executor.InvalidError{Path: "nodeSelector", Problem: "there are nodePools; write one of the two"}
	}
	var err error
	if p.selector, err = executor.Selector("nodeSelector", s.NodeSelector); err != nil {
		return nil, err
	}
	if p.await, err = s.AwaitCompletion.For(usualTimeout); err != nil {
		return nil, err
	}
	return p, nil
}

// Mistake is a list of no NodePools, which would be all.
func (p *parameters) Mistake() error {
	switch {
	case !p.emptied:
		return nil
	case p.selector != "":
		return &executor.InvalidError{Path: "nodePools", Problem: "it is empty, and there is a nodeSelector; leave it out"}
	}
	return &executor.InvalidError{Path: "nodePools", Problem: "it is empty; name some, or leave it out for all"}
}

// Needs are rights in the cluster.
func (p *parameters) Needs() executor.Needs {
	return executor.Needs{ClusterRole: ClusterRole, Cluster: true}
}

// Open readies the target.
func (p *parameters) Open(_ context.Context, session executor.Session) (executor.Target, error) {
	client, err := dynamic.NewForConfig(session.Config)
	if err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	server, err := discovery.NewDiscoveryClientForConfig(session.Config)
	if err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	return &target{parameters: p, session: session, client: client, discovery: server, watch: cluster.Watch{}, pause: usualPause}, nil
}

// target is what a plan names.
type target struct {
	*parameters
	session   executor.Session
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	// watch is of NodePools that Argo CD may wake, by key; and pause between two looks at one that it has woken before.
	watch cluster.Watch
	pause time.Duration
}

// state of a NodePool.
type state struct {
	UID types.UID `json:"uid"`
	// Limits of it, null where there are none.
	Limits map[string]any `json:"limits"`
	// Ours says that a runner was the last to write limits.cpu, and yet it is not asleep: an admission webhook has made that of it. A
	// runner of before reads past it.
	Ours bool `json:"ours,omitempty"`
}

// asleep is spec.limits.cpu of a NodePool that sleeps.
const asleep = "0"

// Snapshot lists the NodePools.
func (t *target) Snapshot(ctx context.Context) ([]executor.Resource, error) {
	found, err := cluster.List(ctx, t.client.Resource(nodePools), metav1.ListOptions{LabelSelector: t.selector})
	if cluster.Unserved(err, nodePools, t.discovery) {
		return nil, errors.New("listing NodePools: the cluster does not serve karpenter.sh/v1; install Karpenter, or remove the target")
	}
	if err != nil {
		return nil, fmt.Errorf("listing NodePools: %w", err)
	}
	missing := slices.Clone(t.names)
	var resources []executor.Resource
	for i := range found {
		pool := &found[i]
		if len(t.names) > 0 && !slices.Contains(t.names, pool.GetName()) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == pool.GetName() })
		resources = append(resources, executor.Resource{Key: prefix + pool.GetName(), State: encode(look(pool))})
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("listing NodePools: there is no %s; correct nodePools", strings.Join(missing, ", "))
	}
	return resources, t.withhold(ctx, resources)
}

// withhold refuses the NodePool that the manager is on. One that may have no nodes as it is found keeps those that it has.
func (t *target) withhold(ctx context.Context, resources []executor.Resource) error {
	if t.session.ManagerNode == "" {
		return nil
	}
	found, err := cluster.List(ctx, t.client.Resource(nodes), metav1.ListOptions{FieldSelector: "metadata.name=" + t.session.ManagerNode})
	if err != nil {
		return fmt.Errorf("listing node %s, which the manager is on: %w", t.session.ManagerNode, err)
	}
	for _, node := range found {
		key := prefix + node.GetLabels()[labelPool]
		i := slices.IndexFunc(resources, func(r executor.Resource) bool { return r.Key == key })
		if i < 0 {
			continue
		}
		if pool, err := decode(key, resources[i].State); err != nil || !frozen(pool) {
			return &executor.InvalidError{Problem: fmt.Sprintf("%s has node %s, which the manager is on: what wakes the targets must not sleep; "+
				"leave it out by nodePools or nodeSelector, or let the manager run elsewhere", name(key), node.GetName())}
		}
	}
	return nil
}

// nodeOf is the node of a NodeClaim, or a Node itself.
func nodeOf(o *unstructured.Unstructured) string {
	if o.GetKind() == "Node" {
		return o.GetName()
	}
	node, _, _ := unstructured.NestedString(o.Object, "status", "nodeName")
	return node
}

// look is how a NodePool is.
func look(pool *unstructured.Unstructured) state {
	limits, _, _ := unstructured.NestedMap(pool.Object, "spec", "limits")
	s := state{UID: pool.GetUID(), Limits: limits}
	s.Ours = !isAsleep(s) && slices.Contains(by(pool).Names, cluster.Sleeps)
	return s
}

// cameBack says whether a NodePool was put to sleep, and has come back so from a backup.
func cameBack(pool *unstructured.Unstructured) bool {
	return cluster.CameBack(pool, "spec", "limits", "cpu")
}

// another says whether a NodePool is not the one that there was, nor that as it has come back from a backup.
func another(pool *unstructured.Unstructured, before state) bool {
	if pool.GetUID() == before.UID || cameBack(pool) {
		return false
	}
	woken := same(look(pool).Limits["cpu"], before.Limits["cpu"]) && // what came back, and has been woken
		slices.ContainsFunc(cluster.Writers(pool, "spec", "limits"), func(w metav1.ManagedFieldsEntry) bool { return w.Manager == cluster.Wakes })
	return !woken
}

// Renew takes a NodePool as it is now, unless it sleeps or was put to sleep in this cycle. One that was created again nobody has put to sleep.
func (t *target) Renew(known restore.Resource, found json.RawMessage, former bool) (renewed json.RawMessage, woken bool, err error) {
	before, err := decode(known.Key, known.Before)
	if err != nil {
		return nil, false, err
	}
	now, err := decode(known.Key, found)
	if err != nil {
		return nil, false, err
	}
	sleeps, touched, other := isAsleep(now), !known.Untouched(), now.UID != before.UID
	woken = (former || other) && !sleeps
	kept := sleeps || touched && !former || !touched && now.Ours || sameLimits(now, before)
	if other {
		kept = sleeps && touched // it was deleted and created again while it was asleep
	}
	if kept {
		return known.Before, woken, nil
	}
	return found, woken, nil
}

// Shutdown lets a NodePool have no nodes any more, and deletes its NodeClaims.
func (t *target) Shutdown(ctx context.Context, captured executor.Captured) (json.RawMessage, error) {
	key := captured.Key
	before, err := decode(key, captured.Before)
	if err != nil {
		return nil, err
	}
	l, err := t.limit(ctx, captured, before)
	if cluster.IsGone(err) || err == nil && l.slept == nil {
		return executor.Gone, nil
	}
	if err == nil && l.healed {
		err = t.stays(ctx, key)
	}
	if err != nil {
		return nil, fmt.Errorf("limiting %s: %w", name(key), err)
	}
	if l.keeps {
		return encode(l.slept), nil
	}
	if err := t.deleteClaims(ctx, key); err != nil {
		return nil, err
	}
	return encode(l.slept), nil
}

// limited is a NodePool that may have no nodes any more.
type limited struct {
	// slept is how it is then, nil if it has gone.
	slept *state
	// keeps says that it is left as it was found, with its nodes.
	keeps bool
	// healed says that Argo CD had woken it since an attempt before.
	healed bool
}

// stays is an error unless a NodePool that Argo CD has woken before stays asleep this time: its nodes would be drained again by every
// attempt, and come back.
func (t *target) stays(ctx context.Context, key string) error {
	for range cluster.Watched {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(t.pause):
		}
		pool, err := t.read(ctx, key)
		if err != nil || pool == nil {
			return err
		}
		if said, err := again(pool); err != nil || said != "" {
			return cmp.Or(err, errors.New(said))
		}
	}
	return nil
}

// by is who has given a NodePool its limit.
func by(pool *unstructured.Unstructured) cluster.Writer {
	return cluster.By(pool, "spec", "limits", "cpu")
}

// again says that a NodePool that was put to sleep is not asleep any more. It is an error, *executor.WokenError, where Argo CD has woken it.
func again(pool *unstructured.Unstructured) (string, error) {
	now, w := look(pool), by(pool)
	if isAsleep(now) {
		return "", nil
	}
	problem := fmt.Sprintf("spec.limits.cpu is %s again", encode(now.Limits["cpu"]))
	if w.Application != "" {
		return "", &executor.WokenError{Problem: problem, Cause: w.Cause()}
	}
	return problem + w.Note(), nil
}

// limit lets a NodePool have no nodes any more.
func (t *target) limit(ctx context.Context, captured executor.Captured, before state) (l limited, err error) {
	key := captured.Key
	err = cluster.Retry(ctx, func() error {
		l.slept = nil
		pool, err := t.read(ctx, key)
		if err != nil || pool == nil || another(pool, before) {
			return err
		}
		found := look(pool)
		if err := changed(pool, captured, before); err != nil {
			return err
		}
		// As it was found: its nodes could not come back.
		if l.keeps = frozen(before) || frozen(found) && !isAsleep(found); !l.keeps && !isAsleep(found) {
			l.healed = l.healed || !captured.Untouched() && by(pool).Application != ""
			captured.Fresh = false
			if pool, err = t.freeze(ctx, pool, before); err != nil {
				return err
			}
		}
		now := look(pool)
		l.slept = &now
		return nil
	})
	return l, err
}

// changed is an error where a NodePool is not as it was captured, and not as a runner has left it, or nobody knows how it was.
func changed(pool *unstructured.Unstructured, captured executor.Captured, before state) error {
	found := look(pool)
	switch {
	case isAsleep(before) && isAsleep(found) && cameBack(pool):
		return errUnknown
	case captured.Untouched() && found.Ours:
		return nil
	case captured.Changed(sameLimits(found, before), isAsleep(before), isAsleep(found)):
		return &executor.ChangedError{State: encode(found), Fresh: captured.Fresh}
	}
	return nil
}

// errUnknown is that a NodePool was captured as it has come back from a backup, asleep: nobody knows how it was, and it would stay so.
var errUnknown = errors.New("it has come back from a backup as a plan had put it to sleep, and how it was is not known: give spec.limits.cpu the value that it is to have " +
	"by day, or, where that is 0, another one first")

// freeze gives a NodePool the limit that it is put to sleep by, and returns it as it is then.
func (t *target) freeze(ctx context.Context, pool *unstructured.Unstructured, before state) (*unstructured.Unstructured, error) {
	limits := map[string]any{"spec": map[string]any{"limits": map[string]any{"cpu": asleep}}}
	frozen, err := cluster.Patch(ctx, t.client.Resource(nodePools), pool, limits, cluster.Sleeps)
	if err == nil && !isAsleep(look(frozen)) {
		err = t.takeBack(ctx, frozen, before)
	}
	return frozen, err
}

// takeBack gives a NodePool the limit again that it had, because an admission webhook has made something else of the one that it was to be
// put to sleep with. It returns what was wrong.
func (t *target) takeBack(ctx context.Context, pool *unstructured.Unstructured, before state) error {
	made := look(pool)
	_, err := cluster.Patch(ctx, t.client.Resource(nodePools), pool, map[string]any{"spec": back(made, before)}, cluster.Wakes)
	return errors.Join(fmt.Errorf("spec.limits.cpu was set to %q, and the server has made %s of that; see what changes it on admission", asleep, encode(made.Limits["cpu"])), err)
}

// back is what gives a NodePool its limit again.
func back(now, before state) map[string]any {
	if before.Limits == nil && len(now.Limits) == 1 {
		return map[string]any{"limits": nil}
	}
	return map[string]any{"limits": map[string]any{"cpu": before.Limits["cpu"]}} // nil, which takes it away, where there was none
}

// deleteClaims deletes the NodeClaims of a NodePool, all that can be.
func (t *target) deleteClaims(ctx context.Context, key string) error {
	claims, err := t.of(ctx, nodeClaims, key)
	if err != nil {
		return err
	}
	var problems []error
	for i := range claims {
		if claims[i].GetDeletionTimestamp() != nil {
			continue
		}
		if node := nodeOf(&claims[i]); node != "" && node == t.session.ManagerNode {
			problems = append(problems, fmt.Errorf("deleting NodeClaim %s: its node %s is the one that the manager is on", claims[i].GetName(), node))
			continue
		}
		uid := claims[i].GetUID()
		err := t.client.Resource(nodeClaims).Delete(ctx, claims[i].GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !cluster.IsGone(err) && !apierrors.IsConflict(err) { // another has its name by now
			problems = append(problems, fmt.Errorf("deleting NodeClaim %s: %w", claims[i].GetName(), err))
		}
	}
	return errors.Join(problems...)
}

// of is the NodeClaims or Nodes of a NodePool.
func (t *target) of(ctx context.Context, gvr schema.GroupVersionResource, key string) ([]unstructured.Unstructured, error) {
	found, err := cluster.List(ctx, t.client.Resource(gvr), metav1.ListOptions{LabelSelector: labelPool + "=" + strings.TrimPrefix(key, prefix)})
	if err != nil {
		return nil, fmt.Errorf("listing %s of %s: %w", gvr.Resource, name(key), err)
	}
	return found, nil
}

// WakeUp gives a NodePool its limits back.
func (t *target) WakeUp(ctx context.Context, resource restore.Resource) (executor.Ending, error) {
	before, err := decode(resource.Key, resource.Before)
	if err != nil {
		return executor.Ending{}, err
	}
	var note, already string
	err = cluster.Retry(ctx, func() error {
		pool, err := t.read(ctx, resource.Key)
		if err != nil {
			return err
		}
		var changes any
		if changes, note = wake(pool, before, len(resource.Slept) == 0); changes == nil {
			already = awake(pool, before, resource)
			return nil
		}
		woken, err := cluster.Patch(ctx, t.client.Resource(nodePools), pool, map[string]any{"spec": changes}, cluster.Wakes)
		if err != nil {
			return err
		}
		if was, made := before.Limits["cpu"], look(woken).Limits["cpu"]; !same(was, made) {
			note = fmt.Sprintf("spec.limits.cpu was %s, and the server has made %s of that; see what changes it on admission", encode(was), encode(made))
		}
		return nil
	})
	if cluster.IsGone(err) {
		note, err = isGone, nil
	}
	switch {
	case err != nil:
		return executor.Ending{}, fmt.Errorf("waking %s: %w", name(resource.Key), err)
	case note != "":
		return executor.Ending{State: restore.Left, Note: note}, nil
	}
	return executor.Ending{State: restore.Restored, Note: already}, nil
}

// awake says that a NodePool that was put to sleep was found as it was before: somebody else has woken it, as far as anybody tells.
func awake(pool *unstructured.Unstructured, before state, resource restore.Resource) string {
	slept, err := decode(resource.Key, resource.Slept)
	if err != nil || pool == nil || !isAsleep(slept) || isAsleep(before) || !by(pool).Others() {
		return ""
	}
	return fmt.Sprintf("it was awake already: spec.limits.cpu is %s%s", encode(before.Limits["cpu"]), by(pool).Note())
}

const isGone = "it is gone"

// wake is what brings a NodePool back, nil if nothing has to be, or why it is left. What nobody has told of (untold) may be as a runner has
// left it, or as somebody else has put it to sleep.
func wake(pool *unstructured.Unstructured, before state, untold bool) (changes any, note string) {
	if pool == nil {
		return nil, isGone
	}
	now := look(pool)
	cpu := before.Limits["cpu"]
	switch {
	case another(pool, before):
		return nil, fmt.Sprintf("it was deleted and created again while it was asleep: spec.limits.cpu was %s", encode(cpu))
	case same(now.Limits["cpu"], cpu):
		return nil, ""
	case !isAsleep(now) && (!untold || !now.Ours), untold && isAsleep(now) && by(pool).Others():
		return nil, fmt.Sprintf("somebody has changed it while it was asleep: spec.limits.cpu is %s%s", encode(now.Limits["cpu"]), by(pool).Note())
	}
	return back(now, before), ""
}

// Settled says whether the nodes of a NodePool are gone.
func (t *target) Settled(ctx context.Context, resource restore.Resource, late bool) (string, error) {
	if t.session.Operation != dispatch.Shutdown || bytes.Equal(resource.Slept, executor.Gone) {
		return "", nil
	}
	before, err := decode(resource.Key, resource.Before)
	if err != nil {
		return "", err
	}
	pool, err := t.read(ctx, resource.Key)
	if err != nil || pool == nil {
		return "", err
	}
	switch now, other := look(pool), another(pool, before); {
	case other && !isAsleep(now): // the next attempt puts it to sleep
		return fmt.Sprintf("it was deleted and created again: spec.limits.cpu is %s", encode(now.Limits["cpu"])), nil
	case other || frozen(before):
		return "", nil
	case !isAsleep(now):
		return again(pool)
	}
	watched := t.watch.Look(resource.Key, pool)
	left, err := t.left(ctx, resource.Key)
	if err != nil || left != "" || late {
		return left, err
	}
	return watched, nil
}

// left says what a NodePool still has, but for the node that the runner is on.
func (t *target) left(ctx context.Context, key string) (string, error) {
	var left []string
	for _, gvr := range []schema.GroupVersionResource{nodeClaims, nodes} {
		found, err := t.of(ctx, gvr, key)
		if err != nil {
			return "", err
		}
		if t.session.RunnerNode != "" { // which goes when this run has ended
			found = slices.DeleteFunc(found, func(o unstructured.Unstructured) bool { return nodeOf(&o) == t.session.RunnerNode })
		}
		if len(found) > 0 {
			left = append(left, fmt.Sprintf("%d %ss, the first %s", len(found), found[0].GetKind(), found[0].GetName()))
		}
	}
	if len(left) == 0 {
		return "", nil
	}
	return strings.Join(left, ", and ") + ", are left", nil
}

// Await is how long nodes may take.
func (t *target) Await() time.Duration { return t.await }

// read is a NodePool; nil if there is none.
func (t *target) read(ctx context.Context, key string) (*unstructured.Unstructured, error) {
	kind := schema.GroupKind{Group: nodePools.Group, Kind: "NodePool"}
	pool, err := cluster.Get(ctx, t.client.Resource(nodePools), strings.TrimPrefix(key, prefix), kind, t.discovery)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name(key), err)
	}
	return pool, nil
}

// name of a NodePool as people read it.
func name(key string) string { return "NodePool " + strings.TrimPrefix(key, prefix) }

// isAsleep says whether a NodePool has the limit that it is put to sleep by.
func isAsleep(s state) bool { return same(s.Limits["cpu"], asleep) || same(s.Limits["cpu"], 0) }

// ofEveryNode are the resources that every node has. Where none of another may be had, as GPUs, there are nodes without.
var ofEveryNode = []string{"cpu", "memory", "pods", "ephemeral-storage", "nodes"}

// frozen says whether a NodePool may have no nodes, by whatever limit.
func frozen(s state) bool {
	for name, limit := range s.Limits {
		if !slices.Contains(ofEveryNode, name) {
			continue
		}
		if n, err := resource.ParseQuantity(fmt.Sprint(limit)); err == nil && n.IsZero() {
			return true
		}
	}
	return false
}

// sameLimits says whether two have the same limits; none are the same as an empty object.
func sameLimits(a, b state) bool {
	return len(a.Limits)+len(b.Limits) == 0 || same(a.Limits, b.Limits)
}

func same(a, b any) bool { return bytes.Equal(encode(a), encode(b)) }

// decode reads how a NodePool was.
func decode(key string, raw json.RawMessage) (state, error) {
	var s state
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&s); err != nil {
		return s, fmt.Errorf("reading state of %s: %w", name(key), err)
	}
	if s.UID == "" || !strings.HasPrefix(key, prefix) {
		return s, fmt.Errorf("reading state of %s: it is not whole", name(key))
	}
	return s, nil
}

// encode is a value that came from JSON.
func encode(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // it came from JSON
	}
	return raw
}
