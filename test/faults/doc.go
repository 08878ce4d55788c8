// Package faults shows that a reconciler comes to the same end whatever happens to it. It
// runs the real manager as a child process behind a proxy in front of a real API server,
// twice undisturbed as the reference, and then again for every write that it makes: killed
// after that write is stored and before it knows, with the answer lost, refused or late, with
// the API server restarted, with what it watches late, coalesced or doubled, put back in
// time, or with what it reads refused. What a run came to is compared with the reference by the oracles O1 to O9.
//
// Nothing in here knows a kind. A World says which kinds there are, what belongs together
// and how the outside systems behave; a Workload says what a user does. The package
// test/faults/toy shows all that it takes; test/faults/experiment is the first that matters.
//
// # Why the reference is the same every time
//
// A point of fault is the ordinal of a write, so the writes must be the same in every run.
// The manager has one worker and reads its own writes; every run has a namespace, a proxy
// and a manager of its own, which watches only that namespace and only the kinds of its World
// (--controllers: half of what a run costs is managers that start); what is applied, is applied
// when the manager has nothing left to ask for. The World must not race: a step of an
// outside that the manager could see in one pass or in two waits until the manager has told
// of the step before. Runs have nothing in common but the API server, so several are played
// side by side; one whose road parts from the reference before its fault is played again.
//
// The manager is built with the tag faults, which replaces its clock and its randomness, and has
// the ledgers of HibernatePlans written without a pace, which would be one of that clock: what
// goes on between two of their writes is in no run. The clock stands still at the start of the lab
// until a workload moves it on (Stage.Advance), so that the times the manager writes are compared
// too. Where no time is written at which something is due, the workload moves the clock there and no further
// (Stage.Due): what is late is never done then, and what is early is written a second before, when without a fault
// nothing may be.
//
// Random in that process are: how long an informer waits before it lists again after an error, which decides in which
// order kinds come back, and which the tag seeds; how long a watch lasts, which is minutes, and when informers resync,
// which is hours, longer than any run; when a lost Event is sent again, and Events are not counted; the renewal of the
// lease, and there is no leader election in a run. The queue and its backoff have no randomness.
//
// # What of an end is compared
//
// Every field of every object, without what is different in every run: namespaces, UIDs, and the hashes in names,
// which are numbered as they came, so that they are different or the same as in the reference. A word of eight letters
// is written like a hash; it is none where both references have it. A time is compared by how far it is from where the
// manager's clock began, or from when its object came: a deadline that a restart has moved is a difference. One that
// lies within the run may be of another clock, and is like any other that does. A field in which the references differ
// by a hash is compared without that; if they differ by more, they are none. What the manager has written and what
// belongs to no run would be seen by nobody, so there is none; nor is anything written that is somebody else's
// (World.Others), whatever becomes of it.
//
// What a workload excepts from the rules (Workload.Breaks, Leaves) its references have need of, or that is a finding.
//
// # The order across kinds
//
// The recorder watches every kind by itself, so it hears of two kinds in any order. There is one
// etcd, and what it stores it numbers: by resource version the history is that of the commits.
// The invariants of a World (oracle O9) see every prefix of it. One that is about what is deleted asks who has asked
// for that first (Entry.Own), which the proxy knows by the answers: what a user deletes that others need is none of the
// manager's. What a workload breaks all the same it names, and it is not judged there.
//
// # How watches are disturbed
//
// The proxy asks for JSON, which can be taken apart into events, and passes them on late, once or twice (streams.go).
// Each watch alone keeps its order, as those of the API server do. What is held is held before the write goes out,
// because the event of a write may come before its answer; and a watch that ends (U3) ends then. Where one kind alone
// is late (U2), it is another than that of the write, the one that is written next: what is told by the write comes
// before what it is told of. In each next write of the same kind in a row it is another one, and that of the write
// itself when all others were: each kind is late beside each, whatever the rhythm in which statuses come. What the
// manager watches and never writes, such as what its objects name, is late alone where others change it next (U4).
//
// # How a manager is put back in time
//
// It is killed, and the informers of the next one are shown a past moment: their first lists
// are rewritten to resourceVersionMatch=Exact at that version, and the watches that go on from
// there wait for a second, and on until the manager has done what it does by what it has found: a
// start alone may take that second on a busy machine. An informer is told from a read of the
// reconciler by what client-go sends: its first list asks for resourceVersion=0, "any moment will
// do", and no list of a client that reads live does (it asks for none, which is "now", or for one
// object by name).
// A list can be put back, an initial stream of events cannot, so these managers run with
// KUBE_FEATURE_WatchListClient=false. The moment is that before the last one, two or three
// writes, in turn (S1).
//
// One kind alone can be put back too, as a watch cache that is behind the others: what the manager has made it takes
// for not there, or for as it was, and all else tells it to go on. The kind is another than that of the write (S2). It
// goes back to before the last write of another kind, in the next write of the same kind in a row to before the last
// but one, and so on. In a row are mostly statuses, which tell of what was written before: so a kind is behind what is
// told of it, by one write and by several, however many statuses there are. Or it is the kind of the write (S3), to
// before the whole row: what was told is forgotten, and what users and outsides have made of it since is there. Or it
// is one that the manager never writes, to before others have changed it last (S4): what was acted on already is as it
// was. Or one that it writes, to before others have changed it last (S5): it is there, and nothing has come of it yet.
//
// # How reads fail
//
// What a reconciler reads live, because the cache is not enough to go by, must not be taken for gone where it cannot be
// read. The proxy notes of which kinds that is after which write, and refuses the next such read (R1), or all of one of
// those kinds for a while (R2). And a manager that starts may not list one of the kinds that it watches (R3): it has
// all caches but one. Where nothing was read while it would have been refused, the fault did not happen.
//
// # What a workload has refused
//
// A fault that refuses is over before the clock moves, so what is given up after a while is not in it: that is a workload's
// (Stage.Refuse), which moves the clock of the manager that is up (Stage.Tick). A manager that starts does not know since
// when something is refused.
//
// # How a manager stands still
//
// By C6 it is stopped (SIGSTOP) just as it has got the answer to its write, with all that it was about to do next;
// another one, which has been started for that, takes its place when the Lease runs out, and does what there is to do;
// and then the first goes on. What it stores by then is a finding (O9), and it must end. The Lease is the proxy's:
// every run needs one of its own. Who is killed, or stopped by a user of the workload, has let go of it: what nobody
// leads is no fault.
//
// By C8 a manager is killed twice: at its write, and again at the first, second or third write of the one that comes
// after, whatever road that has taken: in the middle of a recovery. Kills that are further apart share a run otherwise
// (below).
//
// # Restarting the API server
//
// It stops everybody, so these plans are played when all others are done, several for each restart: every run waits at
// its write, stored and not answered, until the last one has come to its own; then the outsides wait, the recorder
// catches up, and the API server is killed and started again on the same port, and Kubernetes' own controllers after
// it. The restarted one knows no moment before its start, so the recorder lists and tells what has changed since;
// nothing has, so nothing is lost or doubled. A manager behind the proxy sees its connections dropped rather than
// refused.
//
// # What a sweep costs
//
// Mostly CPU, of the API server and of managers that start; so everything runs with a lazier
// garbage collector. -faults.parallel is how many plans want CPU at the same time: one in which
// nothing happens, because its writes are refused, its manager waits to try again or what has
// converged must stay so, leaves its seat to another. Plans take turns between workloads, and not
// more than twice as many as have a seat are under way, because those outsides that are real (the
// namespace controller) would come too late for more. Namespaces are taken away after each run,
// so that the last plan costs what the first did.
//
// Half of a run is its way to the write, so its fault may happen several times in one run (-faults.together=3), a third
// of the way from each other, as long as its road is that of the reference, write by write; but for those that have a
// manager stand still, or restart the API server. Where a fault makes the road another, as one that is told in a
// status, that was the last of the run: those that are left have another run, up to the next of that sort, so that none
// is wasted and none is where it is not meant to be. If anything is found, each is played by itself. A rule that no
// reference is needed for (a panic, O3, O6, O7, O9) is broken by all of them, whether that comes again or not. What
// else is found of all of them, also when nothing else is played, fails where none of them fails by itself
// (-faults.k=3,9,15 plays them again). What it does not show is what shows late after one fault and is put right by the
// next, as when a timer is forgotten that another start sets again.
//
// Many workloads begin as others do, and part from them with what their users do later. Where the manager has got as
// far as the next write, or that after the second kill, on the same road, with the same in each write, from the same
// objects, among outsides that hold the same steps and judged by the same rules, a kill is the same in all of them,
// and -faults.anew plays it in the first, as it does two kills in a row, lost answers and what is refused once, a read
// too. Faults that last for a time are played in each: what a user does next may come while they do. What it does not
// show is a kill that leaves something which only another end brings out. CI plays kills in both of these ways, in a
// fifth of the workloads that goes by the commit, and make sweep-full has several faults in a run; make sweep itself
// has one, at every write of every workload.
//
// A reconciler cannot tell an error 500 of a write from a 503 or a connection that ends before anything is stored, so
// -faults.full=all plays one of the three at each write, in turn (C4b, C4c, C4d); a mode that is named is played at
// all.
//
// make test plays a sample: one workload of each kind, which goes up and down, once in each mode of a half
// (Workload.Sampled), so that each mode is played in two kinds, and several kills in a run. More workloads, each with
// two references before anything goes wrong in it, and a kill after every write are what the sweep is for.
//
// A manager that is asked to end, by a workload or when a run is over, must do so well, in the time that it gives
// itself. It is excused where it waits for the answer to a write at which a fault kills it, or at which the API server
// is to be restarted.
//
// What has come to its end is watched for three seconds. It writes nothing, and asks for nothing twice: a poll of once
// a second is a loop. Informers may come back meanwhile, and a pass ask for all that is served, once for each group
// that is not. What a reference writes must change something.
//
// No plan ends a sweep. What has failed is played once more at the end, alone, and stays failed; that it "passed alone"
// says that load may be the reason. One that takes too long (O5) after its fault goes on for another minute, so that
// its end is judged as any other's. If it comes to one, or was too slow for its fault to happen, and broke no other
// rule it is played three times alone, within what its reference takes then, and counts as slow, not as failed, when it
// passes each time: the limit is one of the manager, not of the machine. One that hangs is failed, whatever it does
// alone. So does one that came off its reference and broke no other rule, when the workload alone follows another
// reference, and it passes three times with that: of two watches, a busy machine brings the slower one first. Where
// that reference has no such write, the plan counts as not played, which fails the sweep too. When the time of the test
// is nearly up no plan begins any more. With -faults.record=FILE the next sweep of the same manager, installed with the
// same files, by the same test leaves out what has passed, but for faults that did so by themselves only;
// -faults.part=2/5 is the second of five parts.
//
// # Limits
//
// What a fault costs is its own: a run may take twice the time of the reference, that of the
// fault, and one backoff, which by doubling is as long as the fault was (and another, as long as both,
// where the workload has an error of its own). A plan whose fault does
// not happen is played again, like one that parts from its reference before it, unless it has
// broken a rule that no reference is needed for; both are counted, and at the third time fail.
//
// # What it does not show
//
// The manager is compared with itself: what is wrong in every run alike, and breaks no rule that needs no reference, is
// in the references, too, as a deadline that is a second longer. Planted bugs are compared with the manager without
// them, and make sweep-mutants tells which of them a sweep would not find.
//
// One sort of fault per run (kills close to each other by C8, all else far from each other), one worker, and outsides
// that wait for each other: pairs of two sorts, kills of which the second is neither soon after the first nor far, and
// what only a race brings up, are not here. Nor is a manager that stands still for less than the Lease lasts, which
// is as one that is slow, nor one that does so between two writes: what it knows then is what it knows at the one
// before, but for what it has read. Only writes that the API server stored are points of fault; one that it refuses,
// because the manager's cache is behind, is counted in the summary and breaks O6 only when it is repeated. Leaked
// goroutines show only as far as the manager itself waits for what it has started when it is asked to stop, and exits
// with an error when that takes too long.
package faults
