"""Publish messages of a queue again, to where they were published: their topics, or the queues they were sent to.

Each is published as a copy and, if it is to be removed, deleted afterwards, when the copy is safe. A crash between the
two leaves both.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.actors.messages.operations import DELETE, MessagesTaken, TakeMessages
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import BrowseQueue
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.operations.publishing import publish_batches
from sluicegate.gateway.operations.queues.asking import ask_queue
from sluicegate.gateway.views.queues.messages import TakenView
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.dead_lettering import restored
from sluicegate.messaging.queues.message_filter import MessageFilter, MessageId

UNMATCHED: Final = "no_subscription_match"  # nobody would get it: it is not removed
UNSTORED: Final = "no_queue_got_it"  # but somebody who is connected did: it is not removed
HELD: Final = "with_a_consumer"
UNREACHED: Final = "not_reached"  # there was no time: whoever asks may ask again for them
WITHIN_MS: Final = 15_000  # half of what the admin port waits for an answer
PORTION: Final = 50  # ids, which are published before the next ones are looked for
PORTION_BYTES: Final = 16 * 1024 * 1024  # of payload, after which a portion ends with fewer


async def republish(
    node: Node, vpn: MessageVpn, handle: LocalQueue, ids: Sequence[MessageId], *, remove: bool
) -> TakenView:
    """Publish the messages with these ids again; return how many, and why not the others. Raises QueueNotFound.

    It goes in portions, so that few messages are in memory, and few are there twice when it ends in between. After
    WITHIN_MS no other portion begins: the rest is reported, before whoever asks gives up.
    """
    now_ms = node.services.clock.now_ms
    until_ms = now_ms() + WITHIN_MS
    done_count, kept, not_found = 0, Counter[str](), list[str]()
    reached = 0
    while reached < len(ids) and (not reached or now_ms() < until_ms):
        portion = await _portion(handle, ids[reached : reached + PORTION])
        reached += portion.ids_count
        not_found += portion.not_found
        if remove:
            kept[HELD] += sum(each.in_flight for each in portion.found)
        chosen = [each for each in portion.found if not (remove and each.in_flight)]
        done_count += await _again_and_gone(node, vpn, handle, chosen, kept, remove=remove)
    kept[UNREACHED] += len(ids) - reached
    return TakenView(done_count=done_count, kept=dict(+kept), not_found=tuple(not_found))


@dataclass(frozen=True, slots=True)
class _Portion:
    ids_count: int  # of these ids, the first ones
    found: list[BrowsedMessage]
    not_found: list[str]


async def _portion(handle: LocalQueue, ids: Sequence[MessageId]) -> _Portion:
    """Return the first messages with these ids, until their payloads are PORTION_BYTES together."""
    found: list[BrowsedMessage] = []
    not_found: list[str] = []
    payload_bytes = 0
    for each in ids:
        part: list[BrowsedMessage] = []
        if each.partition < len(handle.target.partitions):
            part = await ask_queue(handle, BrowseQueue(each.partition, each.sequence - 1, 1))
        if not part or part[0].sequence != each.sequence:
            not_found.append(each.text())
            continue
        found += part
        payload_bytes += len(part[0].batch.payloads()[part[0].row])
        if payload_bytes >= PORTION_BYTES:
            break
    return _Portion(len(found) + len(not_found), found, not_found)


async def _again_and_gone(
    node: Node,
    vpn: MessageVpn,
    handle: LocalQueue,
    chosen: Sequence[BrowsedMessage],
    kept: Counter[str],
    *,
    remove: bool,
) -> int:
    """Publish messages and, if wanted, delete those that are safe; return how many were published."""
    wall_ms = node.services.clock.wall_ms()
    outcomes = await publish_batches(node, vpn, (_again(each, wall_ms) for each in chosen), stops=False)
    done_count = 0
    safe: list[BrowsedMessage] = []
    for each, outcome in zip(chosen, outcomes, strict=True):
        if outcome.refusal or not outcome.matched:
            kept[outcome.refusal or UNMATCHED] += 1
            continue
        done_count += 1
        if outcome.stored:
            safe.append(each)
        elif remove:
            kept[UNSTORED] += 1
    if remove:
        kept.update(await _removed(handle, safe))
    return done_count


def _again(message: BrowsedMessage, wall_ms: int) -> MessageBatch:
    """Return a message as it was published, from now on."""
    batch, row = message.batch, message.row
    headers = batch.headers_of(row)
    payload = batch.payloads()[row]
    return MessageBatch(
        topic=batch.topic_of(row),
        topics=None,
        payloads=[payload],
        headers=None if headers is None else [restored(headers, received_ms=batch.received_ms, wall_ms=wall_ms)],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher=batch.publisher,
        received_ms=wall_ms,
        payload_bytes=len(payload),
    )


async def _removed(handle: LocalQueue, messages: Sequence[BrowsedMessage]) -> dict[str, int]:
    """Delete messages; return how many stay, by reason."""
    by_partition: dict[int, list[int]] = {}
    for each in messages:
        by_partition.setdefault(each.partition_number, []).append(each.sequence)
    stay: dict[str, int] = {}
    for number, sequences in by_partition.items():
        order = TakeMessages(DELETE, number, sorted(sequences), 0, 0, MessageFilter(), len(sequences), "")
        taken: MessagesTaken = await ask_queue(handle, order)
        for reason, count in taken.skipped.items():
            stay[reason] = stay.get(reason, 0) + count
    return stay
