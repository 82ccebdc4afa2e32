"""Suspended flows: messages that stay with one consumer while its client is away.

A QoS 2 message of a shared subscription is completed with the client it was sent to when that client reconnects [MQTT
4.8.2-4]. If the session ends first, the message goes to no other client [MQTT 4.8.2-5]. So the flow is *suspended*: it
gets no new messages, and what was sent stays in flight with it. When the client is back, the flow resumes under its old
id and epoch, and the messages it kept are delivered again, before new ones, also while their pages are read. Messages
still to be delivered again are in `LedgerFlow.kept`.

An AMQP consumer may keep its flow bound while it is away, without credit, and then ask for some of its messages again.
If it never does, other consumers get them.

See also: which messages stay, and keeping them over a restart, are the protocol's, which knows what it sent.
"""

from sluicegate.messaging.message.outcomes import DISCARD_SESSION_ENDED
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.in_flight import alike_until
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import Flow, LedgerFlow
from sluicegate.messaging.partitions.state.segments import Segment
from sluicegate.messaging.partitions.state.state import AT_ONCE, LedgerState

Ranges = list[tuple[int, int]]


def suspend(ledger: Ledger, flow_id: int, kept: Ranges) -> None:
    """Let a flow wait for its client with the sequences `kept`; the rest of what it holds is delivered again."""
    flow = ledger.flows.get(flow_id)
    if flow is None:
        return
    flow.paused = True
    stays = RangeSet()
    for first, end in kept:
        for start, stop in flow.in_flight.within(first, end):
            stays.add(start, stop)
    for first, end in flow.in_flight.ranges():
        for start, stop in stays.outside(first, end):
            ledger.take_back(flow, start, stop)
            ledger.requeue(start, stop, 1, flow.flow.client)
    flow.kept = stays
    flow.keeps_alone = True
    if ledger.groups is not None:
        ledger.groups.leave(ledger, flow_id)


def restore_suspended(ledger: Ledger, flow: Flow, epoch: int, kept: Ranges) -> None:
    """Park a flow of an earlier run of the node: those of its sequences that still have a message stay with it."""
    suspended = ledger.add_flow(flow, epoch)
    suspended.paused = True
    suspended.kept = RangeSet()
    suspended.keeps_alone = True
    ledger.gather_fresh()
    for first, end in kept:
        for start, stop in ledger.available_within(first, end):
            ledger.take_out(start, stop)
            ledger.undelivered.discard(start, stop)
            suspended.in_flight.add(start, stop)
            suspended.kept.add(start, stop)


def resume(ledger: Ledger, flow: Flow) -> None:
    """Let a suspended flow go on: its client is back."""
    suspended = ledger.flows.get(flow.flow_id)
    if suspended is not None:
        suspended.flow = flow
        flow.holdings.append(suspended.in_flight)
        suspended.paused = False
        suspended.keeps_alone = False  # if it leaves with its session going on, others get what it was not sent again


def deliver_again(ledger: Ledger, flow_id: int, epoch: int, ranges: Ranges) -> Ranges:
    """Have those of some ranges delivered to a flow once more that it holds; return them. None under an old epoch."""
    flow = ledger.flows.get(flow_id)
    if flow is None or flow.epoch != epoch:
        return []
    held = [part for first, end in ranges for part in flow.in_flight.within(first, end)]
    if held and flow.kept is None:
        flow.kept = RangeSet()
    for first, end in held:
        assert flow.kept is not None, "it was made above"
        flow.kept.add(first, end)
    return held


def discard_kept(ledger: Ledger, flow_id: int) -> None:
    """Drop what still waits for the client of a suspended flow: its session has ended."""
    flow = ledger.flows.get(flow_id)
    if flow is not None and flow.kept is not None and flow.keeps_alone:
        for first, end in flow.kept.ranges():
            for start, stop in ledger.take_back(flow, first, end):
                ledger.give_up(start, stop, DISCARD_SESSION_ENDED)


def release_kept(ledger: Ledger, page_first: int) -> None:
    """Let go of what flows keep in a page that cannot be read, so that it can be given up."""
    segment = ledger.segments.at_or_after(page_first)
    if segment is None or segment.page is None or segment.page.first != page_first:
        return
    for flow in ledger.flows.values():
        if flow.kept is not None:
            for first, end in flow.kept.remove(segment.first, segment.end):
                for start, stop in ledger.take_back(flow, first, end):
                    ledger.make_ready(start, stop)


def has_kept(ledger: Ledger) -> bool:
    """Return whether a flow that does not wait for its client has kept messages that are not delivered to it yet."""
    return any(flow.kept and not (flow.paused and flow.keeps_alone) for flow in ledger.flows.values())


def unsettled_among(ledger: Ledger, ranges: Ranges) -> Ranges:
    """Return those parts of the ranges that still have a message."""
    left: Ranges = []
    for first, end in ranges:
        first, end = max(first, ledger.floor), min(end, ledger.next_sequence)
        if first < end:
            left += ledger.settled.outside(first, end)
    return left


def deliver_kept(ledger: Ledger) -> list[Delivery]:
    """Deliver again what flows have kept and whose client is back, oldest first, within their credit."""
    deliveries: list[Delivery] = []
    for flow in list(ledger.flows.values()):
        kept = flow.kept
        if kept is None or flow.paused:
            continue
        while kept.total > 0:
            room = flow.flow.window.room()
            if room == 0:
                ledger.effects.starved_flows.append(flow.flow)
                break
            first, end = kept.lowest(), kept.lowest_end()
            held_first, held_end = flow.in_flight.next_range(first)
            if held_first != first:  # it was taken back meanwhile
                kept.remove(first, min(end, held_first) if held_first < held_end else end)
                continue
            segment = ledger.segments.at_or_after(first)
            if segment is None or not segment.first <= first:
                kept.remove(first, end if segment is None else segment.first)  # its page had it not
            elif not ledger.ensure_loaded(segment):
                break
            else:
                end = alike_until(ledger, first, min(end, held_end, segment.end, first + room))
                kept.remove(first, end)
                deliveries.append(_again(ledger, flow, segment, first, end))
        if kept.total == 0:
            flow.kept = None
    return deliveries


def _again(ledger: Ledger, flow: LedgerFlow, segment: Segment, first: int, end: int) -> Delivery:
    batch = segment.batch
    assert batch is not None
    flow.flow.window.take(end - first)
    tried_count = ledger.failures.get(first, 0)
    start_row = first - segment.first
    stop_row = end - segment.first
    delivery = Delivery(
        flow.flow, flow.epoch, batch, start_row, stop_row, first, True, tried_count + 1, segment.publication
    )
    if ledger.annotations is not None:
        delivery.annotation = ledger.annotations.by_sequence.get(first, b"")
    return delivery


# Messages that a consumer's connection was handed and never sent: when it ends, nobody has had them.
#
# Unlike what may have reached the consumer they have not failed, they expire as if they had waited in the queue [MQTT
# 3.3.2-5], and whoever gets them next gets them for the first time.


def release_unsent(ledger: LedgerState, flow_id: int, epoch: int, ranges: list[tuple[int, int]]) -> None:
    """Take back what a flow that ends holds of some ranges, of messages that nobody was given before it.

    The flow gets nothing more. Under an old epoch it changes nothing.
    """
    flow = ledger.flows.get(flow_id)
    if flow is None or flow.epoch != epoch:
        return
    flow.paused = True  # or it would have them again before it ends
    for first, end in ranges:
        for taken_first, taken_end in ledger.take_back(flow, first, end):
            for start, stop in ledger.drop_refused(taken_first, taken_end):
                _wait_anew(ledger, start, stop)


def _wait_anew(ledger: LedgerState, first: int, end: int) -> None:
    ledger.make_ready(first, end)
    ledger.undelivered.add(first, end)
    for segment in ledger.segments.overlapping(first, end):
        if segment.publication is not None:
            segment.publication.undelivered_count += min(end, segment.end) - max(first, segment.first)
        if ledger.rules.respects_expiry:
            ledger.schedule.add(AT_ONCE, segment.first)
