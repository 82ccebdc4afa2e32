"""Operations on the queues of a message VPN, their messages, cursors and selectors."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    LINK,
    DeclareQueue,
    DefinitionLost,
    DeleteQueue,
    FindQueue,
    ListQueues,
    LocalQueue,
    QueueExists,
    QueueHandle,
    QueuesExhausted,
    UpdateQueue,
    UpdateRefused,
)
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import PurgeQueue, QueueOverview
from sluicegate.actors.messages.readers import CursorOverview, DeleteCursor, ListCursors, ReplayQueue, ReplayRefused
from sluicegate.actors.messages.router import ListSelectors, PutSelector, SelectorOverview
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.operations.queues.actions import (
    add_batch_at_home,
    cancel_move_at_home,
    delete_cursor_at_home,
    move_from_home,
    replay_at_home,
)
from sluicegate.gateway.operations.queues.asking import ask_queue, network_queues, not_found, overview_of, overviews_of
from sluicegate.gateway.operations.queues.explain import key_explained
from sluicegate.gateway.operations.queues.followers import QueueFollowers
from sluicegate.gateway.operations.queues.message_views import message_view
from sluicegate.gateway.operations.queues.messages import MessageOperations, browse_page
from sluicegate.gateway.operations.queues.questions import KEY, QUEUE, ask_cursors, ask_home
from sluicegate.gateway.operations.queues.republish import republish
from sluicegate.gateway.operations.queues.search import search
from sluicegate.gateway.operations.queues.views import (
    cursor_view,
    lost_dead_messages,
    move_view,
    queue_figures,
    queue_view,
    wanted_queues,
)
from sluicegate.gateway.views.errors import (
    CursorNotFound,
    QueueAlreadyExists,
    QueueNotFound,
    Refused,
    SelectorNotFound,
    SubscriptionAlreadyExists,
    SubscriptionNotFound,
)
from sluicegate.gateway.views.node.figures import QueuesFigures, QueuesQuery
from sluicegate.gateway.views.node.spool import incarnation_text
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.explanations import KeyExplanation
from sluicegate.gateway.views.queues.messages import MessageSearchView, MessageView, RedriveView, TakenView
from sluicegate.gateway.views.queues.queues import DurableSelectorView, NetworkQueueView, QueueMoveView, QueueView
from sluicegate.gateway.views.queues.selections import SCAN_DEFAULT, START, MessageSelection, ReplayStart, selector_of
from sluicegate.messaging.bulk.durable_cursors import NO_SUCH_CURSOR, CursorRefused
from sluicegate.messaging.message.keys import KeySource
from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid, changed
from sluicegate.messaging.queues.message_filter import MessageId
from sluicegate.messaging.selectors.durable import SELECTORS_OF_ONE_MAX
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selector


class QueueOperations:
    """Carries out operations on the queues of one message VPN, and on those of neighbor brokers that it knows."""

    def __init__(self, node: Node, vpn: MessageVpn, followers: QueueFollowers) -> None:
        self._node = node
        self._vpn = vpn
        self.followers = followers
        self._messages = MessageOperations(node, vpn)

    async def create_queue(self, asked: Mapping[str, object], *, durable: bool | None = None) -> QueueView:
        """Create a queue; a template gives the attributes that `asked` does not have."""
        try:
            handle: LocalQueue = await self._vpn.queues.ask(DeclareQueue(dict(asked), durable))
        except DefinitionLost as lost:
            raise Refused(str(lost)) from None
        except QueueExists as exists:
            raise QueueAlreadyExists(str(exists)) from None
        except (StoreRefused, QueuesExhausted) as refusal:
            raise Refused(str(refusal)) from None
        return await self._shown(handle)

    async def update_queue(self, name: str, changes: Mapping[str, object]) -> QueueView:
        """Change attributes or subscriptions."""
        await self._update(name, lambda queue: changed(queue.definition, dict(changes), durable=queue.durable))
        return await self.show_queue(name)

    async def add_subscription(self, queue: str, topic: str) -> None:
        """Add a topic to a queue."""

        def added(present: LocalQueue) -> QueueDefinition:
            topics = present.definition.subscriptions
            if topic in topics:
                raise SubscriptionAlreadyExists(topic)
            return changed(present.definition, {"subscriptions": [*topics, topic]}, durable=present.durable)

        await self._update(queue, added)

    async def remove_subscription(self, queue: str, topic: str) -> None:
        """Remove a topic from a queue."""

        def removed(present: LocalQueue) -> QueueDefinition:
            topics = present.definition.subscriptions
            if topic not in topics:
                raise SubscriptionNotFound(topic)
            return replace(present.definition, subscriptions=tuple(each for each in topics if each != topic))

        await self._update(queue, removed)

    async def _update(self, name: str, change: Callable[[LocalQueue], QueueDefinition]) -> None:
        _check_not_of_a_link(await self._find(name))
        try:
            await self._vpn.queues.ask(UpdateQueue(name, change))
        except (StoreRefused, UpdateRefused) as refusal:
            raise Refused(str(refusal)) from None

    async def delete_queue(self, name: str) -> None:
        """Delete a queue with all it holds."""
        _check_not_of_a_link(await self._find(name))
        try:
            await self._vpn.queues.ask(DeleteQueue(name))
        except UpdateRefused as refusal:
            raise Refused(str(refusal)) from None

    async def list_queues(self, *, of_client: str | None = None) -> Sequence[QueueView]:
        """Return every queue by name, or those that a client consumes."""
        handles: list[LocalQueue] = await self._vpn.queues.ask(ListQueues())
        handles = [each for each in handles if not each.is_received]  # the broker that they come from lists them
        wanted = [each for each in handles if of_client is None or of_client in each.state.clients()]
        return [self._view(handle, overview) for handle, overview in await overviews_of(wanted)]

    async def list_network_queues(self) -> Sequence[NetworkQueueView]:
        """Return the queues of neighbor brokers."""
        return network_queues(self._vpn.space)

    async def queue_names(self) -> Sequence[str]:
        """Return the name of every queue."""
        handles: list[LocalQueue] = await self._vpn.queues.ask(ListQueues())
        return [handle.name for handle in handles if not handle.is_received]

    async def show_queue(self, name: str) -> QueueView:
        """Return one queue with its partitions and flows; the broker that has it is asked."""
        try:
            return await self.show_queue_here(name)
        except QueueNotFound:
            return await ask_home(self._node.links.links.neighbors, self._vpn, QueueView, QUEUE, name)

    async def show_queue_here(self, name: str) -> QueueView:
        """Return one queue of this broker. Raises QueueNotFound."""
        return await self._shown(await self._find(name))

    async def purge_queue(self, name: str) -> int:
        """Remove waiting messages; return how many."""
        handle = await self._find(name)
        count: int = await ask_queue(handle, PurgeQueue())
        return count

    async def browse_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, limit: int = 100, selector: str = ""
    ) -> Sequence[MessageView]:
        """Return messages oldest first, without removing any."""
        handle = await self._find_anywhere(name)
        _check_partition(handle, partition)
        wanted = self._selector(selector)
        if isinstance(handle, LocalQueue):
            found = await browse_page(handle, partition=partition, after=after, limit=limit, selector=wanted)
        else:
            found = await self.followers.page(handle, partition, after, limit, wanted)
        return [self._message_view(each, handle) for each in found]

    async def search_queue(
        self,
        name: str,
        selection: MessageSelection,
        *,
        partition: int | None = None,
        position: MessageId = START,
        limit: int = 100,
        scan: int = SCAN_DEFAULT,
    ) -> MessageSearchView:
        """Return messages that a selection matches, without removing any."""
        handle = await self._find_anywhere(name)
        _check_partition(handle, partition)
        services = self._node.services
        wanted = selection.message_filter(services.clock.wall_ms(), services.selectors)
        found = await search(
            handle,
            self.followers,
            wanted,
            partition_count=_partition_count(handle),
            partition=partition,
            position=position,
            limit=limit,
            scan=scan,
        )
        return MessageSearchView(
            messages=tuple(self._message_view(each, handle) for each in found.messages),
            scanned_count=found.scanned_count,
            position=None if found.position is None else found.position.text(),
        )

    async def follow_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, selector: str = ""
    ) -> AsyncIterator[MessageView]:
        """Return messages oldest first, and then new ones as they arrive."""
        handle = await self._find_anywhere(name)
        _check_partition(handle, partition)
        return self._followed(handle, partition, after, self._selector(selector))

    async def _followed(
        self, handle: QueueHandle, partition: int | None, after: int, selector: Selector | None
    ) -> AsyncIterator[MessageView]:
        async with aclosing(self.followers.messages(handle, partition, after, selector)) as messages:
            async for message in messages:
                yield self._message_view(message, handle)

    def _message_view(self, message: BrowsedMessage, handle: QueueHandle) -> MessageView:
        return message_view(message, _key_source(handle), handle.broker, self._node.services.natives)

    def _selector(self, text: str) -> Selector | None:
        return selector_of(text, self._node.services.selectors) if text else None

    async def take_messages(self, name: str, action: str, selection: MessageSelection) -> TakenView:
        """Delete, move or copy messages."""
        return await self._messages.take(await self._find(name), action, selection)

    async def republish_messages(self, name: str, ids: Sequence[MessageId], *, remove: bool) -> TakenView:
        """Publish messages again, to where they were published."""
        return await republish(self._node, self._vpn, await self._find(name), ids, remove=remove)

    async def start_redrive(self, name: str, selection: MessageSelection) -> RedriveView:
        """Start a re-drive of dead messages."""
        return await self._messages.start_redrive(await self._find(name), selection)

    async def show_redrive(self, name: str) -> RedriveView:
        """Return the progress of the latest re-drive."""
        return self._messages.show_redrive((await self._find(name)).name)

    async def cancel_redrive(self, name: str) -> RedriveView:
        """Cancel a re-drive."""
        return await self._messages.cancel_redrive((await self._find(name)).name)

    async def replay_queue(self, name: str, start: ReplayStart, *, end: int, partition: int | None) -> int:
        """Replay kept messages; return how many. The broker that has the queue does it."""
        try:
            return await self.replay_queue_here(name, start, end=end, partition=partition)
        except QueueNotFound:
            neighbors = self._node.links.links.neighbors
            return await replay_at_home(neighbors, self._vpn, name, start, end=end, partition=partition)

    async def replay_queue_here(self, name: str, start: ReplayStart, *, end: int, partition: int | None) -> int:
        """Replay a queue of this broker. Raises QueueNotFound, QueueInvalid and Refused."""
        handle = await self._find(name)
        _check_partition(handle, partition)
        try:
            count: int = await ask_queue(handle, ReplayQueue(partition, start.first, start.since_ms, end))
        except ReplayRefused as refusal:
            raise Refused(str(refusal)) from None
        return count

    async def move_queue(self, name: str, to: str, *, drop_kept: bool = False) -> None:
        """Begin to move a queue to another broker. The broker that has the queue does it."""
        try:
            await self.move_queue_here(name, to, drop_kept=drop_kept)
        except QueueNotFound:
            await move_from_home(self._node.links.links.neighbors, self._vpn, name, to, drop_kept=drop_kept)

    async def move_queue_here(self, name: str, to: str, *, drop_kept: bool = False) -> None:
        """Begin to move a queue of this broker. Raises QueueNotFound and Refused."""
        await self._find(name)
        try:
            await self._node.links.moves(self._vpn).begin(name, to, drops_kept=drop_kept)
        except (StoreRefused, UpdateRefused) as refusal:
            raise Refused(str(refusal)) from None

    async def cancel_move(self, name: str) -> None:
        """End the move of a queue. The broker that has the queue does it."""
        try:
            await self.cancel_move_here(name)
        except QueueNotFound:
            await cancel_move_at_home(self._node.links.links.neighbors, self._vpn, name)

    async def cancel_move_here(self, name: str) -> None:
        """End the move of a queue of this broker. Raises QueueNotFound and Refused."""
        await self._find(name)
        try:
            await self._node.links.moves(self._vpn).cancel(name)
        except UpdateRefused as refusal:
            raise Refused(str(refusal)) from None

    async def end_move(self, name: str, without: str) -> None:
        """End a move to or from a broker that does not come back."""
        if await self._vpn.queues.ask(FindQueue(name)) is None:
            raise not_found(self._vpn.space, name)
        try:
            await self._node.links.moves(self._vpn).end_without(name, without)
        except (StoreRefused, UpdateRefused) as refusal:
            raise Refused(str(refusal)) from None

    async def list_moves(self) -> Sequence[QueueMoveView]:
        """Return the queues that are being moved to other brokers."""
        return [move_view(each) for each in self._node.links.moves(self._vpn).overviews()]

    def _move_of(self, handle: LocalQueue) -> QueueMoveView | None:
        """Return how far the move of a queue is."""
        if handle.move is None:
            return None
        overview = self._node.links.moves(self._vpn).overview(handle.name)
        return None if overview is None else move_view(overview)

    async def list_cursors(self, name: str) -> Sequence[CursorView]:
        """Return a queue's durable cursors; the broker that has the queue is asked."""
        try:
            return await self.list_cursors_here(name)
        except QueueNotFound:
            return await ask_cursors(self._node.links.links.neighbors, self._vpn, name)

    async def list_cursors_here(self, name: str) -> Sequence[CursorView]:
        """Return the durable cursors of a queue of this broker. Raises QueueNotFound."""
        await self._find(name)
        overviews: list[CursorOverview] = await self._vpn.cursors.ask(ListCursors(name))
        return [cursor_view(each) for each in overviews]

    async def delete_cursor(self, name: str, cursor: str) -> None:
        """Delete a durable cursor. The broker that has the queue does it."""
        if self._vpn.space.queue_home(name) is None:
            await self.delete_cursor_here(name, cursor)
        else:
            await delete_cursor_at_home(self._node.links.links.neighbors, self._vpn, name, cursor)

    async def delete_cursor_here(self, name: str, cursor: str) -> None:
        """Delete a durable cursor at this broker. Raises CursorNotFound and Refused."""
        try:
            await self._vpn.cursors.ask(DeleteCursor(name, cursor))
        except CursorRefused as refusal:
            if refusal.code == NO_SUCH_CURSOR:
                raise CursorNotFound(name, cursor) from None
            raise Refused(str(refusal)) from None

    async def add_batch(self, name: str, cursor: str, batch: ReaderBatch) -> None:
        """Count a batch that a reader reports, at the broker that has its cursor."""
        if self._vpn.space.queue_home(name) is None:
            await self.add_batch_here(name, cursor, batch)
        else:
            await add_batch_at_home(self._node.links.links.neighbors, self._vpn, name, cursor, batch)

    async def add_batch_here(self, name: str, cursor: str, batch: ReaderBatch) -> None:
        """Count a batch of a cursor of this broker. Raises CursorNotFound."""
        batches = self._vpn.reader_batches
        is_known = batches.knows(name, cursor)
        overviews: list[CursorOverview] = await self._vpn.cursors.ask(ListCursors(name if is_known else None))
        if not any((each.queue, each.name) == (name, cursor) for each in overviews):
            raise CursorNotFound(name, cursor)
        if not is_known:  # make room of deleted cursors; listing cursors asks every partition of theirs
            batches.keep_only(overviews)
        batches.add(name, cursor, batch, now_ms=self._node.services.clock.wall_ms())

    async def list_selectors(self) -> Sequence[DurableSelectorView]:
        """Return the durable selectors."""
        known: list[SelectorOverview] = await self._vpn.router.ask(ListSelectors())
        return [
            DurableSelectorView(
                queue=each.queue, subscriber=each.subscriber, selectors=tuple(each.selectors), seen_ms=each.seen_ms
            )
            for each in known
        ]

    async def put_selector(self, queue: str, subscriber: str, selectors: Sequence[str]) -> None:
        """Set the selectors of a subscriber."""
        if not 1 <= len(selectors) <= SELECTORS_OF_ONE_MAX:
            raise QueueInvalid("selectors", f"{len(selectors)} of them", f"1 to {SELECTORS_OF_ONE_MAX}")
        for text in selectors:
            try:
                if text:
                    self._vpn.selectors.compile(text)
            except SelectorError as problem:
                allowed = "a JMS selector, or an empty text for everything"
                raise QueueInvalid("selectors", str(problem), allowed) from None
        if not await self._vpn.router.ask(PutSelector(queue, subscriber, list(selectors))):
            await self._find(queue)
            raise Refused(
                f"queue {queue!r} gets messages whatever its consumers select: no virtual topic with selector_aware"
                " leads to it"
            )

    async def delete_selector(self, queue: str, subscriber: str) -> None:
        """Delete the selectors of a subscriber."""
        if not await self._vpn.router.ask(PutSelector(queue, subscriber, None)):
            raise SelectorNotFound(queue, subscriber)

    async def queues_figures(self, question: QueuesQuery) -> QueuesFigures:
        """Return a page of the figures of queues."""
        handles: list[LocalQueue] = await self._vpn.queues.ask(ListQueues())
        found = wanted_queues(handles, question)
        page = found[question.after : question.after + question.limit]
        figures = tuple([queue_figures(handle, overview) for handle, overview in await overviews_of(page)])
        return QueuesFigures(at_ms=self._node.services.clock.now_ms(), total_count=len(found), queues=figures)

    async def explain_key(self, queue: str, key: str) -> KeyExplanation:
        """Explain the state of a partition key in a queue; the broker that has it is asked."""
        try:
            return await self.explain_key_here(queue, key)
        except QueueNotFound:
            return await ask_home(self._node.links.links.neighbors, self._vpn, KeyExplanation, KEY, queue, key)

    async def explain_key_here(self, queue: str, key: str) -> KeyExplanation:
        """Explain the state of a partition key in a queue of this broker. Raises QueueNotFound."""
        return await key_explained(self._vpn, queue, key)

    async def _find(self, name: str) -> LocalQueue:
        handle: LocalQueue | None = await self._vpn.queues.ask(FindQueue(name))
        if handle is None or handle.is_received:
            raise not_found(self._vpn.space, name)
        return handle

    async def _find_anywhere(self, name: str) -> QueueHandle:
        """Return a queue of this broker, or of a neighbor. Raises QueueNotFound."""
        handle: QueueHandle | None = await self._vpn.queues.ask(FindQueue(name, anywhere=True))
        if handle is None:
            raise not_found(self._vpn.space, name)
        return handle

    async def _shown(self, handle: LocalQueue) -> QueueView:
        return self._view(handle, await overview_of(handle))

    def _view(self, handle: LocalQueue, overview: QueueOverview) -> QueueView:
        """Return a queue as operators see it."""
        now_ms = self._node.services.clock.now_ms()
        rate = self._vpn.rates.rate(handle.name, overview.totals.accepted_count, now_ms)
        incarnation = incarnation_text(self._node.services.recovered.incarnation)
        view = queue_view(handle, overview, incarnation, rate, now_ms=now_ms)
        if handle.move is not None:
            view = replace(view, move=self._move_of(handle))
        warning = lost_dead_messages(view, self._vpn.ways, self._vpn.name)
        return replace(view, warnings=(warning,)) if warning else view


def _check_not_of_a_link(handle: LocalQueue) -> None:
    if handle.kind == LINK:
        raise Refused(
            f"{handle.name!r} is the queue of a link: queue_share_percent and when_full of the link change it, and it"
            " is deleted when the neighbor is forgotten"
        )


def _check_partition(handle: QueueHandle, partition: int | None) -> None:
    count = _partition_count(handle)
    if partition is not None and not 0 <= partition < count:
        raise QueueInvalid("partition", f"{partition} does not exist", f"0 to {count - 1}")


def _partition_count(handle: QueueHandle) -> int:
    known = handle.definition.config.partition_count or 1
    return len(handle.target.partitions) if isinstance(handle, LocalQueue) else known


def _key_source(handle: QueueHandle) -> KeySource | None:
    """Return where the keys of a queue's messages come from. None: keys of messages only, or the queue is elsewhere."""
    return handle.target.key_source if isinstance(handle, LocalQueue) else None
