"""Set and delete retained messages: subscribers see the change at once, the store has it with the next commit."""

from functools import partial

from sluicegate.actors.messages.data import Resume
from sluicegate.actors.messages.spool import WriteTables
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.routing.retained_messages import ROW_BYTES, RetainedMessage, RetainedMessages
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.storage.interface import Table, TableWrite
from sluicegate.storage.records.batch import encode_batch


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
    changes: list[tuple[str, RetainedMessage | None]] = []
    for row in range(batch.count):
        topic = batch.topic_of(row)
        message: RetainedMessage | None = None
        if payloads[row] and keeps:
            message = RetainedMessage(batch.select([row]))  # without the encodings that the batch is sent in
            retained.put(topic, message)
        elif not (retained.remove(topic) or is_answered):
            continue
        changes.append((topic, message))
    return _store(changes, space, spool, address if is_answered else None, token)


def retain_again(batch: MessageBatch, token: int, *, space: TopicSpace, spool: Address, address: Address) -> int:
    """Have the store write the present retained messages of the batch's topics; return the number of confirmations.

    The batch was retained before. Later messages, also of other publishers, stay.
    """
    topics = [batch.topic_of(row) for row in range(batch.count)]
    return _store([(topic, space.retained.get(topic)) for topic in topics], space, spool, address, token)


def _store(
    changes: list[tuple[str, RetainedMessage | None]],
    space: TopicSpace,
    spool: Address,
    reply_to: Address | None,
    token: int,
) -> int:
    """Have changes written, deletions without fail; return the number of confirmations.

    Until confirmed they count for the pressure on publishers of retained messages: nothing else bounds what waits for a
    slow disk.
    """
    runs: list[tuple[bool, list[TableWrite]]] = []  # whether they are deletions
    for topic, message in changes:
        deletes = message is None
        value = None if message is None else encode_batch(message.batch)
        if not runs or runs[-1][0] != deletes:
            runs.append((deletes, []))
        runs[-1][1].append(TableWrite(Table.RETAINED, space.row_prefix + topic.encode(), value))
    for deletes, writes in runs:
        # A refused deletion would not be repeated, for nothing shows any more what was to be deleted.
        size = sum([ROW_BYTES + len(each.key) + len(each.value or b"") for each in writes])
        space.retained.row_leaves(size)
        spool.post(
            WriteTables(
                writes,
                reply_to,
                token if reply_to is not None else 0,
                until_done=deletes,
                left=partial(_left, space.retained, size),
            )
        )
    return len(runs) if reply_to is not None else 0


def _left(retained: RetainedMessages, size: int) -> None:
    """Handle rows that are written, or never will be: release waiting publishers."""
    for publisher in retained.row_is_done(size):
        publisher.post(Resume())
