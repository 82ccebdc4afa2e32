"""Dealing direct messages out to the members of a shared group, one after the other."""

from messaging.batch import MessageBatch
from messaging.routing import ShareGroup, Subscriber


def deal(group: ShareGroup, batch: MessageBatch) -> list[tuple[Subscriber, MessageBatch]]:
    """Return what each connected member gets of a batch; nothing when all are away. Turns are taken."""
    connected_count = sum([member.address is not None for member in group.members.values()])
    if batch.count == 1 or connected_count < 2:
        member = group.next_member()
        return [] if member is None else [(member, batch)]
    hands: dict[Subscriber, list[int]] = {}
    for row in range(batch.count):
        member = group.next_member()
        if member is not None:
            hands.setdefault(member, []).append(row)
    return [(member, batch.select(rows)) for member, rows in hands.items()]
