------------------------------ MODULE Trimming ------------------------------
(***************************************************************************)
(* How the log of a broker is trimmed, and how a replica begins that finds *)
(* it trimmed: snapshots, holds, purges.                                   *)
(*                                                                         *)
(* What ReplicatedLog.tla says of records is taken for granted here: there *)
(* is one history, and a record is a number. Owners trim. There may be     *)
(* several who think they are the owner, and each of their requests may    *)
(* come late: a purge is under way until it lands, and what an owner or a  *)
(* standby has looked at may have changed when it acts.                    *)
(*                                                                         *)
(* A replica reads its last record again when it starts, so `first` has to *)
(* be at that record, and not behind it.                                   *)
(*                                                                         *)
(* The names of the actions are those of the code.                         *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Replicas,   \* standbys: a set of model values
    Owners,     \* who trims: a set of model values
    EndMax,     \* records of the log; a bound for what could go on for ever
    Bound,      \* records of the stream beyond which the oldest hold is revoked
    Fault       \* what is planted; "none" for nothing

VARIABLES
    end,        \* number of the last record of the stream
    first,      \* number of the first record that can be read
    applied,    \* of each replica: number of its last record; 0: it is empty
    has,        \* of each replica: the records that it has
    hold,       \* of each replica: the number in its key; 0: there is none
    isHeld,     \* of each replica: whether it relies on its hold
    snapshots,  \* what is in the object store
    isLost,     \* whether a verified snapshot was lost; one is
    view,       \* of each owner: the second newest verified snapshot when it looked; 0: it has not looked
    purges      \* purges under way: what they keep from

vars == <<end, first, applied, has, hold, isHeld, snapshots, isLost, view, purges>>

Max(a, b) == IF a > b THEN a ELSE b
Least(numbers) == CHOOSE n \in numbers : \A m \in numbers : n <= m
Greatest(numbers) == CHOOSE n \in numbers : \A m \in numbers : n >= m

Verified == {s.position : s \in {t \in snapshots : t.isVerified}}
Newest(positions) == IF positions = {} THEN 0 ELSE Greatest(positions)
SecondNewest(positions) == IF positions = {} THEN 0 ELSE Newest(positions \ {Newest(positions)})

Init ==
    /\ end = 1
    /\ first = 1
    /\ applied = [r \in Replicas |-> 0]
    /\ has = [r \in Replicas |-> {}]
    /\ hold = [r \in Replicas |-> 0]
    /\ isHeld = [r \in Replicas |-> FALSE]
    /\ snapshots = {}
    /\ isLost = FALSE
    /\ view = [o \in Owners |-> 0]
    /\ purges = {}

Append ==
    /\ end < EndMax
    /\ end' = end + 1
    /\ UNCHANGED <<first, applied, has, hold, isHeld, snapshots, isLost, view, purges>>

(***************************************************************************)
(* Standbys                                                                *)
(***************************************************************************)
\* The next message that the stream has is given to the reader; it refuses one that is not the next.
Read(r) ==
    /\ applied[r] < end
    /\ LET next == Max(first, applied[r] + 1)
       IN /\ next <= end
          /\ next = applied[r] + 1 \/ Fault = "reader_goes_on_over_a_gap"
          /\ applied' = [applied EXCEPT ![r] = next]
          /\ has' = [has EXCEPT ![r] = @ \cup {next}]
    /\ UNCHANGED <<end, first, hold, isHeld, snapshots, isLost, view, purges>>

\* It was away for long, or is new. Only a whole snapshot is installed, for its checksum is compared.
Install(r) ==
    /\ first > Max(1, applied[r])
    /\ \E s \in snapshots :
        /\ s.isVerified
        /\ s.isWhole
        /\ s.position >= first
        /\ applied' = [applied EXCEPT ![r] = s.position]
        /\ has' = [has EXCEPT ![r] = 1..s.position]
    /\ UNCHANGED <<end, first, hold, isHeld, snapshots, isLost, view, purges>>

\* Its machine is replaced by an empty one: a new standby. The key of its hold stays.
LoseDisk(r) ==
    /\ applied[r] > 0
    /\ applied' = [applied EXCEPT ![r] = 0]
    /\ has' = [has EXCEPT ![r] = {}]
    /\ isHeld' = [isHeld EXCEPT ![r] = FALSE]
    /\ UNCHANGED <<end, first, hold, snapshots, isLost, view, purges>>

\* At the newest verified snapshot, as it was when the replica looked.
PlaceHold(r) ==
    /\ ~isHeld[r]
    /\ \E position \in 1..Newest(Verified) :
        /\ hold' = [hold EXCEPT ![r] = position]
        /\ isHeld' = [isHeld EXCEPT ![r] = Fault = "hold_not_looked_at_again"]
    /\ UNCHANGED <<end, first, applied, has, snapshots, isLost, view, purges>>

\* No owner has seen a later snapshot than the second newest before the hold was there.
RelyOnHold(r) ==
    /\ ~isHeld[r]
    /\ hold[r] > 0
    /\ hold[r] >= Newest(Verified)
    /\ isHeld' = [isHeld EXCEPT ![r] = TRUE]
    /\ UNCHANGED <<end, first, applied, has, hold, snapshots, isLost, view, purges>>

MoveHold(r) ==
    /\ isHeld[r]
    /\ applied[r] > hold[r]
    /\ hold' = [hold EXCEPT ![r] = applied[r]]
    /\ UNCHANGED <<end, first, applied, has, isHeld, snapshots, isLost, view, purges>>

(***************************************************************************)
(* Snapshots                                                               *)
(***************************************************************************)
\* Something may go wrong, which only shows when it is read back.
MakeSnapshot(r) ==
    /\ applied[r] > 0
    /\ \A s \in snapshots : s.position < applied[r]
    /\ \E isWhole \in BOOLEAN :
        snapshots' = snapshots \cup {[position |-> applied[r], isWhole |-> isWhole, isVerified |-> FALSE]}
    /\ UNCHANGED <<end, first, applied, has, hold, isHeld, isLost, view, purges>>

VerifySnapshot(s) ==
    /\ s \in snapshots
    /\ ~s.isVerified
    /\ s.isWhole
    /\ snapshots' = (snapshots \ {s}) \cup {[s EXCEPT !.isVerified = TRUE]}
    /\ UNCHANGED <<end, first, applied, has, hold, isHeld, isLost, view, purges>>

\* One that was read back and is damaged; and what is older than the newest two that are verified.
DeleteSnapshot(s) ==
    /\ s \in snapshots
    /\ \/ ~s.isWhole /\ Fault # "trim_by_an_unverified_snapshot"
       \/ s.position < SecondNewest(Verified)
    /\ snapshots' = snapshots \ {s}
    /\ UNCHANGED <<end, first, applied, has, hold, isHeld, isLost, view, purges>>

\* Somebody deletes a verified one, or it can be read no more.
LoseSnapshot(s) ==
    /\ ~isLost
    /\ s \in snapshots
    /\ s.isVerified
    /\ isLost' = TRUE
    /\ snapshots' = snapshots \ {s}
    /\ UNCHANGED <<end, first, applied, has, hold, isHeld, view, purges>>

(***************************************************************************)
(* Owners                                                                  *)
(***************************************************************************)
Holds == {hold[r] : r \in {x \in Replicas : hold[x] > 0}}

LookAtSnapshots(o) ==
    /\ view' = [view EXCEPT ![o] =
        CASE Fault = "trim_by_an_unverified_snapshot" -> SecondNewest({s.position : s \in snapshots})
          [] Fault = "trim_to_the_newest_snapshot" -> Newest(Verified)
          [] Fault = "holds_looked_at_first" -> Least({EndMax + 1} \cup Holds)
          [] OTHER -> SecondNewest(Verified)]
    /\ view'[o] # view[o]
    /\ UNCHANGED <<end, first, applied, has, hold, isHeld, snapshots, isLost, purges>>

\* What it keeps from, now that it has looked at the holds, too.
KeepFrom(o) ==
    CASE Fault = "hold_ignored" -> view[o]
      [] Fault = "holds_looked_at_first" -> Least({view[o], SecondNewest(Verified)})
      [] OTHER -> Least({view[o]} \cup Holds)

SendPurge(o) ==
    /\ view[o] > 0
    /\ KeepFrom(o) > first
    /\ purges' = purges \cup {KeepFrom(o)}
    /\ view' = [view EXCEPT ![o] = 0]
    /\ UNCHANGED <<end, first, applied, has, hold, isHeld, snapshots, isLost>>

\* The stream is too large, and the oldest hold is all that keeps it so. Its reader finds the key gone.
Revoke(o, r) ==
    /\ end - first >= Bound
    /\ hold[r] > 0
    /\ hold[r] = Least(Holds)
    /\ hold[r] < view[o]
    /\ hold' = [hold EXCEPT ![r] = 0]
    /\ isHeld' = [isHeld EXCEPT ![r] = FALSE]
    /\ UNCHANGED <<end, first, applied, has, snapshots, isLost, view, purges>>

\* It may come late, from an owner that is one no more, and again.
Purge(keep) ==
    /\ keep \in purges
    /\ first' = IF Fault = "purge_names_no_sequence" THEN end + 1 ELSE Max(first, keep)
    /\ \E isLast \in BOOLEAN : purges' = IF isLast THEN purges \ {keep} ELSE purges
    /\ UNCHANGED <<end, applied, has, hold, isHeld, snapshots, isLost, view>>

Next ==
    \/ Append
    \/ \E r \in Replicas :
        \/ Read(r) \/ Install(r) \/ LoseDisk(r)
        \/ PlaceHold(r) \/ RelyOnHold(r) \/ MoveHold(r)
        \/ MakeSnapshot(r)
        \/ \E o \in Owners : Revoke(o, r)
    \/ \E s \in snapshots : VerifySnapshot(s) \/ DeleteSnapshot(s) \/ LoseSnapshot(s)
    \/ \E o \in Owners : LookAtSnapshots(o) \/ SendPurge(o)
    \/ \E keep \in purges : Purge(keep)

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* What is promised                                                        *)
(***************************************************************************)
\* What can no longer be read is in a whole snapshot that was verified, whichever one was lost.
NothingIsOutOfReach ==
    first > 1 => \E s \in snapshots : s.isVerified /\ s.isWhole /\ s.position >= first

\* A replica that relies on its hold has what it needs from there on, until the hold is revoked.
HoldsAreKept == \A r \in Replicas : isHeld[r] => first <= hold[r]

\* No replica goes on over a gap.
NoGap == \A r \in Replicas : has[r] = 1..applied[r]

Symmetry == Permutations(Replicas) \cup Permutations(Owners)
=============================================================================
