"""Message groups: on a queue without partitions the messages of one key go to one consumer, which keeps the key.

The key is hashed into buckets, and a bucket has one owner, so the state is bounded whatever the number of keys; keys
that share a bucket share its owner. A flow that reaches a message of a bucket without owner claims the bucket, if no
other flow that could have it owns fewer. With it the flow claims an even share of the following ones, so that
interleaved keys become longer runs for one flow. The flow owns a bucket until it leaves, until a message with a
negative JMSXGroupSeq closes the group, or until the buckets are redistributed because a flow came. Before a bucket
changes hands while its owner is connected, the owner settles what it holds of it: no flow gets a message of a key while
another flow has an earlier one.

A flow scans each ready message once, as a selecting flow does (`messaging.partitions.rules.selection`), and skips what
belongs to others. When a bucket is released they scan again. An owner without room holds up no other flow, until so
many of its messages are interleaved with others that there are too many gaps to continue.

Messages that arrive together are sorted by owner before they get their sequences, each owner's in the order published.
So the messages for one consumer are one run, as where consumers compete, and not a run for each message. No guarantee
is lost: such a queue keeps an order only within a key.

See also: keys (`messaging.message.keys`), the order of redelivery within a key
(`messaging.partitions.state.redelivery`).
"""

from bisect import bisect_right
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash_in, key_hashes
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.rules.selection import PASS, TAKE, WAIT, Choice
from sluicegate.messaging.partitions.state.flows import LedgerFlow
from sluicegate.messaging.partitions.state.segments import Segment
from sluicegate.messaging.partitions.state.state import LedgerState

RUNS_MAX: Final = 10_000  # of a partition; messages beyond are scanned one by one

NO_RUN: Final = (0, 0)


@final
class OwnedRuns:
    """Runs of messages whose groups all have one owner, so that each flow takes or skips a run as a whole.

    Runs are noted as messages arrive, sorted by owner, and forgotten when a group changes hands: then flows scan each
    message again. Invariants: they ascend and are disjoint.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._owners: list[int] = []

    def __len__(self) -> int:
        return len(self._firsts)

    def note(self, first: int, end: int, owner: int) -> None:
        """Add the run `[first, end)` of a flow, after all other runs."""
        if len(self._firsts) < RUNS_MAX:
            self._firsts.append(first)
            self._ends.append(end)
            self._owners.append(owner)

    def at(self, sequence: int) -> tuple[int, int]:
        """Return the owner and the end of the run that contains a message; NO_RUN when there is none."""
        index = bisect_right(self._firsts, sequence) - 1
        if index < 0 or sequence >= self._ends[index]:
            return NO_RUN
        return self._owners[index], self._ends[index]

    def forget(self) -> None:
        """Forget all runs."""
        self._firsts.clear()
        self._ends.clear()
        self._owners.clear()

    def forget_below(self, floor: int) -> None:
        """Forget the runs of settled messages."""
        gone = bisect_right(self._ends, floor)
        if gone:
            del self._firsts[:gone]
            del self._ends[:gone]
            del self._owners[:gone]

    def runs(self) -> list[tuple[int, int, int]]:
        """Return every run as (first, end, owner)."""
        return list(zip(self._firsts, self._ends, self._owners, strict=True))


SEQUENCE_NAME: Final = "JMSXGroupSeq"
CLAIMED_AHEAD_MAX: Final = 1000  # messages scanned for groups to claim: as many as a large read brings
GAPS_MAX: Final = 10_000  # ranges of ready messages above which flows skip no more: a change costs by them

_NOBODY: Final = 0
_DRAINS: Final = -1  # the former owner settles what it holds
_INT_MAX: Final = 0x7FFF_FFFF  # AMQP's group-sequence is unsigned, JMS's is signed: a larger one is negative
_DIGITS_MAX: Final = 10
_TAKE_ALONE: Final = -1  # beside TAKE: the first of its bucket, which is delivered apart from those after it


def has_keys(batch: MessageBatch) -> bool:
    """Return whether some message of a batch has a key from its publisher."""
    column = batch.headers()
    return column is not None and any(headers is not None and headers.key_hash >= 0 for headers in column)


def closes_group(headers: Headers | None) -> bool:
    """Return whether a message is the last of its group: its JMSXGroupSeq is negative."""
    if headers is None or headers.user_properties is None:
        return False
    for name, value in headers.user_properties:
        if name == SEQUENCE_NAME:
            if isinstance(value, str):
                digits = value.removeprefix("-")
                if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
                    return False
                return value.startswith("-") or int(digits) > _INT_MAX
            if isinstance(value, bool) or not isinstance(value, int):
                return False
            return value < 0 or value > _INT_MAX
    return False


def groups_for(state: LedgerState) -> "MessageGroups | None":
    """Return the groups of a ledger, if the rules group by key and there may be keys; None otherwise."""
    rules = state.rules
    if rules.group_buckets == 0:
        return None
    may_have_keys = rules.key_source is not None
    for segment in state.segments.all():
        if may_have_keys:
            break
        may_have_keys = segment.batch is None or has_keys(segment.batch)  # a message in a page may have one
    return MessageGroups(state, rules.group_buckets) if may_have_keys else None


@final
class Draining:
    """Messages of a bucket that flows have to settle before any flow gets more of it."""

    __slots__ = ("held",)

    def __init__(self, held: dict[int, RangeSet]) -> None:
        self.held = held  # by flow; some may be settled by now


@final
class MessageGroups(Choice):
    """The owners of the buckets of one ledger.

    Invariants: an owner is a flow of the ledger; `counts` has how many buckets each owns; a bucket that drains has no
    owner.
    """

    def __init__(self, state: LedgerState, buckets: int) -> None:
        """Make groups for a ledger. A bucket in flight belongs to the only flow that holds any of it, or drains."""
        self.buckets = buckets
        self._owners = [_NOBODY] * buckets
        self._counts: dict[int, int] = {}  # by flow
        self._draining: dict[int, Draining] = {}  # by bucket
        self._unannounced: set[int] = set()  # claimed, and nothing delivered yet
        self._passed_from: dict[int, int] = {}  # bucket -> lowest sequence that a flow skipped because of it
        self._runs = OwnedRuns()
        self._runs_passed_from: dict[int, int] = {}  # owner -> lowest of its runs that another flow skipped
        held: dict[int, dict[int, RangeSet]] = {}  # bucket -> flow -> messages it holds
        for flow in state.flows.values():
            for bucket, its in self._held_by(state, flow, set(range(buckets))).items():
                held.setdefault(bucket, {})[flow.flow.flow_id] = its
        for bucket, by_flow in held.items():
            if len(by_flow) == 1:
                for flow_id in by_flow:
                    self._owners[bucket] = flow_id
                    self._counts[flow_id] = self.owned_count(flow_id) + 1
            else:
                self._owners[bucket] = _DRAINS
                self._draining[bucket] = Draining(by_flow)

    def owned_count(self, flow_id: int) -> int:
        """Return how many buckets a flow owns."""
        return self._counts.get(flow_id, 0)

    def is_open_to(self, key_hash: int, flow_id: int) -> bool:
        """Return whether a flow owns a key, or may claim it."""
        return self._owners[key_hash % self.buckets] in (_NOBODY, flow_id)

    def may_have(self, state: LedgerState, flow: LedgerFlow, sequence: int) -> bool:
        """Return whether a flow may get a message by its group, or its group is not known."""
        segment = state.segments.at_or_after(sequence)
        if segment is None or segment.batch is None:
            return True
        key_hash = key_hash_in(state.rules.key_source, segment.batch, sequence - segment.first)
        return key_hash < 0 or self.is_open_to(key_hash, flow.flow.flow_id)

    # --- which message is next ---

    def arrange(self, state: LedgerState, batch: MessageBatch) -> list[int] | None:
        """Return the order in which the rows of a batch are to be appended now; None: unchanged. Adds their runs.

        Each owner's rows come in the order published, and rows without owner, or open to any flow, come last.
        """
        if len(state.flows) < 2:
            return None  # it would be the order published
        source = state.rules.key_source
        column = batch.headers()
        found = None if source is None else key_hashes(source, batch)
        owners, buckets, unannounced = self._owners, self.buckets, self._unannounced
        by_owner: dict[int, list[int]] = {}
        rest: list[int] = []
        for row in range(batch.count):
            headers = None if column is None else column[row]
            if closes_group(headers):
                return None  # the rows after it may have another owner
            key_hash = -1 if headers is None else headers.key_hash
            if key_hash < 0 and found is not None:
                key_hash = found[row]
            bucket = key_hash % buckets
            owner = _NOBODY if key_hash < 0 else owners[bucket]
            if owner <= _NOBODY or (unannounced and bucket in unannounced):
                rest.append(row)
                continue
            owned_rows = by_owner.get(owner)
            if owned_rows is None:
                by_owner[owner] = [row]
            else:
                owned_rows.append(row)
        self._runs.forget_below(state.floor)
        first = state.next_sequence
        order: list[int] = []
        for owner, rows in by_owner.items():
            self._runs.note(first + len(order), first + len(order) + len(rows), owner)
            order += rows
        order += rest
        return None if len(by_owner) + bool(rest) < 2 else order

    def put_owner_first(self, line: list[LedgerFlow], sequence: int) -> None:
        """Serve the owner of a message first, where it is known: then no other flow has to scan it."""
        owner, _ = self._runs.at(sequence)
        if owner != _NOBODY:
            for place, flow in enumerate(line):
                if flow.flow.flow_id == owner:
                    line.insert(0, line.pop(place))
                    return

    def run(
        self, state: LedgerState, flow: LedgerFlow, segment: Segment, first: int, stop: int, limit: int
    ) -> tuple[int, int]:
        """Return what a flow may do: take ungrouped messages, its own groups' and a new group's, or skip them."""
        flow_id = flow.flow.flow_id
        owner, end = self._runs.at(first)
        if owner != _NOBODY and (owner != flow_id or not flow.selects()):
            state.scan_budget -= 1
            if owner == flow_id:  # all of it, whatever its even share: no other flow may have it
                return TAKE, min(end, stop, first + flow.room(state.rules.unacked_count_max))
            if state.requeued.ranges_count() > GAPS_MAX:
                return WAIT, first
            self._runs_passed_from[owner] = min(first, self._runs_passed_from.get(owner, first))
            return PASS, min(end, stop)
        batch = segment.batch
        assert batch is not None, "it is in memory"
        verdict = self._verdict(state, flow, batch, first - segment.first, first, stop - first)
        state.scan_budget -= flow.scan_weight(batch, first - segment.first)
        end = first + 1
        if verdict == TAKE:
            stop = min(stop, first + limit)
        while end < stop and state.scan_budget > 0 and verdict in (TAKE, PASS):
            if verdict == TAKE and closes_group(batch.headers_of(end - 1 - segment.first)):
                break
            if self._verdict(state, flow, batch, end - segment.first, end, stop - end) != verdict:
                break
            state.scan_budget -= flow.scan_weight(batch, end - segment.first)
            end += 1
        return TAKE if verdict == _TAKE_ALONE else verdict, end

    def _verdict(
        self, state: LedgerState, flow: LedgerFlow, batch: MessageBatch, row: int, sequence: int, ready_count: int
    ) -> int:
        if flow.selects() and not flow.wants(batch, row, sequence):
            return PASS
        key_hash = key_hash_in(state.rules.key_source, batch, row)
        if key_hash < 0:
            return TAKE
        bucket = key_hash % self.buckets
        owner = self._owners[bucket]
        if owner == flow.flow.flow_id:
            return _TAKE_ALONE if bucket in self._unannounced else TAKE
        is_crowded = state.requeued.ranges_count() > GAPS_MAX
        if owner == _NOBODY:
            if not is_crowded and self._is_for_another(state, flow, sequence):
                return WAIT
            self._claim(state, flow, batch, row, ready_count)
            return _TAKE_ALONE
        if is_crowded:
            return WAIT
        self._passed(bucket, sequence)
        return PASS

    def _claim(self, state: LedgerState, flow: LedgerFlow, batch: MessageBatch, row: int, ready_count: int) -> None:
        """Claim the group of a message and an even share of the ready ones after it, the first ones.

        A flow claims no more messages than it has room for: the rest is left to others.
        """
        unacked_count_max = state.rules.unacked_count_max
        ahead = 1 if flow.selects() else min(ready_count, flow.room(unacked_count_max), CLAIMED_AHEAD_MAX)
        new: dict[int, None] = {}
        for each in range(row, row + ahead):
            key_hash = key_hash_in(state.rules.key_source, batch, each)
            if key_hash >= 0 and self._owners[key_hash % self.buckets] == _NOBODY:
                new[key_hash % self.buckets] = None
        state.scan_budget -= ahead - 1
        sharing = [each for each in state.flows.values() if not each.paused and each.room(unacked_count_max) > 0]
        owned_together = sum([self.owned_count(each.flow.flow_id) for each in sharing])
        owned = self.owned_count(flow.flow.flow_id)
        share = max(1, -(-(owned_together + len(new)) // len(sharing)) - owned)
        claimed = list(new)[:share]
        for bucket in claimed:
            self._owners[bucket] = flow.flow.flow_id
        self._counts[flow.flow.flow_id] = owned + len(claimed)
        self._unannounced.update(claimed)

    def _passed(self, bucket: int, sequence: int) -> None:
        """Record that a flow skips a message because of its bucket."""
        self._passed_from[bucket] = min(sequence, self._passed_from.get(bucket, sequence))

    def _is_for_another(self, state: LedgerState, flow: LedgerFlow, sequence: int) -> bool:
        """Return whether a flow that owns less, and could have the message, has yet to scan it."""
        count = self.owned_count(flow.flow.flow_id)
        if count == 0:
            return False
        for other in state.flows.values():
            if (
                self.owned_count(other.flow.flow_id) < count
                and not other.paused
                and (other.scanned_to <= sequence or sequence in other.again)
                and other.room(state.rules.unacked_count_max) > 0
            ):
                return True
        return False

    # --- what becomes of a group ---

    def delivered(
        self, state: LedgerState, flow: LedgerFlow, batch: MessageBatch, start_row: int, stop_row: int
    ) -> bool:
        """Record a delivery; return whether its first message is the first of its group with this consumer."""
        source = state.rules.key_source
        is_first = False
        if self._unannounced:
            key_hash = key_hash_in(source, batch, start_row)
            if key_hash >= 0 and key_hash % self.buckets in self._unannounced:
                self._unannounced.discard(key_hash % self.buckets)
                is_first = True
        last = stop_row - 1
        if closes_group(batch.headers_of(last)):
            key_hash = key_hash_in(source, batch, last)
            if key_hash >= 0:
                self._drain(state, flow, {key_hash % self.buckets})
        return is_first

    def share_anew(self, state: LedgerState, newcomer: LedgerFlow) -> None:
        """Have flows with more than their share release as many buckets as the new flow is to have."""
        flows = [flow for flow in state.flows.values() if not flow.paused]
        share = sum([self.owned_count(flow.flow.flow_id) for flow in flows]) // max(1, len(flows))
        missing = share - self.owned_count(newcomer.flow.flow_id)
        for flow in flows:
            surplus = min(missing, self.owned_count(flow.flow.flow_id) - share)
            if flow is newcomer or surplus <= 0:
                continue
            owned = [bucket for bucket, owner in enumerate(self._owners) if owner == flow.flow.flow_id]
            self._drain(state, flow, set(owned[-surplus:]))
            missing -= surplus

    def leave(self, state: LedgerState, flow_id: int) -> None:
        """Release the buckets of a flow that has left, and whose messages are taken back."""
        self._runs.forget()
        passed_from = self._runs_passed_from.pop(flow_id, 0)
        for bucket, owner in enumerate(self._owners):
            if owner == flow_id:
                if passed_from:
                    self._passed(bucket, passed_from)
                self._release(state, bucket)
        for bucket, draining in list(self._draining.items()):
            if draining.held.pop(flow_id, None) is not None and not draining.held:
                self._release(state, bucket)
        self._counts.pop(flow_id, None)

    def pass_on(self, state: LedgerState) -> None:
        """Release the buckets whose former owners have settled what they held of them."""
        for bucket, draining in list(self._draining.items()):
            for flow_id, held in list(draining.held.items()):
                flow = state.flows.get(flow_id)
                if flow is None or not _holds_any(flow, held):
                    del draining.held[flow_id]
            if not draining.held:
                self._release(state, bucket)

    def _drain(self, state: LedgerState, flow: LedgerFlow, buckets: set[int]) -> None:
        """Have a flow settle what it holds of some of its buckets before any flow gets more of them."""
        flow_id = flow.flow.flow_id
        self._runs.forget()
        passed_from = self._runs_passed_from.get(flow_id, 0)
        held = self._held_by(state, flow, buckets)
        for bucket in buckets:
            if passed_from:
                self._passed(bucket, passed_from)
            self._owners[bucket] = _DRAINS
            self._counts[flow_id] -= 1
            self._unannounced.discard(bucket)
            of_bucket = held.get(bucket)
            self._draining[bucket] = Draining({} if of_bucket is None else {flow_id: of_bucket})

    def _held_by(self, state: LedgerState, flow: LedgerFlow, buckets: set[int]) -> dict[int, RangeSet]:
        """Return the messages that a flow holds of some buckets, of which it holds any."""
        held: dict[int, RangeSet] = {}
        for first, end in [each for holding in flow.flow.holdings for each in holding.ranges()]:
            for segment in state.segments.overlapping(first, end):
                batch = segment.batch
                for sequence in range(max(first, segment.first), min(end, segment.end)):
                    if batch is None:  # it is in a page, and so is its key: it may be of any of these buckets
                        for bucket in buckets:
                            held.setdefault(bucket, RangeSet()).add(sequence, sequence + 1)
                        continue
                    key_hash = key_hash_in(state.rules.key_source, batch, sequence - segment.first)
                    if key_hash >= 0 and key_hash % self.buckets in buckets:
                        held.setdefault(key_hash % self.buckets, RangeSet()).add(sequence, sequence + 1)
        return held

    def _release(self, state: LedgerState, bucket: int) -> None:
        self._owners[bucket] = _NOBODY
        self._unannounced.discard(bucket)
        self._draining.pop(bucket, None)
        first = self._passed_from.pop(bucket, 0)
        if first:
            for flow in state.flows.values():
                flow.is_ready_again(first, state.next_sequence)

    def check(self, state: LedgerState) -> None:
        """Assert the invariants; for tests."""
        counts: dict[int, int] = {}
        for bucket, owner in enumerate(self._owners):
            assert (owner == _DRAINS) == (bucket in self._draining), "a draining bucket has no owner"
            if owner > _NOBODY:
                assert owner in state.flows, "an owner is a flow"
                counts[owner] = counts.get(owner, 0) + 1
        assert counts == {flow_id: count for flow_id, count in self._counts.items() if count}, "owners are counted"
        for bucket in self._unannounced:
            assert self._owners[bucket] > _NOBODY, "a claimed bucket has an owner"
        for first, end, owner in self._runs.runs():
            for segment in state.segments.overlapping(first, end):
                batch = segment.batch
                for sequence in range(max(first, segment.first), min(end, segment.end)):
                    if batch is not None:
                        key_hash = key_hash_in(state.rules.key_source, batch, sequence - segment.first)
                        assert self._owners[key_hash % self.buckets] == owner, "a run is one flow's"


def _holds_any(flow: LedgerFlow, sequences: RangeSet) -> bool:
    """Return whether a flow holds some of these, or may again when a pending commit fails."""
    ranges = sequences.ranges()
    return any(holding.within(first, end) for holding in flow.flow.holdings for first, end in ranges)
