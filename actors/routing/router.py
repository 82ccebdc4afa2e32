"""The router: changes the topic space.

It is not on the path of a message: publishers read the space's routes themselves. A subscription requested from the
router is in force for all publishers when the answer comes.
"""

from collections.abc import Callable
from typing import Any, final

from sluicegate.actors.messages.data import StoredAnswer
from sluicegate.actors.messages.directory import SHARED, CreateQueue, DeleteQueue, LocalQueue, NotifyConsumers
from sluicegate.actors.messages.router import (
    AddSubscription,
    AwaitNeighbors,
    ChangeNeighborInterest,
    ConsumersChanged,
    DefineVirtualDestinations,
    GroupJoined,
    JoinGroup,
    LeaveGroup,
    ListSelectors,
    NeighborGone,
    NeighborPresenceChanged,
    PutSelector,
    QueueFactsChanged,
    RemoveSubscription,
    SelectorOverview,
    SetQueueTopics,
    ShareRefused,
    SubscriptionAdded,
    TakeSelectors,
)
from sluicegate.actors.routing.durable_selectors import DurableSelectors
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.messaging.network.link import InterestWaiter
from sluicegate.messaging.observability.events import VPN_QUEUE_NAME_CONFLICT, VPN_QUEUE_NAME_CONFLICT_CLEAR, as_word
from sluicegate.messaging.queues.definition import QueueDefinition, is_named
from sluicegate.messaging.routing.destinations import QueueTarget, ShareGroup, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.routing.virtual.definitions import NO_DEFINITIONS
from sluicegate.messaging.routing.virtual.resolver import VirtualRoutes
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import NO_EXPORT, TopicFilter, in_mqtt_syntax

GroupKey = tuple[str, TopicFilter]  # share name and filter, in either syntax: together they identify the group


@final
class TopicRouter(Behaviour):
    """Owner of the topic space of one message VPN."""

    def __init__(
        self,
        cell: ActorCell,
        *,
        space: TopicSpace,
        selectors: Selectors,
        durable_selectors: DurableSelectors,
        group_queue: Callable[[str, bool, int], QueueDefinition],
        events: Events,
    ) -> None:
        self._cell = cell
        self._events = events
        self._conflicts: dict[str, list[str]] = {}  # queue -> neighbors that have one of the name, this broker or not
        self._space = space
        self._selectors = selectors
        self._virtual = VirtualRoutes(space, NO_DEFINITIONS, selectors)
        self._durable_selectors = durable_selectors
        self._group_queue = group_queue  # returns the definition of the queue of a shared group
        self._queue_filters: dict[QueueTarget, list[TopicFilter]] = {}
        self._groups: dict[GroupKey, ShareGroup] = {}
        self._members: dict[GroupKey, dict[str, bool]] = {}  # member -> whether it asks for guaranteed messages
        self._queue_names: dict[str, ShareGroup] = {}  # of groups with a member that asks for guaranteed messages
        self.directory: ActorCell | None = None  # of queues; set during assembly of the node

    def receive(self, message: Any) -> Any:
        """Change the topic space."""
        if isinstance(message, AddSubscription):
            return self._subscribe(message)
        if isinstance(message, RemoveSubscription):
            return self._unsubscribe(message)
        if isinstance(message, JoinGroup):
            return self._join(message)
        if isinstance(message, LeaveGroup):
            return self._leave(message)
        if isinstance(message, PutSelector):
            return self._put_selector(message)
        if isinstance(message, TakeSelectors):
            return self._take_selectors(message)
        if isinstance(message, ListSelectors):
            return self._list_selectors()
        if isinstance(message, SetQueueTopics):
            return self._set_queue_topics(message)
        if isinstance(message, AwaitNeighbors):
            return self._await_neighbors()
        if isinstance(message, ConsumersChanged):
            self._consumers_changed(message)
        elif isinstance(message, ChangeNeighborInterest):
            self._space.change_neighbor(message.link, message.change)
            self._review_names()
        elif isinstance(message, NeighborPresenceChanged):
            self._space.neighbor_presence_changed(message.link)
        elif isinstance(message, NeighborGone):
            self._space.forget_neighbor(message.link)
            self._review_names()
        elif isinstance(message, QueueFactsChanged):
            self._space.queue_changed(message.target)
        else:
            assert isinstance(message, DefineVirtualDestinations)
            self._define(message)
        return None

    def turn_ended(self) -> None:
        """Accept messages within the sender's turn while none waits: clients that connect together share a turn."""
        self._cell.inbox.accepts_inline = True

    def _subscribe(self, message: AddSubscription) -> SubscriptionAdded:
        subscriber = message.subscriber
        subscription = Subscription(subscriber, message.qos, message.selector, message.priorities)
        before = self._space.begun_count
        new = self._space.subscribe(message.topic_filter, subscriber.key, subscription)
        retained = self._space.retained.scan(message.topic_filter) if message.wants_retained(new) else None
        return SubscriptionAdded(new, retained, travels=self._space.begun_count != before)

    def _await_neighbors(self) -> LoopFuture[None] | None:
        """Return an answer that comes when the neighbors know the subscriptions; None: they do already."""
        interests = self._space.interests
        if interests is None:
            return None
        waiter = _NeighborsAwaited()
        for link in interests.links():
            if link.wait_until_known(waiter):
                waiter.unknown_count += 1
        return waiter.answer if waiter.unknown_count else None

    def _unsubscribe(self, message: RemoveSubscription) -> bool:
        return self._space.unsubscribe(message.topic_filter, message.subscriber.key)

    def _set_queue_topics(self, message: SetQueueTopics) -> LoopFuture[None] | None:
        target = message.target
        before = self._space.begun_count
        for topic_filter in self._queue_filters.pop(target, []):
            self._space.unsubscribe(topic_filter, target)
        target.selector = self._selectors.compile_accepted(message.selector) if message.selector else None
        for topic_filter in message.topic_filters:
            self._space.subscribe(topic_filter, target, target)
        self._review_name(target.name)
        target.topic_filters = message.topic_filters
        target.exceptions = message.exceptions
        if message.topic_filters:
            self._queue_filters[target] = message.topic_filters
            if is_named(target.name):
                self._virtual.add_queue(target)
                self._watch(target)
        else:
            self._virtual.remove_queue(target)
            self._durable_selectors.forget(target.name)
        return self._await_neighbors() if self._space.begun_count != before else None

    def _review_names(self) -> None:
        """Review the names of queues that neighbors have told of, or have no longer."""
        neighbors = self._space.neighbors
        for name in neighbors.queues.take_touched() if neighbors is not None else ():
            self._review_name(name)

    def _review_name(self, name: str) -> None:
        """Emit an event when a name begins or ends to be in conflict: two brokers have a queue of it."""
        if self._space.neighbors is None:
            return
        held = self._space.held
        if held is not None and name in held.queues:  # it is moving: for a moment both brokers tell of it
            return
        homes = self._space.conflict(name)
        known = self._conflicts.get(name, [])
        if homes == known:
            return
        if homes:
            self._conflicts[name] = homes
            text = f"neighbors {', '.join(homes)} and this broker" if self._space.has_queue(name) else ", ".join(homes)
            text = f"Queue {as_word(name)} is at several brokers: {text}; each serves its own clients only"
            self._events.emit(VPN_QUEUE_NAME_CONFLICT, text)
        else:
            del self._conflicts[name]
            self._events.emit(VPN_QUEUE_NAME_CONFLICT_CLEAR, f"Queue {as_word(name)} is at one broker only, or at none")

    def _define(self, message: DefineVirtualDestinations) -> None:
        before = self._virtual
        self._durable_selectors.keep_to(message.rules)
        self._virtual = VirtualRoutes(self._space, message.definitions, self._selectors)
        for target in before.queues():
            self._virtual.add_queue(target)
            self._watch(target)
        self._space.expand_with(self._virtual)

    # --- what consumers select ---

    def _watch(self, target: QueueTarget) -> None:
        """Subscribe to changes of a queue's consumers, if their selectors decide what enters the queue."""
        is_watched = target.watcher is not None
        if not self._virtual.is_selector_aware(target):
            target.watcher = None
            return
        target.watcher = self._cell.inbox
        if is_watched:
            self._select(target)
            return
        self._virtual.select_for(target.name, None)  # until the consumers are known
        assert self.directory is not None
        self.directory.inbox.post(NotifyConsumers(target.name))

    def _select(self, target: QueueTarget) -> None:
        self._virtual.select_for(target.name, self._durable_selectors.compiled(target.name))

    def _consumers_changed(self, message: ConsumersChanged) -> None:
        target = message.target
        if target.watcher is None:
            return  # the definitions have changed meanwhile
        if self._durable_selectors.of(target.name).consumers(message.consumers, self._cell.runtime.clock.wall_ms()):
            self._durable_selectors.store(target)
        self._select(target)
        self._space.expand_with(self._virtual)

    def _list_selectors(self) -> list[SelectorOverview]:
        watched = [target for target in self._virtual.queues() if target.watcher is not None]
        return [
            SelectorOverview(target.name, subscriber, list(each.selectors), each.seen_ms)
            for target in sorted(watched, key=lambda target: target.name)
            for subscriber, each in sorted(self._durable_selectors.of(target.name).remembered.items())
        ]

    def _put_selector(self, message: PutSelector) -> LoopFuture[bool] | bool:
        for target in self._virtual.queues():
            if target.name == message.queue and target.watcher is not None:
                known = self._durable_selectors.of(target.name)
                if message.selectors is not None:
                    known.put(message.subscriber, message.selectors, self._cell.runtime.clock.wall_ms())
                elif not known.remove(message.subscriber):
                    return False
                answer = StoredAnswer(True)
                self._durable_selectors.store(target, answer)
                self._select(target)
                self._space.expand_with(self._virtual)
                return answer.future
        return False

    def _take_selectors(self, message: TakeSelectors) -> LoopFuture[Any]:
        answer = StoredAnswer(True)
        try:
            self._durable_selectors.take(message.target, message.selectors, answer)
        except SelectorError as error:
            answer.future.set_exception((SelectorError, error, None))
        return answer.future

    # --- shared groups ---

    def _join(self, message: JoinGroup) -> LoopFuture[GroupJoined]:
        answer: LoopFuture[GroupJoined] = LoopFuture()
        key = (message.share_name, message.topic_filter)
        before = self._space.begun_count
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = ShareGroup(
                message.share_name, _filter_text(message.topic_filter), message.topic_filter
            )
            self._members[key] = {}
            self._space.subscribe(message.topic_filter, group, group)
        joined = group
        member = message.subscriber.key
        group.join(message.subscriber)
        self._space.group_changed(group)
        travels = self._space.begun_count != before
        if message.from_queue:
            group.queue_members[member] = None
        asked_before = self._members[key].get(member)
        if asked_before is None:
            self._space.count_member(message.share_name, message.topic_filter, joins=True)
        self._members[key][member] = message.qos > 0
        if message.qos == 0:
            self._delete_unused_queue(key, group)
            answer.set(GroupJoined(group, None, travels))
            return answer
        name = _queue_name(group)
        count = message.partition_count

        # The only inner function: in compiled code two that refer to each other form a cycle with all that they refer
        # to.
        def created(done: LoopFuture[LocalQueue]) -> None:
            try:
                handle = done.get()
                found = handle.definition.config.partition_count
                if count not in (0, found):
                    raise ShareRefused(f"the shared subscription has {found} partitions, not {count}")
            except Exception as error:  # the client's SUBSCRIBE is refused for this reason
                self._undo_join(message, joined, asked_before)
                answer.set_exception((type(error), error, error.__traceback__))
                return
            joined.queue = handle.target
            answer.set(GroupJoined(joined, handle, travels))

        if self._queue_names.setdefault(name, group) is not group:
            self._undo_join(message, group, asked_before)
            text = f"{name!r} is the queue of another group, whose filter is written alike in the other syntax"
            answer.set_exception((ShareRefused, ShareRefused(text), None))
            return answer
        assert self.directory is not None
        definition = self._group_queue(name, message.durable, count)
        asked: LoopFuture[LocalQueue] = self.directory.ask(
            CreateQueue(definition, SHARED, durable=message.durable, must_be_new=False)
        )
        asked.then(created)
        return answer

    def _undo_join(self, message: JoinGroup, group: ShareGroup, asked_before: bool | None) -> None:
        """Undo a refused join: restore whether the member asked for the queue before (None: it was no member)."""
        key = (message.share_name, message.topic_filter)
        member = message.subscriber.key
        if asked_before is None:
            self._leave(LeaveGroup(message.subscriber, message.share_name, message.topic_filter))
        elif self._groups.get(key) is group and member in group.members:
            self._members[key][member] = asked_before
            self._delete_unused_queue(key, group)

    def _leave(self, message: LeaveGroup) -> bool:
        key = (message.share_name, message.topic_filter)
        group = self._groups.get(key)
        member = message.subscriber.key
        if group is None or member not in group.members:
            return False
        group.leave(member)
        self._space.group_changed(group)
        del self._members[key][member]
        self._space.count_member(message.share_name, message.topic_filter, joins=False)
        self._delete_unused_queue(key, group)
        if not group.members:
            del self._groups[key]
            del self._members[key]
            self._space.unsubscribe(message.topic_filter, group)
        return True

    def _delete_unused_queue(self, key: GroupKey, group: ShareGroup) -> None:
        """Delete a group's queue, unless a member still asks for guaranteed messages."""
        if any(self._members[key].values()):
            return
        name = _queue_name(group)
        if self._queue_names.get(name) is group:
            del self._queue_names[name]
        if group.queue is not None:
            assert self.directory is not None
            self.directory.inbox.post(DeleteQueue(name))
            group.queue = None


@final
class _NeighborsAwaited(InterestWaiter):
    """Answers when the last of the neighbors knows."""

    def __init__(self) -> None:
        self.answer: LoopFuture[None] = LoopFuture()
        self.unknown_count = 0

    def interest_known(self) -> None:
        """Count down."""
        self.unknown_count -= 1
        if self.unknown_count == 0:
            self.answer.set(None)


def _filter_text(topic_filter: TopicFilter) -> str:
    text = in_mqtt_syntax(topic_filter)
    return NO_EXPORT + text if topic_filter.is_local else text


def _queue_name(group: ShareGroup) -> str:
    """Return the name of a group's queue, the same after a restart, for any member and either syntax.

    Two filters may be written alike in both syntaxes; they have one queue name.
    """
    return f"#share/{group.name}/{group.filter_text}"
