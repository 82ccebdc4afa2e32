"""Suspended flows: messages that stay with one consumer while its client is away.

A QoS 2 message of a shared subscription is completed with the client it was sent to when that client reconnects [MQTT
4.8.2-4]. If the session ends first, the message goes to no other client [MQTT 4.8.2-5]. So the flow is *suspended*: it
gets no new messages, and what was sent stays in flight with it. When the client is back, the flow resumes under its old
id and epoch, and the messages it kept are delivered again, before new ones, also while their pages are read. Messages
still to be delivered again are in `LedgerFlow.to_resend`.

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


def suspend(ledger: Ledger, flow_id: int, to_resend: Ranges) -> None:
    """Suspend a flow with the sequences `to_resend` until its client returns; deliver the rest it holds again."""
    flow = ledger.flows.get(flow_id)
    if flow is None:
        return
    flow.paused = True
    stays = RangeSet()
    for first, end in to_resend:
        for start, stop in flow.in_flight.within(first, end):
            stays.add(start, stop)
    for first, end in flow.in_flight.ranges():
        for start, stop in stays.outside(first, end):
            ledger.take_back(flow, start, stop)
            ledger.requeue(start, stop, 1, flow.flow.client)
    flow.to_resend = stays
    flow.ends_with_session = True
    if ledger.groups is not None:
        ledger.groups.leave(ledger, flow_id)


def restore_suspended(ledger: Ledger, flow: Flow, epoch: int, to_resend: Ranges) -> None:
    """Suspend a flow of an earlier run of the node; it keeps those of its sequences that still have a message."""
    suspended = ledger.add_flow(flow, epoch)
    suspended.paused = True
    suspended.to_resend = RangeSet()
    suspended.ends_with_session = True
    ledger.advance_cursor()
    for first, end in to_resend:
        for start, stop in ledger.available_within(first, end):
            ledger.take_out(start, stop)
            ledger.undelivered.discard(start, stop)
            suspended.in_flight.add(start, stop)
            suspended.to_resend.add(start, stop)


def resume(ledger: Ledger, flow: Flow) -> None:
    """Resume a suspended flow: its client is back."""
    suspended = ledger.flows.get(flow.flow_id)
    if suspended is not None:
        suspended.flow = flow
        flow.holdings.append(suspended.in_flight)
        suspended.paused = False
        suspended.ends_with_session = False  # if it leaves and its session continues, others get what is left


def deliver_again(ledger: Ledger, flow_id: int, epoch: int, ranges: Ranges) -> Ranges:
    """Deliver again those messages of some ranges that the flow holds; return them. Return none under an old epoch."""
    flow = ledger.flows.get(flow_id)
    if flow is None or flow.epoch != epoch:
        return []
    held = [part for first, end in ranges for part in flow.in_flight.within(first, end)]
    if held and flow.to_resend is None:
        flow.to_resend = RangeSet()
    for first, end in held:
        assert flow.to_resend is not None, "created above"
        flow.to_resend.add(first, end)
    return held


def discard_resends(ledger: Ledger, flow_id: int) -> None:
    """Drop what still waits for the client of a suspended flow: its session has ended."""
    flow = ledger.flows.get(flow_id)
    if flow is not None and flow.to_resend is not None and flow.ends_with_session:
        for first, end in flow.to_resend.ranges():
            for start, stop in ledger.take_back(flow, first, end):
                ledger.give_up(start, stop, DISCARD_SESSION_ENDED)


def release_resends(ledger: Ledger, page_first: int) -> None:
    """Release what flows keep in a page that cannot be read, so that it can be given up."""
    segment = ledger.segments.at_or_after(page_first)
    if segment is None or segment.page is None or segment.page.first != page_first:
        return
    for flow in ledger.flows.values():
        if flow.to_resend is not None:
            for first, end in flow.to_resend.remove(segment.first, segment.end):
                for start, stop in ledger.take_back(flow, first, end):
                    ledger.make_ready(start, stop)


def has_resends(ledger: Ledger) -> bool:
    """Return whether a resumed flow has kept messages that are not delivered to it again yet."""
    return any(flow.to_resend and not (flow.paused and flow.ends_with_session) for flow in ledger.flows.values())


def unsettled_among(ledger: Ledger, ranges: Ranges) -> Ranges:
    """Return the parts of the ranges that still have a message."""
    left: Ranges = []
    for first, end in ranges:
        first, end = max(first, ledger.floor), min(end, ledger.next_sequence)
        if first < end:
            left += ledger.settled.outside(first, end)
    return left


def resend(ledger: Ledger) -> list[Delivery]:
    """Deliver the kept messages of resumed flows again, oldest first, within their credit."""
    deliveries: list[Delivery] = []
    for flow in list(ledger.flows.values()):
        kept = flow.to_resend
        if kept is None or flow.paused:
            continue
        while kept.total > 0:
            room = flow.flow.window.room()
            if room == 0:
                ledger.effects.starved_flows.append(flow.flow)
                break
            first, end = kept.lowest(), kept.lowest_end()
            held_first, held_end = flow.in_flight.next_range(first)
            if held_first != first:  # taken back meanwhile
                kept.remove(first, min(end, held_first) if held_first < held_end else end)
                continue
            segment = ledger.segments.at_or_after(first)
            if segment is None or not segment.first <= first:
                kept.remove(first, end if segment is None else segment.first)  # its page did not contain it
            elif segment.is_lost():
                end = min(end, held_end, segment.end)
                kept.remove(first, end)
                for start, stop in ledger.take_back(flow, first, end):
                    ledger.drop_unstored(start, stop)
            elif not ledger.ensure_loaded(segment):
                break
            else:
                end = alike_until(ledger, first, min(end, held_end, segment.end, first + room))
                kept.remove(first, end)
                deliveries.append(_again(ledger, flow, segment, first, end))
        if kept.total == 0:
            flow.to_resend = None
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


def release_unsent(ledger: LedgerState, flow_id: int, epoch: int, ranges: list[tuple[int, int]]) -> None:
    """Take back messages of a flow that ends, that were never sent to it and that no flow had before.

    They have not failed, unlike messages that may have reached the consumer. They expire as if they had waited in the
    queue [MQTT 3.3.2-5], and the next delivery is their first. The flow gets nothing more. Under an old epoch nothing
    changes.
    """
    flow = ledger.flows.get(flow_id)
    if flow is None or flow.epoch != epoch:
        return
    flow.paused = True  # otherwise it would get them again before it ends
    for first, end in ranges:
        for taken_first, taken_end in ledger.take_back(flow, first, end):
            for start, stop in ledger.drop_unstored(taken_first, taken_end):
                _wait_anew(ledger, start, stop)


def _wait_anew(ledger: LedgerState, first: int, end: int) -> None:
    ledger.make_ready(first, end)
    ledger.undelivered.add(first, end)
    for segment in ledger.segments.overlapping(first, end):
        if segment.publication is not None:
            segment.publication.undelivered_count += min(end, segment.end) - max(first, segment.first)
        if ledger.rules.respects_expiry:
            ledger.schedule.add(AT_ONCE, segment.first)
