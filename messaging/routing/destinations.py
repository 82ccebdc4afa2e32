"""The destinations of subscriptions: the connection of a client, a queue, a shared group.

`messaging.routing.routes` holds the subscriptions and finds the receivers of a topic.
"""

from typing import Final, final

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.keys import KeySource
from sluicegate.messaging.network.link import GroupKey
from sluicegate.messaging.network.queue_names import QueueFacts
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.assignment.slots import partition_in
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, matches, parse_filter

DELIVER_ALWAYS: Final = 0  # beside the priorities 1 (the best) to 4 of messaging.routing.deliver_to_one


@final
class PartitionTarget:
    """Where the messages of one partition go."""

    __slots__ = ("address", "partition_id")

    def __init__(self, partition_id: int, address: Address) -> None:
        self.partition_id = partition_id  # unique in the spool, for ever
        self.address = address


@final
class QueueTarget:
    """A queue as publishers see it. The queue's actor keeps the fields up to date."""

    def __init__(self, name: str, gate: QueueGate, pressure: Pressure, *, durable: bool) -> None:
        self.name = name
        self.gate = gate
        self.pressure = pressure
        self.durable = durable
        self.partitions: list[PartitionTarget] = []
        self.topic_filters: list[TopicFilter] = []  # topics it attracts
        self.slots: bytes | None = (
            None  # of messaging.queues.assignment.slots; None: the hash modulo the number of partitions
        )
        self.key_source: KeySource | None = None  # of keys that publishers did not set
        self.exceptions: list[TopicFilter] = []  # messages on topics that match one of these do not enter the queue
        self.selector: Selector | None = None  # selects among the messages of its topics; None: all
        self.turns: Subscriber | None = None  # the client it shares Deliver-To-One messages as; None: it gets all
        self.priorities: tuple[int, ...] = ()  # there: 1 to 4, DELIVER_ALWAYS, or both
        self.facts: QueueFacts | None = None  # that neighbor brokers are told; None: they are not told of the queue
        self.watcher: Address | None = None  # is told of its consumers: their selectors decide what enters the queue

    def partition_of(self, key_hash: int) -> int:
        """Return the partition for a key hash."""
        slots = self.slots
        return key_hash % len(self.partitions) if slots is None else partition_in(slots, key_hash)

    def excludes(self, topic: str) -> bool:
        """Return whether a subscription exception keeps the topic out of this queue."""
        return bool(self.exceptions) and any(matches(exception, topic) for exception in self.exceptions)

    def __repr__(self) -> str:
        return f"QueueTarget({self.name!r}, {len(self.partitions)} partitions)"


@final
class Subscriber:
    """A client with subscriptions: its connection takes direct messages, its queue guaranteed ones."""

    def __init__(self, client: str, key: str = "") -> None:
        self.client = client  # as operators see it
        self.key = key or client  # unique; for MQTT the client identifier, which contains no NUL
        self.address: Address | None = None  # None while the client is disconnected
        self.pressure: Pressure | None = None  # of its connection
        self.queue: QueueTarget | None = None  # None until it has a subscription for guaranteed messages
        self.priority = 1  # for Deliver-To-One, where a subscription names none: 1 to 4, or DELIVER_ALWAYS
        self.last_turn = 0  # number of the last Deliver-To-One message that it was chosen for
        self.groups: dict[ShareGroup, None] | None = None  # of which it is a member; None: it has never been one

    def __repr__(self) -> str:
        return f"Subscriber({self.client!r}, {'connected' if self.address is not None else 'away'})"


@final
class Subscription:
    """One subscription of a client."""

    __slots__ = ("priorities", "qos", "selector", "subscriber")

    def __init__(
        self, subscriber: Subscriber, qos: int, selector: Selector | None = None, priorities: tuple[int, ...] = ()
    ) -> None:
        self.subscriber = subscriber
        self.qos = qos
        self.selector = selector  # None: every message
        self.priorities = priorities  # for Deliver-To-One: 1 to 4, DELIVER_ALWAYS, or both; empty: the client's one


@final
class ShareGroup:
    """The members of one shared subscription: each message goes to one of them."""

    def __init__(self, name: str, filter_text: str, topic_filter: TopicFilter | None = None) -> None:
        self.name = name
        self.filter_text = filter_text
        # What identifies it on every broker of a network.
        self.key: GroupKey = (name, topic_filter or parse_filter(filter_text, Syntax.MQTT))
        self.members: dict[str, Subscriber] = {}  # key -> member; changed by `join` and `leave`
        self.queue: QueueTarget | None = None  # of the guaranteed messages; None until a member asks for them
        self.queue_members: dict[str, None] = {}  # keys of members that get direct messages through the queue as well
        self._order: list[Subscriber] = []  # the members in the order they joined
        self._turn = 0

    def join(self, member: Subscriber) -> None:
        """Add a client, or replace the member that has its key."""
        if member.key in self.members:
            self._remove(self.members[member.key])
        self.members[member.key] = member
        self._order.append(member)
        if member.groups is None:
            member.groups = {}
        member.groups[self] = None

    def leave(self, key: str) -> None:
        """Remove a member."""
        self._remove(self.members.pop(key))
        self.queue_members.pop(key, None)

    def _remove(self, member: Subscriber) -> None:
        self._order.remove(member)
        if member.groups is not None:
            member.groups.pop(self, None)

    def queue_of(self, member: Subscriber) -> QueueTarget | None:
        """Return the queue through which a member gets direct messages; None: it gets them at its address."""
        return self.queue if member.key in self.queue_members else None

    def next_member(self) -> Subscriber | None:
        """Return the connected member whose turn it is, and take the turn; None when all are disconnected."""
        member, turn = self._whose_turn()
        self._turn = turn
        return member

    def takes_now(self, *, guaranteed: bool) -> bool:
        """Return whether a message would reach a member now, or its queue."""
        return (guaranteed and self.queue is not None) or self.whose_turn() is not None

    def whose_turn(self) -> Subscriber | None:
        """Return the connected member whose turn it is, without taking the turn; None when all are disconnected."""
        return self._whose_turn()[0]

    def _whose_turn(self) -> tuple[Subscriber | None, int]:
        """Return the next member, and the position of the turn after it."""
        count = len(self._order)
        for step in range(count):
            member = self._order[(self._turn + step) % count]
            if member.address is not None:
                return member, (self._turn + step + 1) % count
        return None, self._turn

    def __repr__(self) -> str:
        return f"ShareGroup({self.name!r}, {self.filter_text!r}, {len(self.members)} members)"


Destination = Subscription | QueueTarget | ShareGroup


def deal_to_members(group: ShareGroup, batch: MessageBatch) -> list[tuple[Subscriber, MessageBatch]]:
    """Distribute a batch over the connected members and take their turns; return nothing when all are disconnected."""
    hands: dict[Subscriber, list[int]] = {}
    for row in range(batch.count):
        member = group.next_member()
        if member is None:
            return []
        hands.setdefault(member, []).append(row)
    if len(hands) == 1:
        return [(member, batch) for member in hands]
    return [(member, batch.select(rows)) for member, rows in hands.items()]
