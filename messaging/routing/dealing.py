"""Dealing direct messages out to the members of a shared group, one after the other."""

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.routing.destinations import ShareGroup, Subscriber


def deal(group: ShareGroup, batch: MessageBatch) -> list[tuple[Subscriber, MessageBatch]]:
    """Return what each connected member gets of a batch; nothing when all are away. Turns are taken."""
    hands: dict[Subscriber, list[int]] = {}
    for row in range(batch.count):
        member = group.next_member()
        if member is None:
            return []
        hands.setdefault(member, []).append(row)
    if len(hands) == 1:
        return [(member, batch) for member in hands]
    return [(member, batch.select(rows)) for member, rows in hands.items()]
