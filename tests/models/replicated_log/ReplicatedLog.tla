---------------------------- MODULE ReplicatedLog ----------------------------
(***************************************************************************)
(* The log of one broker as a stream that a quorum of servers stores, and  *)
(* the replicas of the broker: one owner that appends, and standbys.       *)
(*                                                                         *)
(* The stream is taken as one register, for its servers agree on it. What  *)
(* it stores is checked against nothing but the expected sequence of an    *)
(* append. Copies of an append arrive late, or never, and its answer may   *)
(* be lost. Nobody knows the time: a replica tries to become the owner     *)
(* whenever it likes, and each of them may stand still for any time, which *)
(* is a behaviour in which it takes no step.                               *)
(*                                                                         *)
(* The names of the actions are those of the code.                         *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Replicas,       \* a set of model values
    EpochsMax,      \* takings of the key
    CommitsMax,     \* commits that an owner proposes in one epoch
    CopiesMax,      \* copies of appends that are under way at one time
    StreamMax,      \* messages that are stored; a bound for what could go on for ever
    ServerChecks,   \* whether the stream compares the expected sequence
    Trims,          \* whether there are snapshots, and the stream is trimmed, and disks are lost
    Fault           \* what is planted; "none" for nothing

VARIABLES
    stream,     \* what was ever stored, in order. What is before `first` cannot be read
    first,      \* the first sequence that can be read
    copies,     \* appends under way: a bag, as a function from appends to their number
    key,        \* revision of the key: how often it was taken
    role,       \* of each replica: "standby", "taking", "owner"
    epoch,      \* of each replica: the revision with which it took the key; 0 when it did not
    read,       \* of each replica: the sequence through which it has read the stream
    log,        \* of each replica: identities of the records that it has applied, in order
    out,        \* of each replica: the append whose outcome it does not know, or None
    sent,       \* of each replica: how many copies of it were sent
    proposed,   \* of each replica: commits that it proposed in its epoch
    snapshots,  \* of each replica: the verified snapshots that it made
    told,       \* identities of commits that publishers were told are stored
    refused     \* identities of commits that publishers were told are not stored

vars == <<stream, first, copies, key, role, epoch, read, log, out, sent, proposed, snapshots, told, refused>>

None == [entry |-> [epoch |-> 0, id |-> 0, after |-> <<0, 0>>], expected |-> 0]
Begin == <<0, 0>>

(***************************************************************************)
(* Records. `after` stands for the hash of the record before.              *)
(***************************************************************************)
Identity(entry) == <<entry.epoch, entry.id>>
Last(ids) == IF ids = <<>> THEN Begin ELSE ids[Len(ids)]

Fits(ids, entry) ==
    /\ entry.after = Last(ids)
    /\ IF entry.id = 0 THEN entry.epoch > Last(ids)[1] ELSE entry.epoch = Last(ids)[1]

\* What a reader makes of the first n messages of the stream: records that do not fit are void.
RECURSIVE Valid(_)
Valid(n) ==
    IF n = 0 THEN <<>>
    ELSE LET before == Valid(n - 1)
         IN IF Fits(before, stream[n]) THEN Append(before, Identity(stream[n])) ELSE before

IsPrefix(a, b) == Len(a) <= Len(b) /\ \A i \in 1..Len(a) : a[i] = b[i]
Elements(ids) == {ids[i] : i \in 1..Len(ids)}

Under == IF DOMAIN copies = {} THEN 0
         ELSE LET RECURSIVE Sum(_)
                  Sum(all) == IF all = {} THEN 0
                              ELSE LET one == CHOOSE x \in all : TRUE IN copies[one] + Sum(all \ {one})
              IN Sum(DOMAIN copies)

WithCopy(append) ==
    [each \in DOMAIN copies \cup {append} |->
        (IF each \in DOMAIN copies THEN copies[each] ELSE 0) + (IF each = append THEN 1 ELSE 0)]

WithoutCopy(append) ==
    [each \in {x \in DOMAIN copies : x # append \/ copies[x] > 1} |->
        IF each = append THEN copies[each] - 1 ELSE copies[each]]

Init ==
    /\ stream = <<>>
    /\ first = 1
    /\ copies = [x \in {} |-> 0]
    /\ key = 0
    /\ role = [r \in Replicas |-> "standby"]
    /\ epoch = [r \in Replicas |-> 0]
    /\ read = [r \in Replicas |-> 0]
    /\ log = [r \in Replicas |-> <<>>]
    /\ out = [r \in Replicas |-> None]
    /\ sent = [r \in Replicas |-> 0]
    /\ proposed = [r \in Replicas |-> 0]
    /\ snapshots = {}
    /\ told = {}
    /\ refused = {}

(***************************************************************************)
(* The stream                                                              *)
(***************************************************************************)
Accepts(append) == ~ServerChecks \/ Fault = "fence_not_checked" \/ Len(stream) = append.expected

Store(append) ==
    /\ append \in DOMAIN copies
    /\ Len(stream) < StreamMax
    /\ copies' = WithoutCopy(append)
    /\ stream' = IF Accepts(append) THEN Append(stream, append.entry) ELSE stream
    /\ UNCHANGED <<first, key, role, epoch, read, log, out, sent, proposed, snapshots, told, refused>>

Lose(append) ==
    /\ append \in DOMAIN copies
    /\ copies' = WithoutCopy(append)
    /\ UNCHANGED <<stream, first, key, role, epoch, read, log, out, sent, proposed, snapshots, told, refused>>

(***************************************************************************)
(* Taking over                                                             *)
(***************************************************************************)
\* The key is written by compare-and-set, so each revision has one writer.
TakeKey(r) ==
    /\ role[r] = "standby"
    /\ key < EpochsMax
    /\ key' = key + 1
    /\ epoch' = [epoch EXCEPT ![r] = key + 1]
    /\ role' = [role EXCEPT ![r] = "taking"]
    /\ proposed' = [proposed EXCEPT ![r] = 0]
    /\ UNCHANGED <<stream, first, copies, read, log, out, sent, snapshots, told, refused>>

Send(r, entry, expected) ==
    /\ Under < CopiesMax
    /\ out' = [out EXCEPT ![r] = [entry |-> entry, expected |-> expected]]
    /\ sent' = [sent EXCEPT ![r] = 1]
    /\ copies' = WithCopy([entry |-> entry, expected |-> expected])

\* It has read the stream to its end, as it was a moment ago. What was sent before stands at a place that is taken.
AppendEpoch(r) ==
    /\ role[r] = "taking"
    /\ read[r] = Len(stream)
    /\ out[r] = None \/ out[r].expected < read[r]
    /\ Send(r, [epoch |-> epoch[r], id |-> 0, after |-> Last(log[r])], read[r])
    /\ UNCHANGED <<stream, first, key, role, epoch, read, log, proposed, snapshots, told, refused>>

\* The planted fault: whoever has the key serves, without the record that fences the one before.
ServeByLease(r) ==
    /\ Fault = "lease_by_clock"
    /\ role[r] = "taking"
    /\ role' = [role EXCEPT ![r] = "owner"]
    /\ UNCHANGED <<stream, first, copies, key, epoch, read, log, out, sent, proposed, snapshots, told, refused>>

(***************************************************************************)
(* Appending                                                               *)
(***************************************************************************)
Propose(r) ==
    /\ role[r] = "owner"
    /\ out[r] = None
    /\ proposed[r] < CommitsMax
    /\ LET entry == [epoch |-> epoch[r], id |-> proposed[r] + 1, after |-> Last(log[r])]
       IN /\ Send(r, entry, read[r])
          /\ IF Fault = "apply_before_quorum"
             THEN log' = [log EXCEPT ![r] = Append(@, Identity(entry))]
             ELSE log' = log
          /\ IF Fault = "lease_by_clock" THEN told' = told \cup {Identity(entry)} ELSE told' = told
    /\ proposed' = [proposed EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<stream, first, key, role, epoch, read, snapshots, refused>>

\* No answer, or a refusal: the same bytes for the same place once more.
Retry(r) ==
    /\ out[r] # None
    /\ Under < CopiesMax
    /\ copies' = WithCopy(out[r])
    /\ sent' = [sent EXCEPT ![r] = IF @ < 2 THEN @ + 1 ELSE @]
    /\ UNCHANGED <<stream, first, key, role, epoch, read, log, out, proposed, snapshots, told, refused>>

\* The answer, or what the leader has at the place: the append is stored.
Confirm(r) ==
    /\ role[r] = "owner"
    /\ out[r] # None
    /\ IF Fault = "fence_not_checked"
       THEN \E i \in 1..Len(stream) : stream[i] = out[r].entry
       ELSE Len(stream) > out[r].expected /\ stream[out[r].expected + 1] = out[r].entry
    /\ log' = [log EXCEPT ![r] = IF Fault = "apply_before_quorum" THEN @ ELSE Append(@, Identity(out[r].entry))]
    /\ read' = [read EXCEPT ![r] = out[r].expected + 1]
    /\ told' = told \cup {Identity(out[r].entry)}
    /\ out' = [out EXCEPT ![r] = None]
    /\ sent' = [sent EXCEPT ![r] = 0]
    /\ UNCHANGED <<stream, first, copies, key, role, epoch, proposed, snapshots, refused>>

\* Something else has the place: somebody else appends, and this owner is one no more. Its publishers are told nothing.
StepDown(r) ==
    /\ role[r] = "owner"
    /\ out[r] # None
    /\ Len(stream) > out[r].expected
    /\ stream[out[r].expected + 1] # out[r].entry
    /\ role' = [role EXCEPT ![r] = "standby"]
    /\ out' = [out EXCEPT ![r] = None]
    /\ IF Fault = "refusal_is_success" THEN told' = told \cup {Identity(out[r].entry)} ELSE told' = told
    /\ sent' = [sent EXCEPT ![r] = 0]
    /\ UNCHANGED <<stream, first, copies, key, epoch, read, log, proposed, snapshots, refused>>

\* The stream is full: it takes the copy and stores nothing. If that was the only copy, none can be stored later.
Withdraw(r) ==
    /\ role[r] = "owner"
    /\ out[r] \in DOMAIN copies
    /\ refused = {}  \* once is enough
    /\ sent[r] = 1 \/ Fault = "withdrawn_after_a_retry"
    /\ copies' = WithoutCopy(out[r])
    /\ refused' = refused \cup {Identity(out[r].entry)}
    /\ out' = [out EXCEPT ![r] = None]
    /\ sent' = [sent EXCEPT ![r] = 0]
    /\ UNCHANGED <<stream, first, key, role, epoch, read, log, proposed, snapshots, told>>

\* The planted fault: nothing is there when it looks, so the publisher is told that nothing was stored.
GiveUp(r) ==
    /\ Fault = "reading_decides"
    /\ role[r] = "owner"
    /\ out[r] # None
    /\ Len(stream) = out[r].expected
    /\ refused' = refused \cup {Identity(out[r].entry)}
    /\ out' = [out EXCEPT ![r] = None]
    /\ sent' = [sent EXCEPT ![r] = 0]
    /\ UNCHANGED <<stream, first, copies, key, role, epoch, read, log, proposed, snapshots, told>>

(***************************************************************************)
(* Reading                                                                 *)
(***************************************************************************)
Applies(r, entry) == Fits(log[r], entry) \/ (Fault = "chain_not_checked" /\ entry.epoch >= Last(log[r])[1])

Read(r) ==
    /\ role[r] # "owner"
    /\ read[r] < Len(stream)
    /\ read[r] + 1 >= first
    /\ LET entry == stream[read[r] + 1]
       IN /\ log' = [log EXCEPT ![r] = IF Applies(r, entry) THEN Append(@, Identity(entry)) ELSE @]
          /\ IF role[r] = "taking" /\ Fits(log[r], entry) /\ entry.id = 0 /\ entry.epoch = epoch[r]
             THEN /\ role' = [role EXCEPT ![r] = "owner"]
                  /\ out' = [out EXCEPT ![r] = None]
             ELSE IF role[r] = "taking" /\ Fits(log[r], entry) /\ entry.epoch > epoch[r]
             THEN /\ role' = [role EXCEPT ![r] = "standby"]
                  /\ out' = [out EXCEPT ![r] = None]
             ELSE UNCHANGED <<role, out>>
    /\ read' = [read EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<stream, first, copies, key, epoch, sent, proposed, snapshots, told, refused>>

\* The process ends and is started again. What it has applied is on its disk.
Restart(r) ==
    /\ role[r] # "standby"
    /\ role' = [role EXCEPT ![r] = "standby"]
    /\ out' = [out EXCEPT ![r] = None]
    /\ sent' = [sent EXCEPT ![r] = 0]
    /\ UNCHANGED <<stream, first, copies, key, epoch, read, log, proposed, snapshots, told, refused>>

\* The machine is replaced by an empty one.
LoseDisk(r) ==
    /\ Trims
    /\ read[r] > 0
    /\ role' = [role EXCEPT ![r] = "standby"]
    /\ out' = [out EXCEPT ![r] = None]
    /\ read' = [read EXCEPT ![r] = 0]
    /\ log' = [log EXCEPT ![r] = <<>>]
    /\ sent' = [sent EXCEPT ![r] = 0]
    /\ UNCHANGED <<stream, first, copies, key, epoch, proposed, snapshots, told, refused>>

(***************************************************************************)
(* Snapshots                                                               *)
(***************************************************************************)
\* It is made, and read back.
Snapshot(r) ==
    /\ Trims
    /\ role[r] # "taking"
    /\ out[r] = None
    /\ read[r] > 0
    /\ \A s \in snapshots : s.read < read[r]
    /\ snapshots' = snapshots \cup {[read |-> read[r], log |-> log[r]]}
    /\ UNCHANGED <<stream, first, copies, key, role, epoch, read, log, out, sent, proposed, told, refused>>

\* Only one that is not the newest.
DeleteSnapshot(s) ==
    /\ s \in snapshots
    /\ \E newer \in snapshots : newer.read > s.read
    /\ snapshots' = snapshots \ {s}
    /\ UNCHANGED <<stream, first, copies, key, role, epoch, read, log, out, sent, proposed, told, refused>>

\* A purge says from where the stream is to be kept, so it may come late. Standbys that are farther behind have the
\* snapshot; the record before the place stays, for the chain is checked against it.
Trim ==
    /\ Trims
    /\ \E from \in (first + 1)..Len(stream) :
        /\ IF Fault = "trim_too_early"
           THEN \E r \in Replicas : from <= read[r]
           ELSE \E s \in snapshots : from <= s.read
        /\ first' = from
        /\ UNCHANGED <<stream, copies, key, role, epoch, read, log, out, sent, proposed, snapshots, told, refused>>

Install(r) ==
    /\ role[r] = "standby"
    /\ read[r] + 1 < first
    /\ \E s \in snapshots :
        /\ s.read + 1 >= first
        /\ read' = [read EXCEPT ![r] = s.read]
        /\ log' = [log EXCEPT ![r] = s.log]
    /\ UNCHANGED <<stream, first, copies, key, role, epoch, out, sent, proposed, snapshots, told, refused>>

Next ==
    \/ \E append \in DOMAIN copies : Store(append) \/ Lose(append)
    \/ \E r \in Replicas :
        \/ TakeKey(r) \/ AppendEpoch(r) \/ ServeByLease(r)
        \/ Propose(r) \/ Retry(r) \/ Confirm(r) \/ StepDown(r) \/ Withdraw(r) \/ GiveUp(r)
        \/ Read(r) \/ Restart(r) \/ LoseDisk(r)
        \/ Snapshot(r) \/ Install(r)
    \/ \E s \in snapshots : DeleteSnapshot(s)
    \/ Trim

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* What is promised                                                        *)
(***************************************************************************)
\* What a publisher was told is stored is in the log for ever, whoever reads it.
ConfirmedIsStored == told \subseteq Elements(Valid(Len(stream)))

\* What a publisher was told is not stored never turns up.
RefusedIsNotStored == refused \cap Elements(Valid(Len(stream))) = {}

\* Every replica, and every snapshot, has a part of one history, from its beginning, with each record once.
OneHistory ==
    /\ \A r \in Replicas : IsPrefix(log[r], Valid(Len(stream)))
    /\ \A s \in snapshots : IsPrefix(s.log, Valid(s.read))

\* What can no longer be read is in a snapshot.
NothingIsOutOfReach ==
    first > 1 => \E s \in snapshots : s.read + 1 >= first

Symmetry == Permutations(Replicas)
=============================================================================
