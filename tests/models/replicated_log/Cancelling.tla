------------------------------ MODULE Cancelling ------------------------------
(***************************************************************************)
(* How an owner gives up a record of several messages whose outcome it     *)
(* does not know. It sends another message, `cancel`, for the place of the *)
(* oldest one: only one of the two can be stored there, and that decides.  *)
(* Copies of the rest may still come for the places behind it. So these    *)
(* are taken as well before the next record is sent: by more such          *)
(* messages, or by those copies, which are void.                           *)
(*                                                                         *)
(* ReplicatedLog.tla has one message for each record, and many owners.     *)
(* Here there is one owner, and a rival that may take over at any time.    *)
(* The names of the actions are those of the code, where it has them.      *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    RecordsMax,     \* records that the owner proposes
    PartsMax,       \* messages of a record
    Fault           \* what is planted; "none" for nothing

VARIABLES
    stream,     \* messages, in order
    copies,     \* appends that were sent. Each may arrive at any time, and as often as it likes
    isOwner,    \* whether the owner still takes itself for one
    hasRival,   \* whether another replica has taken over
    read,       \* the owner's: sequence of the last message that is its own, or that it has passed
    last,       \* the owner's: identity of the last message that counts
    record,     \* number of its record
    out,        \* its messages of unknown outcome, in order
    sentTo,     \* the last place for which a message of the record was sent
    cancel,     \* the message that was sent to give it up, or None
    lastCopy,   \* the last place for which a copy of it may come
    isGivenUp,  \* a cancel message of it is stored
    told,       \* numbers of records that publishers were told are stored
    refused     \* and that are not

vars == <<stream, copies, isOwner, hasRival, read, last, record, out, sentTo, cancel, lastCopy, isGivenUp, told, refused>>

None == <<>>
Begin == <<"begin", 0, 0, 0>>

\* Kind, record, part, and place, by which the bytes of two messages differ. `after` stands for the hash.
Message(kind, number, part, place, after) ==
    [identity |-> <<kind, number, part, place>>, after |-> after]
Kind(message) == message.identity[1]
Place(message) == message.identity[4]
Max(a, b) == IF a > b THEN a ELSE b

(***************************************************************************)
(* A reader: the last message that counts, parts without an end, records.  *)
(***************************************************************************)
Fits(state, message) == message.after = state.last

Applied(state, message) ==
    LET piece == <<message.identity[2], message.identity[3]>>
    IN CASE Kind(message) = "part" ->
                [last |-> message.identity, parts |-> Append(state.parts, piece), records |-> state.records]
         [] Kind(message) = "record" ->
                [last |-> message.identity, parts |-> <<>>,
                 records |-> Append(state.records, Append(state.parts, piece))]
         [] OTHER ->
                [last |-> message.identity,
                 parts |-> IF Fault = "cancel_keeps_parts" /\ Kind(message) = "cancel" THEN state.parts ELSE <<>>,
                 records |-> state.records]

RECURSIVE Reader(_)
Reader(n) ==
    IF n = 0 THEN [last |-> Begin, parts |-> <<>>, records |-> <<>>]
    ELSE LET before == Reader(n - 1)
         IN IF Fits(before, stream[n]) THEN Applied(before, stream[n]) ELSE before

Records == Reader(Len(stream)).records
Numbers == {Records[i][1][1] : i \in 1..Len(Records)}

Init ==
    /\ stream = <<>>
    /\ copies = {}
    /\ isOwner = TRUE
    /\ hasRival = FALSE
    /\ read = 0
    /\ last = Begin
    /\ record = 0
    /\ out = <<>>
    /\ sentTo = 0
    /\ cancel = None
    /\ lastCopy = 0
    /\ isGivenUp = FALSE
    /\ told = {}
    /\ refused = {}

(***************************************************************************)
(* The stream                                                              *)
(***************************************************************************)
Store(message) ==
    /\ message \in copies
    /\ Len(stream) + 1 = Place(message)
    /\ stream' = Append(stream, message)
    /\ UNCHANGED <<copies, isOwner, hasRival, read, last, record, out, sentTo, cancel, lastCopy, isGivenUp, told, refused>>

\* Another replica has read the stream to its end, and fences the owner.
TakeOver ==
    /\ ~hasRival
    /\ hasRival' = TRUE
    /\ stream' = Append(stream, Message("epoch", 0, 0, Len(stream) + 1, Reader(Len(stream)).last))
    /\ UNCHANGED <<copies, isOwner, read, last, record, out, sentTo, cancel, lastCopy, isGivenUp, told, refused>>

(***************************************************************************)
(* The owner                                                               *)
(***************************************************************************)
RECURSIVE Pieces(_, _, _, _)
Pieces(number, part, count, after) ==
    IF part > count THEN <<>>
    ELSE LET message == Message(IF part = count THEN "record" ELSE "part", number, part, read + part, after)
         IN <<message>> \o Pieces(number, part + 1, count, message.identity)

IsWaiting == out # <<>> \/ isGivenUp

Propose ==
    /\ isOwner
    /\ ~IsWaiting
    /\ record < RecordsMax
    /\ record' = record + 1
    /\ \E count \in 1..PartsMax : out' = Pieces(record + 1, 1, count, last)
    /\ sentTo' = read
    /\ lastCopy' = 0
    /\ UNCHANGED <<stream, copies, isOwner, hasRival, read, last, cancel, isGivenUp, told, refused>>

\* The first time or once more, and the next one of it. Nothing more of a record that is being given up.
Send ==
    /\ isOwner
    /\ lastCopy = 0 \/ Fault = "sent_on_while_it_is_given_up"
    /\ \E i \in 1..Len(out) :
        /\ Place(out[i]) <= sentTo + 1
        /\ copies' = copies \cup {out[i]}
        /\ sentTo' = Max(sentTo, Place(out[i]))
    /\ UNCHANGED <<stream, isOwner, hasRival, read, last, record, out, cancel, lastCopy, isGivenUp, told, refused>>

\* The answer, or what the leader has at the place.
Confirm ==
    /\ isOwner
    /\ out # <<>>
    /\ Len(stream) > read
    /\ stream[read + 1] = Head(out)
    /\ read' = read + 1
    /\ last' = Head(out).identity
    /\ out' = Tail(out)
    /\ cancel' = None
    /\ told' = IF Tail(out) = <<>> THEN told \cup {record} ELSE told
    /\ UNCHANGED <<stream, copies, isOwner, hasRival, record, sentTo, lastCopy, isGivenUp, refused>>

\* It may be sent again and again, for each place that is still open.
Cancel ==
    /\ isOwner
    /\ IsWaiting
    /\ cancel = None
    /\ cancel' = Message("cancel", record, 0, read + 1, last)
    /\ copies' = copies \cup {cancel'}
    /\ lastCopy' = Max(lastCopy, Max(sentTo, read + 1))
    /\ IF Fault = "refused_before_cancel_is_stored"
       THEN /\ refused' = refused \cup {record}
            /\ out' = <<>>
       ELSE UNCHANGED <<out, refused>>
    /\ UNCHANGED <<stream, isOwner, hasRival, read, last, record, sentTo, isGivenUp, told>>

\* The place is taken; when all are for which copies may come, the next record can be sent.
PassPlace ==
    /\ read' = read + 1
    /\ cancel' = None
    /\ IF read + 1 >= lastCopy \/ Fault = "copies_may_still_come"
       THEN /\ isGivenUp' = FALSE
            /\ refused' = refused \cup {record}
       ELSE /\ isGivenUp' = TRUE
            /\ UNCHANGED refused

ConfirmCancel ==
    /\ isOwner
    /\ cancel # None
    /\ Len(stream) > read
    /\ stream[read + 1] = cancel
    /\ last' = cancel.identity
    /\ out' = <<>>
    /\ PassPlace
    /\ UNCHANGED <<stream, copies, isOwner, hasRival, record, sentTo, lastCopy, told>>

IsVoid(message) == message.after # last

PassVoid ==
    /\ isOwner
    /\ isGivenUp
    /\ Len(stream) > read
    /\ IsVoid(stream[read + 1])
    /\ PassPlace
    /\ UNCHANGED <<stream, copies, isOwner, hasRival, last, record, out, sentTo, lastCopy, told>>

\* Something else has the place: this owner is one no more. Its publishers are told nothing.
StepDown ==
    /\ isOwner
    /\ IsWaiting
    /\ Len(stream) > read
    /\ IF out = <<>> THEN TRUE ELSE stream[read + 1] # Head(out)
    /\ stream[read + 1] # cancel
    /\ ~(isGivenUp /\ IsVoid(stream[read + 1]))
    /\ isOwner' = FALSE
    /\ UNCHANGED <<stream, copies, hasRival, read, last, record, out, sentTo, cancel, lastCopy, isGivenUp, told, refused>>

Next ==
    \/ \E message \in copies : Store(message)
    \/ TakeOver
    \/ Propose \/ Send \/ Confirm \/ Cancel \/ ConfirmCancel \/ PassVoid \/ StepDown

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* What is promised                                                        *)
(***************************************************************************)
ConfirmedIsStored == told \subseteq Numbers

RefusedIsNotStored == refused \cap Numbers = {}

\* Each record has the parts of one, all of them and in order, and is there once.
RecordsAreWhole ==
    /\ \A i \in 1..Len(Records) : \A j \in 1..Len(Records[i]) : Records[i][j] = <<Records[i][1][1], j>>
    /\ \A i, j \in 1..Len(Records) : i < j => Records[i][1][1] < Records[j][1][1]

\* Nobody but a rival ends an owner: what comes late of its own does not.
OnlyARivalEndsAnOwner == isOwner \/ hasRival
=============================================================================
