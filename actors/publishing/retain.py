"""Set and delete retained messages: subscribers see the change at once, the store has it with the next commit.

Each change has a version. Where the message VPN has links, deletions are stored as such, and neighbors are told when
the store has a change.
"""

from collections.abc import Callable
from functools import partial
from typing import final

from sluicegate.actors.messages.data import Resume
from sluicegate.actors.messages.spool import WriteTables
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.network.retained.exchange import RetainedEntry, StoredRetained, stays_local
from sluicegate.messaging.network.retained.versions import Version
from sluicegate.messaging.routing.retained_messages import ROW_BYTES, RetainedMessage, RetainedMessages
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.storage.interface import Table, TableWrite
from sluicegate.storage.records.retained import encode_retained


@final
class RetainedChange:
    """What becomes of one topic."""

    __slots__ = ("message", "topic", "version")

    def __init__(self, topic: str, version: Version | None, message: RetainedMessage | None) -> None:
        self.topic = topic
        self.version = version  # None: a deletion that nobody has to remember
        self.message = message  # None: it is deleted


def retain(
    batch: MessageBatch, token: int, *, space: TopicSpace, spool: Address, address: Address, keeps: bool = True
) -> int:
    """Set or delete the retained messages of the batch's topics; return the number of confirmations to expect.

    Without `keeps` there is no room for them: what they would replace is deleted [311:3.3.1-7]. A guaranteed deletion
    is confirmed by the store even if nothing is there: an earlier message may still be on its way.
    """
    payloads = batch.payloads()
    retained = space.retained
    is_answered = batch.qos != AT_MOST_ONCE
    changes: list[RetainedChange] = []
    for row in range(batch.count):
        topic = batch.topic_of(row)
        if payloads[row] and keeps:
            version = retained.clock.next(batch.received_ms)
            message = RetainedMessage(batch.select([row]), version)  # without the encodings that the batch is sent in
            retained.put(topic, message)
            changes.append(RetainedChange(topic, version, message))
        elif retained.stored is not None and not stays_local(topic):
            version = retained.clock.next(batch.received_ms)
            retained.bury(topic, version)
            changes.append(RetainedChange(topic, version, None))
        elif retained.remove(topic) or is_answered:
            changes.append(RetainedChange(topic, None, None))
    return _store(changes, space, spool, address if is_answered else None, token, None)


def retain_again(batch: MessageBatch, token: int, *, space: TopicSpace, spool: Address, address: Address) -> int:
    """Have the store write the present retained messages of the batch's topics; return the number of confirmations.

    The batch was retained before. Later messages, also of other publishers, stay.
    """
    changes = [_present(space.retained, batch.topic_of(row)) for row in range(batch.count)]
    return _store(changes, space, spool, address, token, None)


def store_changes(
    changes: list[RetainedChange], *, space: TopicSpace, spool: Address, on_left: Callable[[str], None] | None = None
) -> int:
    """Have changes written that are in force already; return how often `on_left` will be called.

    It is called with an empty reason when rows are written, and with another when they never will be. Only the links of
    a message VPN use it.
    """
    return _store(changes, space, spool, None, 0, on_left)


def forget_deletions(*, space: TopicSpace, spool: Address, wall_ms: int) -> None:
    """Delete the rows of deletions that no neighbor has to hear of any more, or that are too old."""
    topics = space.retained.forgettable(wall_ms)
    if topics:
        store_changes([RetainedChange(topic, None, None) for topic in topics], space=space, spool=spool)


def store_again(*, space: TopicSpace, spool: Address) -> None:
    """Have the store write what it has refused, as it is in force now: neighbors hear of what is stored only."""
    retained = space.retained
    if retained.stored is not None:
        changes = [_present(retained, topic) for topic in retained.stored.take_refused()]
        if changes:
            store_changes(changes, space=space, spool=spool)


def _present(retained: RetainedMessages, topic: str) -> RetainedChange:
    """Return what is in force."""
    message = retained.get(topic)
    return RetainedChange(topic, retained.tombstones.get(topic) if message is None else message.version, message)


def _store(
    changes: list[RetainedChange],
    space: TopicSpace,
    spool: Address,
    reply_to: Address | None,
    token: int,
    on_left: Callable[[str], None] | None,
) -> int:
    """Have changes written, deletions without fail; return the number of confirmations, or of calls of `on_left`.

    Until confirmed they count for the pressure on publishers of retained messages: nothing else bounds what waits for a
    slow disk.
    """
    runs: list[tuple[bool, list[TableWrite], list[RetainedChange]]] = []  # the first: whether they are deletions
    for change in changes:
        message = change.message
        deletes = message is None
        value: bytes | None = None
        if change.version is not None:
            value = encode_retained(change.version, None if message is None else message.batch)
        if not runs or runs[-1][0] != deletes:
            runs.append((deletes, [], []))
        runs[-1][1].append(TableWrite(Table.RETAINED, space.row_prefix + change.topic.encode(), value))
        runs[-1][2].append(change)
    stored = space.retained.stored
    for deletes, writes, of_run in runs:
        # A refused deletion would not be repeated, for nothing shows any more what was to be deleted.
        size = sum([ROW_BYTES + len(each.key) + len(each.value or b"") for each in writes])
        space.retained.row_leaves(size)
        number = 0 if stored is None else stored.posted([each.topic for each in of_run])
        spool.post(
            WriteTables(
                writes,
                reply_to,
                token if reply_to is not None else 0,
                until_done=deletes,
                left=partial(_left, space.retained, size, of_run, on_left, stored, number),
            )
        )
    return len(runs) if reply_to is not None or on_left is not None else 0


def _left(
    retained: RetainedMessages,
    size: int,
    changes: list[RetainedChange],
    on_left: Callable[[str], None] | None,
    posted: StoredRetained | None,
    number: int,
    reason: str,
) -> None:
    """Handle rows that are written, or that the store has refused: release waiting publishers, tell links.

    `posted` has given the rows their number: there were links then.
    """
    for publisher in retained.row_is_done(size):
        publisher.post(Resume())
    stored = retained.stored
    if stored is not None:
        for change in changes:
            if reason:
                stored.refused(change.topic)
            elif change.version is None:
                stored.removed(change.topic)
            elif retained.version_of(change.topic) == change.version:  # else a later change is on its way
                stored.stored(RetainedEntry(change.topic, change.version, change.message is None))
    if posted is not None:
        posted.done(number, [each.topic for each in changes])
    if on_left is not None:
        on_left(reason)
