"""The packet ids in flight to one client, and the message that each id stands for.

Ids are allocated in ascending runs and mostly acknowledged in the same runs, so a run is one entry. An acknowledgement
out of order splits its run into single ids.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from sluicegate.actors.messages.partitions import ReleaseUnsent
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, EXACTLY_ONCE
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.protocols.mqtt.codec.limits import PACKET_ID_MAX
from sluicegate.protocols.mqtt.session.packet_ids import SentIds


@final
class DeliveryOrigin:
    """Where settlements of delivered messages go: a partition, under the flow and epoch they were delivered with."""

    __slots__ = ("epoch", "flow_id", "ids", "in_flight", "known_below", "partition", "unsent", "unsent_count")

    def __init__(self, partition: Address, flow_id: int, epoch: i64, ids: SentIds | None) -> None:
        self.partition = partition
        self.flow_id = flow_id
        self.epoch = epoch
        self.ids = ids  # None: packet ids mean nothing beyond this connection
        self.in_flight: RangeSet | None = None  # unacknowledged messages of the origin that this one replaced
        self.unsent_count: i64 = 0  # runs that wait for the store to have their ids; later runs wait too
        self.unsent: RangeSet | None = None  # sequences among them that were never sent to any consumer
        self.known_below: i64 = 0  # only messages below may be in `in_flight`, or among those that the client has taken

    def wait(self, first: int, end: int, *, given_first: bool) -> None:
        """Note a run that waits for the store."""
        self.unsent_count += 1
        if given_first:
            if self.unsent is None:
                self.unsent = RangeSet()
            self.unsent.add(first, end)

    def waited(self, first: int, end: int) -> None:
        """Note that the store has the ids of a run."""
        self.unsent_count -= 1
        if self.unsent is not None:
            self.unsent.discard(first, end)

    def release_unsent(self) -> None:
        """Return unsent messages to the partition, before the flow ends."""
        if self.unsent is not None and self.unsent.total > 0:
            self.partition.post(ReleaseUnsent(self.flow_id, self.epoch, self.unsent.ranges()))


@final
class _NoAddress(Address):
    """The address of retained messages: no queue gets their settlements."""

    def post(self, message: object) -> None:
        """Ignore it."""


# Retained messages sent because of a subscription come from no queue. Their "sequences" are numbers of the session.
RETAINED_ORIGIN: Final = DeliveryOrigin(_NoAddress(), 0, 0, None)


@final
@mypyc_attr(free_list_len=1)
class InflightRun:
    """Consecutive packet ids that stand for consecutive sequences of one source."""

    __slots__ = ("count", "first_packet_id", "first_sequence", "origin", "qos", "waits")

    def __init__(self, first_packet_id: i64, count: i64, first_sequence: i64, qos: i64, origin: DeliveryOrigin) -> None:
        self.first_packet_id = first_packet_id
        self.count = count
        self.first_sequence = first_sequence
        self.qos = qos
        self.origin = origin
        self.waits = False  # for the store to have its ids: the client was sent nothing under them

    def cut_off(self, count: i64) -> "InflightRun":
        """Keep the first `count` messages; return the others."""
        first_packet_id, first_sequence = self.first_packet_id + count, self.first_sequence + count
        rest = InflightRun(first_packet_id, self.count - count, first_sequence, self.qos, self.origin)
        self.count = count
        return rest


FIRST_PACKET_ID: Final = 1


@final
class InflightOut:
    """The packet ids in use towards one client.

    An id is in use from its PUBLISH until PUBACK, PUBCOMP, or a PUBREC that refuses [2.2.1-4]. Between PUBREC and
    PUBCOMP it is `released`: it stands for no message any more, but still counts against the Receive Maximum. While its
    run waits for the store it stands for none yet: an answer to it is to nothing that was sent, and passed over.

    Invariants: `_runs` is keyed by first id, and empty while there is a `_lone` run; ids of runs and of `released` are
    disjoint and make up `_used`; `not_sent_again` has those of the QoS 2 runs whose source remembers no ids.
    """

    def __init__(self, not_sent_again: RangeSet) -> None:
        self.released = RangeSet()
        self._not_sent_again = not_sent_again  # the session's
        self._used = RangeSet()
        # The only run there is, if it came when there was none: where each message comes alone, its id is answered
        # before the next is given out, and a dict would cost 800 instructions for it.
        self._lone: InflightRun | None = None
        self._runs: dict[int, InflightRun] = {}
        self._kept = RangeSet()  # ids the client knows from an earlier connection, not sent again yet
        self._next: i64 = FIRST_PACKET_ID

    def allocate(self, count: i64, first_sequence: i64, qos: i64, origin: DeliveryOrigin) -> InflightRun:
        """Take up to `count` ids in a row, as many as are free there. Some id is free: windows see to that."""
        used = self._used
        first, end = used.first_outside(self._next, PACKET_ID_MAX + 1)
        if first == end:
            first, end = used.first_outside(FIRST_PACKET_ID, PACKET_ID_MAX + 1)
            assert first < end, "a free packet id exists"
        if count > end - first:
            count = end - first
        used.add(first, first + count)
        self._next = first + count
        run = InflightRun(first, count, first_sequence, qos, origin)
        self._note(run)
        if qos == EXACTLY_ONCE and origin.ids is None:
            self._not_sent_again.add(first, first + count)
        return run

    def take(self, packet_id: int, sequence: int, qos: int, origin: DeliveryOrigin) -> InflightRun | None:
        """Take one certain id, which the client knows from an earlier connection; return None if it was not free."""
        if packet_id in self._kept:
            self._kept.remove(packet_id, packet_id + 1)
        elif packet_id in self._used:
            return None
        self._used.add(packet_id, packet_id + 1)
        run = InflightRun(packet_id, 1, sequence, qos, origin)
        self._note(run)
        return run

    def keep(self, packet_id: int) -> None:
        """Reserve an id until `take`: the client has a message under it from an earlier connection."""
        self._kept.add(packet_id, packet_id + 1)
        self._known(packet_id, packet_id + 1)

    def release_kept(self, packet_id: int) -> bool:
        """Release a kept id whose message is not sent again: it waits for PUBCOMP. Return whether it was kept."""
        if packet_id not in self._kept:
            return False
        self._kept.remove(packet_id, packet_id + 1)
        self.released.add(packet_id, packet_id + 1)
        return True

    def disown(self, ids: SentIds) -> None:
        """Forget the messages sent from a queue: the client's subscription has ended."""
        for run in [each for each in self.unanswered() if each.origin.ids is ids]:
            run.origin.ids = None
            if run.qos == EXACTLY_ONCE:
                self._not_sent_again.add(run.first_packet_id, run.first_packet_id + run.count)

    def drop(self, packet_id: int) -> None:
        """Free an id that was kept: there is no message under it any more."""
        if packet_id in self._kept:
            self._kept.remove(packet_id, packet_id + 1)
            self._used.remove(packet_id, packet_id + 1)

    def restore_released(self, first: int, end: int) -> None:
        """Bring back ids that were released on an earlier connection."""
        self.released.add(first, end)
        self._known(first, end)

    def _known(self, first: int, end: int) -> None:
        """Take ids that the client knows from before. Others are given out behind them.

        A client may acknowledge an id twice after a reconnect, for both deliveries: they must be of one message.
        """
        self._used.add(first, end)
        self._next = max(self._next, end)

    def run_of(self, first: i64, last: i64, qos: i64) -> InflightRun | None:
        """Return the run that has exactly these ids, both included, and was sent at this QoS; None if there is none."""
        run = self._run_of(first, last + 1)
        return run if run is not None and run.qos == qos and not run.waits else None

    def acknowledge_run(self, run: InflightRun) -> None:
        """Free the ids of a run, for a PUBACK or a refusing PUBREC."""
        self._take_run(run)
        self._used.discard(run.first_packet_id, run.first_packet_id + run.count)

    def release_run(self, run: InflightRun) -> None:
        """Note a PUBREC for a run: its messages are the client's, the ids wait for PUBCOMP."""
        self._take_run(run)
        self.released.add(run.first_packet_id, run.first_packet_id + run.count)

    def acknowledge(self, first: int, last: int) -> list[InflightRun]:
        """Free the ids of a PUBACK, or a refusing PUBREC; return their runs. Unknown ids are ignored."""
        answered = self._take_runs(first, last + 1)
        for each in answered:
            self._used.discard(each.first_packet_id, each.first_packet_id + each.count)
        return answered

    def release(self, first: int, last: int) -> list[InflightRun]:
        """Note a PUBREC: the client has the messages, the ids wait for PUBCOMP. Return their runs."""
        answered = self._take_runs(first, last + 1)
        for each in answered:
            self.released.add(each.first_packet_id, each.first_packet_id + each.count)
        return answered

    def complete(self, first: int, last: int) -> int:
        """Free released ids that a PUBCOMP names; return how many."""
        if self.released.take_lowest(first, last + 1):  # mostly there are these only, and a list is spared
            self._used.discard(first, last + 1)
            return last + 1 - first
        count = 0
        for start, end in self.released.remove(first, last + 1):
            self._used.discard(start, end)
            count += end - start
        return count

    def stands_for_other_qos(self, first: int, last: int, qos: int) -> bool:
        """Return whether one of the ids stands for a message of another QoS than the given one."""
        packet_id = first
        while packet_id <= last:
            run = self._runs.get(packet_id) or self._run_holding(packet_id)
            if run is None:
                packet_id += 1
            elif run.qos != qos and not run.waits:
                return True
            else:
                packet_id = run.first_packet_id + run.count
        return False

    def stands_for_a_message(self, first: int, last: int) -> bool:
        """Return whether one of the ids stands for a message that was sent and not answered."""
        return self.stands_for_other_qos(first, last, AT_MOST_ONCE)

    def unanswered(self) -> list[InflightRun]:
        """Return the runs whose messages the client has not answered for, in the order sent."""
        return list(self._runs.values()) if self._lone is None else [self._lone]

    def move_to(self, origin: DeliveryOrigin) -> RangeSet:
        """Move unacknowledged messages to an origin that replaces others; return their sequences."""
        in_flight = RangeSet()
        for run in self.unanswered():
            if run.origin.ids is origin.ids:
                run.origin = origin
                in_flight.add(run.first_sequence, run.first_sequence + run.count)
        return in_flight

    def _take_runs(self, first: int, end: int) -> list[InflightRun]:
        run = self._run_of(first, end)
        if run is not None and not run.waits:
            self._take_run(run)
            return [run]
        runs = self._by_first_id()
        answered: list[InflightRun] = []
        packet_id = first
        while packet_id < end:
            run = runs.get(packet_id)
            if run is None:
                run = self._run_holding(packet_id)
                if run is None:
                    packet_id += 1
                    continue
                if not run.waits:
                    self._break_up(run)
                    run = runs[packet_id]
            if run.waits:
                packet_id = run.first_packet_id + run.count
                continue
            count = min(run.count, end - packet_id)
            del runs[packet_id]
            if count < run.count:
                rest = run.cut_off(count)
                runs[rest.first_packet_id] = rest
            if run.qos == EXACTLY_ONCE and run.origin.ids is None:
                self._not_sent_again.discard(packet_id, packet_id + count)
            answered.append(run)
            packet_id += count
        return answered

    def _note(self, run: InflightRun) -> None:
        if self._lone is None and not self._runs:
            self._lone = run
        else:
            self._by_first_id()[run.first_packet_id] = run

    def _run_of(self, first: i64, end: i64) -> InflightRun | None:
        """Return the run that has exactly these ids, None if there is none."""
        run = self._lone
        if run is None:
            run = self._runs.get(first)
        if run is None or run.first_packet_id != first or run.count != end - first:
            return None
        return run

    def _take_run(self, run: InflightRun) -> None:
        first = run.first_packet_id
        if run is self._lone:
            self._lone = None
        else:
            del self._runs[first]
        if run.qos == EXACTLY_ONCE and run.origin.ids is None:
            self._not_sent_again.discard(first, first + run.count)

    def _by_first_id(self) -> dict[int, InflightRun]:
        """Return the runs by their first ids, in the order sent, to be changed; none is alone any more."""
        lone = self._lone
        if lone is not None:
            self._lone = None
            self._runs[lone.first_packet_id] = lone
        return self._runs

    def _run_holding(self, packet_id: int) -> InflightRun | None:
        if packet_id not in self._used or packet_id in self.released:
            return None
        for run in self.unanswered():
            if run.first_packet_id <= packet_id < run.first_packet_id + run.count:
                return run
        return None

    def _break_up(self, run: InflightRun) -> None:
        """Give every id of a run an entry of its own, so that ids out of order are found at once."""
        del self._runs[run.first_packet_id]
        for step in range(run.count):
            packet_id = run.first_packet_id + step
            self._runs[packet_id] = InflightRun(packet_id, 1, run.first_sequence + step, run.qos, run.origin)
