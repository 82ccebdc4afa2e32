"""The topic space: find the receivers of a message by its topic.

It joins the subscription index with the destinations of subscriptions (`messaging.routing.destinations`). A route is
resolved once per topic and cached until a subscription changes. Only the router actor changes the space; every
publisher on the node's loop reads it. A `TopicExpander` (`messaging.routing.virtual.resolver`) adds virtual and
composite destinations; without one, or where it adds nothing, a route consists of the subscriptions alone.

See also: what a route is (messaging.routing.receivers).
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import NativeFields
from sluicegate.messaging.message.usage import selector_bytes, share_bytes
from sluicegate.messaging.message.vpn import DEFAULT_VPN, row_prefix
from sluicegate.messaging.network.interest import Change
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.network.neighbors import NeighborInterest, link_route_to
from sluicegate.messaging.network.queue_names import QueueHome
from sluicegate.messaging.observability.tracing import Tracing
from sluicegate.messaging.routing.destinations import (
    DELIVER_ALWAYS,
    Destination,
    QueueTarget,
    ShareGroup,
    Subscriber,
    Subscription,
)
from sluicegate.messaging.routing.holds import Holds
from sluicegate.messaging.routing.local_interest import LocalInterests
from sluicegate.messaging.routing.receivers import (
    Matches,
    Route,
    SelectingChoices,
    TopicExpander,
    route_to,
)
from sluicegate.messaging.routing.retained_messages import RetainedMessages
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.messaging.topics.subscription_index import SubscriptionIndex, subscription_bytes
from sluicegate.messaging.topics.syntax import (
    SYSTEM_LEVEL,
    TOPIC_REMEMBERED_CHARACTERS_MAX,
    TopicFilter,
    is_queue_topic,
    maker_of,
    queue_name_of,
    queue_topic,
)

NO_FORMS: Final[dict[int, NativeFields]] = {}
IMPORTED: Final = "imported"  # with a queue the key of what definitions put into it
ROUTES_CACHED_MAX: Final = 65_536  # topics; the whole cache goes when it is full, or when a subscription changes
PLACES_CACHED_MAX: Final = 1 << 22  # in the cached routes, where thousands may stand in each: some 32 MiB


@final
class TopicSpace:
    """The subscriptions and retained messages of one message VPN."""

    def __init__(
        self, natives: Mapping[int, NativeFields] = NO_FORMS, vpn: str = DEFAULT_VPN, broker: str = ""
    ) -> None:
        self.broker = broker  # name of this one
        self.row_prefix = row_prefix(vpn)  # before the keys of the VPN's stored rows
        self.natives = natives  # by `Headers.native_format`: how to mark copies in native form
        self.retained = RetainedMessages()
        self.refuses_unmatched = False  # guaranteed messages without a subscriber are refused
        self.neighbors: NeighborInterest | None = None  # None: no neighbor broker has wanted anything yet
        self.sent_at_most_once_count = 0  # guaranteed messages that were sent to a neighbor as direct messages
        self.arrived_unmatched_count = 0  # messages from neighbors whose receivers there are no more
        self.offline_count = 0  # direct messages dropped because their client, or a whole group, was disconnected
        self.unmatched_count = 0  # messages dropped because their topic has no subscriber
        self.unmatched_refused_count = 0  # unmatched messages that were refused
        self.selects = False  # some topic has, or had, a route that differs between messages of a publisher
        self.generation = 0  # rises with every change of a subscription
        self.turns_count = 0  # Deliver-To-One messages for which a client was chosen
        self.filtered_count = 0  # forwarded messages whose selectors leave them no receiver
        self.refused_early: dict[int, int] = {}  # verdict -> messages that a neighbor's queue would have refused
        self.missing_count = 0  # messages for target queues that do not exist, refused or not
        self.expander: TopicExpander | None = None  # changed by `expand_with`
        self.tracing: Tracing | None = None  # None: no message is traced
        self.held: Holds | None = None  # None: nobody who publishes has to wait
        self.held_refused_count = 0  # guaranteed messages that could not wait, in holds that have ended
        self.held_dropped_count = 0  # direct ones
        self.interests: LocalInterests | None = None  # for neighbor brokers; None: there is no link
        self.link_queues: dict[LinkOutput, QueueTarget] = {}  # of links whose `has_queue` is set
        self._imported: dict[QueueTarget, list[TopicFilter]] = {}  # by the queues that definitions put messages into
        self.on_system_filter: Callable[[], None] | None = None  # called when somebody subscribes below `$SYS/`
        self.subscriptions_bytes = 0  # usage of the subscriptions and of group members
        self._selectors_bytes: dict[tuple[TopicFilter, Hashable], int] = {}  # of subscriptions that have one
        self._index: SubscriptionIndex[Destination] = SubscriptionIndex()
        self._routes: dict[str, Route] = {}
        self._arriving_routes: dict[str, Route] = {}  # of messages from neighbors, where they differ
        self._places_count = 0  # in the cached routes

    @property
    def subscriptions_count(self) -> int:
        """The number of subscriptions of clients, queues and groups."""
        return self._index.count

    def subscribe(self, topic_filter: TopicFilter, key: Hashable, destination: Destination) -> bool:
        """Add or replace a subscription; return whether it is new."""
        self._changed()
        selector: Selector | None = None
        if isinstance(destination, Subscription):
            selector = destination.selector
            if topic_filter.is_everything():  # a subscriber to everything is a monitor, and takes no turns
                destination.priorities = (DELIVER_ALWAYS,)
        elif isinstance(destination, QueueTarget):
            selector = destination.selector
        self._count_selector((topic_filter, key), selector)
        is_new = self._index.add(topic_filter, key, destination)
        if is_new:
            self.subscriptions_bytes += subscription_bytes(topic_filter)
        if self.interests is not None:
            self.interests.subscribed(topic_filter, key, destination)
        if self.on_system_filter is not None and topic_filter.levels[0].text == SYSTEM_LEVEL:
            self.on_system_filter()
        return is_new

    def unsubscribe(self, topic_filter: TopicFilter, key: Hashable) -> bool:
        """Remove a subscription; return whether it existed."""
        self._changed()
        was_there = self._index.discard(topic_filter, key)
        if was_there:
            self.subscriptions_bytes -= subscription_bytes(topic_filter)
            self._count_selector((topic_filter, key), None)
            if self.interests is not None:
                self.interests.unsubscribed(topic_filter, key)
        return was_there

    def count_member(self, share_name: str, topic_filter: TopicFilter, *, joins: bool) -> None:
        """Count a member that joins or leaves a group; the group itself is one subscription, whatever its size."""
        size = subscription_bytes(topic_filter) + share_bytes(share_name)
        self.subscriptions_bytes += size if joins else -size

    def _count_selector(self, place: tuple[TopicFilter, Hashable], selector: Selector | None) -> None:
        if self._selectors_bytes:
            self.subscriptions_bytes -= self._selectors_bytes.pop(place, 0)
        if selector is not None:
            self.selects = True
            size = self._selectors_bytes[place] = selector_bytes(selector.text)
            self.subscriptions_bytes += size

    def expand_with(self, expander: TopicExpander | None) -> None:
        """Resolve all routes again, with these definitions; called again when a queue changes what they resolve to."""
        self._changed()
        self.expander = expander

    def route(self, topic: str) -> Route:
        """Return the route of a topic; with `choices`, it lists all possible receivers."""
        route = self._routes.get(topic)
        if route is None:
            route = self._resolve(topic)
            self._keep(self._routes, topic, route)
        return route

    def arriving_route(self, topic: str) -> Route:
        """Return the route of messages of a topic that come from a neighbor. Its `links` do not concern them.

        The publisher's broker has forwarded them, but into the consumer queues of virtual topics that are here.
        """
        if self.expander is None:
            return self.route(topic)
        route = self._arriving_routes.get(topic)
        if route is None:
            matches = self.matches(topic)
            route = self.expander.arriving(topic, matches)
            if route is None:
                route = self._route_of(matches)
            self._keep(self._arriving_routes, topic, route)
        return route

    def _keep(self, routes: dict[str, Route], topic: str, route: Route) -> None:
        if len(topic) > TOPIC_REMEMBERED_CHARACTERS_MAX:
            return
        self._places_count += route.places_count
        if len(routes) >= ROUTES_CACHED_MAX or self._places_count > PLACES_CACHED_MAX:
            self._routes.clear()
            self._arriving_routes.clear()
            self._places_count = route.places_count
        routes[topic] = route

    def route_of_row(self, batch: MessageBatch, row: int) -> Route:
        """Return the route of the message in a row of a batch."""
        route = self.route(batch.topic_of(row))
        choices = route.choices
        return route if choices is None else choices.route(batch, row)

    # --- topics that are held ---

    def hold(self, queue: str, filters: list[TopicFilter]) -> Holds:
        """Have publishers to topics that these filters match wait: their queue is about to get another home."""
        if self.held is None:
            self.held = Holds()
        self.held.hold(queue, filters)
        return self.held

    def is_held(self, batch: MessageBatch) -> bool:
        """Return whether a batch has to wait.

        Where definitions forward a topic, that is assumed of all its messages: what becomes of them is known for each
        message only.
        """
        held = self.held
        if held is None or not held.queues:
            return False
        topics = batch.topics
        for topic in [batch.topic] if topics is None else dict.fromkeys(topics):
            if held.covers(topic):
                return True
            if self.expander is not None:
                route = self.route(topic)
                if route.forwarding is not None or route.choices is not None:
                    return True
        return False

    def end_holds(self) -> None:
        """End holding: nothing is held, and nothing waits."""
        held = self.held
        if held is not None:
            self.held_refused_count += held.refused_count
            self.held_dropped_count += held.dropped_count
            self.held = None

    def prioritise(self, subscriber: Subscriber, priority: int) -> None:
        """Set the Deliver-To-One priority of a client's subscriptions that have none of their own."""
        if subscriber.priority != priority:
            subscriber.priority = priority
            self._changed()
            if self.interests is not None:
                self.interests.renew(subscriber.key)

    def share_out(self, target: QueueTarget, place: Subscriber, priorities: tuple[int, ...]) -> None:
        """Give Deliver-To-One messages to a queue in turn, as the subscription of one client."""
        target.turns = place
        target.priorities = priorities
        self._changed()
        if self.interests is not None:
            self.interests.renew(target)

    def presence_changed(self, subscriber: Subscriber) -> None:
        """A client has connected, or has gone and left its subscriptions."""
        if self.interests is not None:
            self.interests.renew(subscriber.key)
            for group in subscriber.groups or ():
                self.interests.renew(group)

    def group_changed(self, group: ShareGroup) -> None:
        """A client has joined a shared group, or has left it."""
        if self.interests is not None:
            self.interests.renew(group)

    @property
    def begun_count(self) -> int:
        """How many interests have begun for links. It rises with a change that neighbors have to be told of."""
        return 0 if self.interests is None else self.interests.begun_count

    def exported(self) -> LocalInterests:
        """Return the interests of this space, which are kept from the first call on."""
        if self.interests is None:
            self.interests = LocalInterests()
            self.interests.begin(self._index.items())
            for target, filters in self._imported.items():
                self.interests.begin([(each, (IMPORTED, target), target) for each in filters])
        return self.interests

    def import_for(self, target: QueueTarget, filters: list[TopicFilter]) -> None:
        """Have neighbors send the messages that definitions put into a queue here: those of exactly these filters."""
        before = self._imported.pop(target, [])
        if filters:
            self._imported[target] = filters
        if self.interests is not None:
            for topic_filter in before:
                if topic_filter not in filters:
                    self.interests.unsubscribed(topic_filter, (IMPORTED, target))
            for topic_filter in filters:
                if topic_filter not in before:
                    self.interests.subscribed(topic_filter, (IMPORTED, target), target)

    def matching(self, topic: str) -> list[Destination]:
        """Return the destination of each subscription that matches a topic, whatever it selects or excludes."""
        return self._index.match(topic)

    def trace(self, topic: str) -> list[tuple[str, Destination]]:
        """Return every subscription that matches a topic with its filter, including those that exceptions exclude."""
        return self._index.trace(topic)

    def entries(self) -> list[tuple[str, Destination]]:
        """Return every subscription with its filter."""
        return self._index.entries()

    # --- neighbor brokers ---

    def change_neighbor(self, output: LinkOutput, change: Change) -> None:
        """Change what a neighbor wants. Routes of topics that the change does not concern stay, where that is cheap."""
        if self.neighbors is None:
            self.neighbors = NeighborInterest()
        self._forget_routes(self.neighbors.change(output, change))

    def forget_neighbor(self, output: LinkOutput) -> None:
        """End everything that a neighbor wants."""
        if self.neighbors is not None and self.neighbors.forget(output):
            self._forget_routes(None)

    def queues_of(self, route: Route) -> list[QueueTarget]:
        """Return every queue that gets a guaranteed message of a route, or one of its copies, also those of links."""
        links = route.neighbors_to_store_for()
        return route.all_queues() + [self.link_queues[output] for output in links] if links else route.all_queues()

    def keep_for(self, output: LinkOutput, queue: QueueTarget | None) -> None:
        """Store guaranteed messages for a neighbor in this queue from now on; None: in none."""
        if queue is None:
            self.link_queues.pop(output, None)
        else:
            self.link_queues[output] = queue
        output.has_queue = queue is not None
        self.neighbor_presence_changed(output)

    def neighbor_presence_changed(self, output: LinkOutput) -> None:
        """Resolve routes again: a neighbor is there, or no longer. What it wants stays known."""
        self._forget_routes(None)

    def _forget_routes(self, topics: list[str] | None) -> None:
        """Have the routes of these topics resolved again; None: of all."""
        if topics is None or self.expander is not None:  # definitions join topics in one route
            self._clear_routes()
            return
        for topic in topics:
            route = self._routes.pop(topic, None)
            if route is not None:
                self._places_count -= route.places_count

    def _changed(self) -> None:
        self.generation += 1
        self._clear_routes()

    def _clear_routes(self) -> None:
        if self._routes:
            self._routes.clear()
            self._places_count = 0
        if self._arriving_routes:
            self._arriving_routes.clear()
            self._places_count = 0

    def matches(self, topic: str) -> Matches:
        """Return the subscriptions that match a topic, without the queues that have an exception for it."""
        matches = Matches()
        queues_asking: dict[QueueTarget, None] = {}
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
                elif found not in queues_asking:
                    queues_asking[found] = None
                    matches.selecting.append(found)
            else:
                matches.groups[found] = None
        if self.link_queues and topic.startswith("$"):
            maker = self._maker_of(topic)
            if maker is not None:
                matches.links = link_route_to(maker)
                return matches
        if self.neighbors is not None and not (is_queue_topic(topic) and self.has_queue(queue_name_of(topic))):
            matches.links = self.neighbors.route(topic)
        return matches

    def _maker_of(self, topic: str) -> LinkOutput | None:
        """Return the neighbor that made up the name of a topic or queue: it alone has who receives there.

        So replies find their way whether it has told of the name or not. None: this broker, or people, named it.
        """
        broker = maker_of(topic)
        if broker and broker != self.broker:
            for output in self.link_queues:
                if output.neighbor == broker:
                    return output
        return None

    def maker_elsewhere(self, topic: str) -> str:
        """Return the neighbor that made up the name of a topic, or of the queue whose topic it is; empty: none did."""
        maker = self._maker_of(topic)
        return "" if maker is None else maker.neighbor

    def has_queue(self, name: str) -> bool:
        """Return whether this broker has a queue of this name that clients reach."""
        return any(
            isinstance(found, QueueTarget) and found.name == name for found in self._index.match(queue_topic(name))
        )

    def queue_home(self, name: str) -> QueueHome | None:
        """Return the neighbor whose queue a name means here; None: this broker's own queue, or none at all."""
        if self.neighbors is None or self.has_queue(name):
            return None
        return self.neighbors.queues.only_home(name)

    def is_elsewhere(self, name: str) -> bool:
        """Return whether messages for a queue of this name go to a neighbor; it may have deleted one that it named."""
        return self.queue_home(name) is not None or self._maker_of(queue_topic(name)) is not None

    def conflict(self, name: str) -> list[str]:
        """Return the neighbors with a queue of this name, if another broker or this one has one as well."""
        if self.neighbors is None:
            return []
        homes = [home.output.neighbor for home in self.neighbors.queues.homes(name)]
        return sorted(homes) if len(homes) + self.has_queue(name) > 1 else []

    def queue_changed(self, target: QueueTarget) -> None:
        """What neighbors are told of a queue has changed."""
        if self.interests is not None:
            self.interests.renew(target)

    def _resolve(self, topic: str) -> Route:
        matches = self.matches(topic)
        if self.expander is not None:
            expanded = self.expander.expanded(topic, matches)
            if expanded is not None:
                self.selects = self.selects or expanded.choices is not None or expanded.forwarding is not None
                return expanded
        return self._route_of(matches)

    def _route_of(self, matches: Matches) -> Route:
        """Return the route of a topic that no definition forwards."""
        if matches.selecting:
            return Route([], [], [], [], SelectingChoices(matches))
        return route_to(matches.granted, matches.queues, matches.groups, links=matches.links)
