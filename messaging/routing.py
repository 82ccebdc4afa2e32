"""Topic space: who gets a message on a topic.

It joins the subscription index with what stands behind a subscription: a client's connection, a queue, a shared group.
Routes are resolved once per topic and kept until a subscription changes. The router actor changes the space; everybody
who publishes on this node's loop reads it. What virtual and composite destinations add to a topic's route is made by a
`TopicExpander`, `messaging.virtual_routes`; without one, or with nothing to add, routes are what they are without.
"""

from collections.abc import Hashable, Mapping
from typing import Final, final

from messaging.address import Address
from messaging.admission import QueueGate
from messaging.batch import MessageBatch
from messaging.fans import Fan, Way
from messaging.key_source import KeySource
from messaging.message_vpn import DEFAULT_VPN, row_prefix
from messaging.native_fields import NativeFields
from messaging.pressure import Pressure
from messaging.retained import RetainedTopics
from messaging.selectors import Selector
from messaging.slots import partition_in
from messaging.subscriptions import SubscriptionIndex
from messaging.topics import TOPIC_REMEMBERED_CHARACTERS_MAX, TopicFilter, matches
from messaging.tracing import Tracing

DELIVER_ALWAYS: Final = 0  # beside the priorities 1 (the best) to 4 of messaging.deliver_to_one
NO_FORMS: Final[dict[int, NativeFields]] = {}
CHOICES_CACHED_MAX: Final = 256  # of one topic
ROUTES_CACHED_MAX: Final = 65_536  # topics; the whole cache goes when it is full, or when a subscription changes


@final
class PartitionTarget:
    """Where the messages of one partition go."""

    __slots__ = ("address", "partition_id")

    def __init__(self, partition_id: int, address: Address) -> None:
        self.partition_id = partition_id  # unique in the spool, for ever
        self.address = address


@final
class QueueTarget:
    """A queue as publishers see it. Its actor keeps the fields true."""

    def __init__(self, name: str, gate: QueueGate, pressure: Pressure, *, durable: bool) -> None:
        self.name = name
        self.gate = gate
        self.pressure = pressure
        self.durable = durable
        self.partitions: list[PartitionTarget] = []
        self.topic_filters: list[TopicFilter] = []  # topics it attracts
        self.slots: bytes | None = None  # of messaging.slots; None: the hash modulo the number of partitions
        self.key_source: KeySource | None = None  # of the keys that publishers did not give
        self.exceptions: list[TopicFilter] = []  # topics matched by one of these are not for this queue
        self.selector: Selector | None = None  # what it takes of its topics' messages; None: all
        self.turns: Subscriber | None = None  # its place among sharers of Deliver-To-One messages; None: it gets all
        self.priorities: tuple[int, ...] = ()  # there: 1 to 4, DELIVER_ALWAYS, or both
        self.watcher: Address | None = None  # who hears of its consumers: those that select say what comes into it

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
    """A client with subscriptions: its connection for direct messages, its queue for guaranteed ones."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.address: Address | None = None  # None while the client is away
        self.pressure: Pressure | None = None  # of its connection
        self.queue: QueueTarget | None = None  # None until it has a subscription for guaranteed messages
        self.priority = 1  # for Deliver-To-One, where its subscription asks for nothing: 1 to 4, or DELIVER_ALWAYS
        self.last_turn = 0  # number of the last Deliver-To-One message that it was chosen for

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
        self.selector = selector  # None: it wants every message
        self.priorities = priorities  # for Deliver-To-One: 1 to 4, DELIVER_ALWAYS, or both; empty: the client's own


@final
class ShareGroup:
    """The members of one shared subscription: each message goes to one of them."""

    def __init__(self, name: str, filter_text: str) -> None:
        self.name = name
        self.filter_text = filter_text
        self.members: dict[str, Subscriber] = {}  # client -> member; changed by `join` and `leave`
        self.queue: QueueTarget | None = None  # of the guaranteed messages; None until a member asks for them
        self.queue_members: dict[str, None] = {}  # members that get direct messages by the queue, too
        self._order: list[Subscriber] = []  # the members as they joined
        self._turn = 0

    def join(self, member: Subscriber) -> None:
        """Take in a client, or the one that is this client now."""
        if member.client in self.members:
            self._order.remove(self.members[member.client])
        self.members[member.client] = member
        self._order.append(member)

    def leave(self, client: str) -> None:
        """Let a member go."""
        self._order.remove(self.members.pop(client))
        self.queue_members.pop(client, None)

    def queue_of(self, member: Subscriber) -> QueueTarget | None:
        """Return the queue by which a member gets the direct messages that are its turn; None: by its address."""
        return self.queue if member.client in self.queue_members else None

    def next_member(self) -> Subscriber | None:
        """Return the connected member whose turn it is, or None when all are away. The turn is taken."""
        member, turn = self._whose_turn()
        self._turn = turn
        return member

    def whose_turn(self) -> Subscriber | None:
        """Return the connected member whose turn it is, or None when all are away. It stays its turn."""
        return self._whose_turn()[0]

    def _whose_turn(self) -> tuple[Subscriber | None, int]:
        """Return who is next, and where the turn is then."""
        count = len(self._order)
        for step in range(count):
            member = self._order[(self._turn + step) % count]
            if member.address is not None:
                return member, (self._turn + step + 1) % count
        return None, self._turn

    def __repr__(self) -> str:
        return f"ShareGroup({self.name!r}, {self.filter_text!r}, {len(self.members)} members)"


Destination = Subscription | QueueTarget | ShareGroup


@final
class Route:
    """Everybody who gets the messages of one topic. Immutable; each subscriber, queue and group stands here once.

    Where somebody selects among the messages, or copies are made of them, it is nobody's route: `choices` has that of
    each message.
    """

    __slots__ = ("choices", "direct", "fan", "groups", "guaranteed", "is_empty", "only_queue", "queues", "takers")

    def __init__(
        self,
        direct: list[Subscriber],
        guaranteed: list[Subscriber],
        queues: list[QueueTarget],
        groups: list[ShareGroup],
        choices: "RouteChoices | None" = None,
        fan: Fan | None = None,
    ) -> None:
        self.choices = choices  # None: it is the same for all messages
        self.fan = fan  # None: no definition sends on what comes this way
        self.direct = direct  # clients that subscribed for direct messages only
        self.guaranteed = guaranteed  # clients that get guaranteed messages through their queue
        self.queues = queues  # named queues that subscribe to the topic
        self.groups = groups
        self.takers = [queue.turns for queue in queues if queue.turns is not None]  # places of queues that take turns
        self.is_empty = not (direct or guaranteed or queues or groups or choices is not None or fan is not None)
        # Where a guaranteed message goes when nobody else gets it: what most topics have.
        self.only_queue: QueueTarget | None = None
        if not direct and not groups and fan is None and len(guaranteed) + len(queues) == 1:
            self.only_queue = queues[0] if queues else guaranteed[0].queue

    def all_queues(self) -> list[QueueTarget]:
        """Return every queue that a guaranteed message goes into, those of its copies too, each once."""
        found = dict.fromkeys(self.queues)
        for subscriber in self.guaranteed:
            if subscriber.queue is not None:
                found[subscriber.queue] = None
        for group in self.groups:
            if group.queue is not None:
                found[group.queue] = None
        if self.fan is not None:
            for copy in self.fan.copies:
                found.update(dict.fromkeys(copy.route.all_queues()))
        return list(found)

    def __repr__(self) -> str:
        return f"Route(direct={self.direct}, guaranteed={self.guaranteed}, queues={self.queues}, groups={self.groups})"


@final
class Matches:
    """The subscriptions that match one topic, by what stands behind them."""

    __slots__ = ("granted", "groups", "queues", "selecting")

    def __init__(self) -> None:
        self.granted: dict[Subscriber, int] = {}  # by subscriptions without a selector
        self.selecting: list[Subscription | QueueTarget] = []  # not among the others
        self.queues: dict[QueueTarget, None] = {}
        self.groups: dict[ShareGroup, None] = {}


class RouteChoices:
    """The routes of a topic whose messages do not all go the same way: one for each set of selectors that one meets."""

    def __init__(self) -> None:
        self._selectors: list[Selector] = []  # each once
        self._routes: dict[int, Route] = {}

    def bit_of(self, selector: Selector) -> int:
        """Return the bit of a selector in the sets that `made` is asked for."""
        if selector not in self._selectors:
            self._selectors.append(selector)
        return 1 << self._selectors.index(selector)

    def met_by(self, batch: MessageBatch, row: int) -> int:
        """Return the selectors that the message in a row of a batch meets."""
        met = 0
        for place, selector in enumerate(self._selectors):
            if selector.matches(batch, row):
                met |= 1 << place
        return met

    def route(self, batch: MessageBatch, row: int) -> Route:
        """Return who gets the message in a row of a batch."""
        met = self.met_by(batch, row)
        route = self._routes.get(met)
        if route is None:
            if len(self._routes) >= CHOICES_CACHED_MAX:
                self._routes.clear()
            route = self._routes[met] = self.made(met)
        return route

    def made(self, met: int) -> Route:
        """Return the route of messages that meet exactly these selectors."""
        raise AssertionError("choices are between routes")


@final
class SelectingChoices(RouteChoices):
    """The routes of a topic where subscriptions have selectors."""

    def __init__(self, matches: Matches) -> None:
        super().__init__()
        self._matches = matches
        self._asking: list[tuple[int, Subscription | QueueTarget]] = []  # each with the bit of its selector
        for found in matches.selecting:
            assert found.selector is not None, "it selects"
            self._asking.append((self.bit_of(found.selector), found))

    def made(self, met: int) -> Route:
        """Return the route of messages that meet exactly these selectors."""
        granted = dict(self._matches.granted)
        queues = dict(self._matches.queues)
        for bit, found in self._asking:
            if not met & bit:
                continue
            if isinstance(found, QueueTarget):
                queues[found] = None
            elif found.qos > granted.get(found.subscriber, -1):
                granted[found.subscriber] = found.qos
        return route_to(granted, queues, self._matches.groups)


class TopicExpander:
    """What definitions add to the route of a topic. A class and no protocol, as `Address` is."""

    def expanded(self, topic: str, matches: Matches) -> Route | None:
        """Return the route of a topic that these subscriptions match; None when no definition has a say in it."""
        raise AssertionError("an expander has definitions")

    def ways(self, topic: str, batch: MessageBatch, row: int) -> tuple[list[Way], str]:
        """Return where definitions send a message on from a topic, and what keeps it from the topic's subscribers."""
        raise AssertionError("an expander has definitions")


@final
class RetainedMessage:
    """The last retained message of a topic: a batch of one row."""

    __slots__ = ("batch",)

    def __init__(self, batch: MessageBatch) -> None:
        self.batch = batch


@final
class TopicSpace:
    """The subscriptions and retained messages of one message VPN."""

    def __init__(self, natives: Mapping[int, NativeFields] = NO_FORMS, vpn: str = DEFAULT_VPN) -> None:
        self.row_prefix = row_prefix(vpn)  # before the keys of what is stored of it
        self.natives = natives  # by `Headers.native_format`, of forms in which copies of messages have to be marked
        self.retained: RetainedTopics[RetainedMessage] = RetainedTopics()
        self.refuses_unmatched = False  # guaranteed messages that nobody subscribes to
        self.offline_count = 0  # direct messages dropped because their client, or their whole group, was away
        self.unmatched_count = 0  # messages dropped because nobody subscribes to their topic
        self.unmatched_refused_count = 0  # and refused
        self.selects = False  # some topic has, or had, a route that is not the same for all of a publisher's messages
        self.generation = 0  # rises with every change of a subscription
        self.turns_count = 0  # Deliver-To-One messages for which a client was chosen
        self.filtered_count = 0  # messages that a definition sends on, and whose selectors leave them nobody
        self.missing_count = 0  # messages for target queues that there are not, refused or not
        self.expander: TopicExpander | None = None  # changed by `expand_with`
        self.tracing: Tracing | None = None  # None: no message is traced
        self._index: SubscriptionIndex[Destination] = SubscriptionIndex()
        self._routes: dict[str, Route] = {}

    @property
    def subscriptions_count(self) -> int:
        """How many subscriptions there are, of clients, queues and groups."""
        return self._index.count

    def subscribe(self, topic_filter: TopicFilter, key: Hashable, destination: Destination) -> bool:
        """Add or replace a subscription; return whether it is new."""
        self._changed()
        if isinstance(destination, Subscription):
            if destination.selector is not None:
                self.selects = True
            if topic_filter.is_everything():  # who subscribes to that looks on, and has no turns
                destination.priorities = (DELIVER_ALWAYS,)
        elif isinstance(destination, QueueTarget) and destination.selector is not None:
            self.selects = True
        return self._index.add(topic_filter, key, destination)

    def unsubscribe(self, topic_filter: TopicFilter, key: Hashable) -> bool:
        """Remove a subscription; return whether there was one."""
        self._changed()
        return self._index.discard(topic_filter, key)

    def expand_with(self, expander: TopicExpander | None) -> None:
        """Resolve all routes anew, with what these definitions add; told again when a queue makes them mean more."""
        self._changed()
        self.expander = expander

    def route(self, topic: str) -> Route:
        """Return who gets messages on a topic: with `choices`, who may get them."""
        route = self._routes.get(topic)
        if route is None:
            route = self._resolve(topic)
            if len(topic) > TOPIC_REMEMBERED_CHARACTERS_MAX:
                return route
            if len(self._routes) >= ROUTES_CACHED_MAX:
                self._routes.clear()
            self._routes[topic] = route
        return route

    def route_of_row(self, batch: MessageBatch, row: int) -> Route:
        """Return who gets the message in a row of a batch."""
        route = self.route(batch.topic_of(row))
        choices = route.choices
        return route if choices is None else choices.route(batch, row)

    def prioritise(self, subscriber: Subscriber, priority: int) -> None:
        """Set the Deliver-To-One priority of a client's subscriptions that have none of their own."""
        if subscriber.priority != priority:
            subscriber.priority = priority
            self._changed()

    def share_out(self, target: QueueTarget, place: Subscriber, priorities: tuple[int, ...]) -> None:
        """Let a queue have Deliver-To-One messages in turn, as the subscription of one client that it is."""
        target.turns = place
        target.priorities = priorities
        self._changed()

    def matching(self, topic: str) -> list[Destination]:
        """Return what stands behind each subscription that matches a topic, whatever it selects or keeps out."""
        return self._index.match(topic)

    def trace(self, topic: str) -> list[tuple[str, Destination]]:
        """Return every subscription that matches a topic with its filter, those that exceptions keep out too."""
        return self._index.trace(topic)

    def entries(self) -> list[tuple[str, Destination]]:
        """Return every subscription with its filter."""
        return self._index.entries()

    def _changed(self) -> None:
        self.generation += 1
        if self._routes:
            self._routes.clear()

    def matches(self, topic: str) -> Matches:
        """Return the subscriptions that match a topic, but for queues that except it."""
        matches = Matches()
        for found in self._index.match(topic):
            if isinstance(found, Subscription):
                if found.selector is not None:
                    matches.selecting.append(found)
                elif found.qos > matches.granted.get(found.subscriber, -1):
                    matches.granted[found.subscriber] = found.qos
            elif isinstance(found, QueueTarget):
                if found.excludes(topic):
                    continue
                if found.selector is None:
                    matches.queues[found] = None
                elif found not in matches.selecting:
                    matches.selecting.append(found)
            else:
                matches.groups[found] = None
        return matches

    def _resolve(self, topic: str) -> Route:
        matches = self.matches(topic)
        if self.expander is not None:
            expanded = self.expander.expanded(topic, matches)
            if expanded is not None:
                self.selects = self.selects or expanded.choices is not None or expanded.fan is not None
                return expanded
        if matches.selecting:
            return Route([], [], [], [], SelectingChoices(matches))
        return route_to(matches.granted, matches.queues, matches.groups)


def route_to(
    granted: dict[Subscriber, int],
    queues: dict[QueueTarget, None],
    groups: dict[ShareGroup, None],
    fan: Fan | None = None,
) -> Route:
    """Return the route to clients, each with the highest QoS that it was granted, to queues and groups."""
    return Route(
        [subscriber for subscriber, qos in granted.items() if qos == 0],
        [subscriber for subscriber, qos in granted.items() if qos > 0],
        list(queues),
        list(groups),
        fan=fan,
    )
