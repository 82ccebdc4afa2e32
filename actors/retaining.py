"""Setting and deleting retained messages: subscribers see the change at once, the store has it with the next commit."""

from actors.messages import WriteTables
from messaging.address import Address
from messaging.batch import AT_MOST_ONCE, MessageBatch
from messaging.routing import RetainedMessage, TopicSpace
from storage.interface import Table, TableWrite
from storage.record import encode_batch


def retain(batch: MessageBatch, token: int, *, space: TopicSpace, spool: Address, address: Address) -> int:
    """Set or delete the retained messages of the batch's topics; return how many confirmations that needs.

    A guaranteed deletion is confirmed by the store, though nothing is there: perhaps one before it is on its way.
    """
    runs: list[tuple[bool, list[TableWrite]]] = []  # whether they are deletions
    payloads = batch.payloads()
    retained = space.retained
    is_answered = batch.qos != AT_MOST_ONCE
    for row in range(batch.count):
        topic = batch.topic_of(row)
        deletes = not payloads[row]
        value: bytes | None = None
        if not deletes:
            message = batch if batch.count == 1 else batch.select([row])
            retained.put(topic, RetainedMessage(message))
            value = encode_batch(message)
        elif not (retained.remove(topic) or is_answered):
            continue
        if not runs or runs[-1][0] != deletes:
            runs.append((deletes, []))
        runs[-1][1].append(TableWrite(Table.RETAINED, space.row_prefix + topic.encode(), value))
    for deletes, writes in runs:
        # A deletion that the store refused would not be repeated, for nobody sees any more what was to be deleted.
        reply_to = address if is_answered else None
        spool.post(WriteTables(writes, reply_to, token if is_answered else 0, until_done=deletes))
    return len(runs) if is_answered else 0
