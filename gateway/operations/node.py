"""The operations of a running node: each asks the actors and returns a view of their replies."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from pykka import ActorDeadError

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    LINK,
    DeclareQueue,
    DefinitionLost,
    DeleteQueue,
    DeleteTemplate,
    FindQueue,
    ListQueues,
    ListTemplates,
    LocalQueue,
    PutTemplate,
    QueueExists,
    QueueHandle,
    QueuesExhausted,
    TemplateExists,
    UpdateQueue,
    UpdateRefused,
)
from sluicegate.actors.messages.queues import PurgeQueue, QueueOverview
from sluicegate.actors.messages.readers import CursorOverview, DeleteCursor, ListCursors, ReplayQueue, ReplayRefused
from sluicegate.actors.messages.router import ListSelectors, PutSelector, SelectorOverview
from sluicegate.actors.messages.staging import DescribeStaging, StagingOverview
from sluicegate.gateway.config.document import ConfigError, ConfigUnreadable
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.operations.backups import cancel_backup, show_backup, start_backup
from sluicegate.gateway.operations.clients.accounts import AccountOperations
from sluicegate.gateway.operations.clients.clients import client_views, wanted_clients
from sluicegate.gateway.operations.clients.message_vpns import vpn_view, vpns_view
from sluicegate.gateway.operations.clients.subscriptions import answer, rows_of
from sluicegate.gateway.operations.interface import NodeInterface, template_of
from sluicegate.gateway.operations.metrics import VpnFigures, samples_of
from sluicegate.gateway.operations.node_views import actor_view, event_view, node_figures, spool_view
from sluicegate.gateway.operations.queues.actions import add_batch_at_home, delete_cursor_at_home, replay_at_home
from sluicegate.gateway.operations.queues.asking import ask_queue, network_queues, not_found, overview_of, overviews_of
from sluicegate.gateway.operations.queues.explain import key_explained, publish_explained
from sluicegate.gateway.operations.queues.followers import QueueFollowers
from sluicegate.gateway.operations.queues.messages import MessageOperations, browse_page
from sluicegate.gateway.operations.queues.questions import KEY, QUEUE, ask_cursors, ask_home
from sluicegate.gateway.operations.queues.views import (
    cursor_view,
    lost_dead_messages,
    message_view,
    queue_figures,
    queue_view,
    wanted_queues,
)
from sluicegate.gateway.views.bridges import BridgeView
from sluicegate.gateway.views.clients.clients import ClientQuery, ClientsView
from sluicegate.gateway.views.clients.message_vpns import MessageVpnsView, MessageVpnView
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery, SmrpSubscriptionsView
from sluicegate.gateway.views.errors import (
    ClientNotFound,
    CursorNotFound,
    QueueAlreadyExists,
    QueueNotFound,
    Refused,
    SelectorNotFound,
    SubscriptionAlreadyExists,
    SubscriptionNotFound,
    TemplateAlreadyExists,
    TemplateNotFound,
    VpnNotFound,
)
from sluicegate.gateway.views.links import LinksView, LinkView
from sluicegate.gateway.views.node.backups import BackupView
from sluicegate.gateway.views.node.figures import NodeFigures, QueuesFigures, QueuesQuery
from sluicegate.gateway.views.node.runtime import ActorView, EventView, Health, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView, incarnation_text
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.explanations import ExampleMessage, KeyExplanation, PublishExplanation
from sluicegate.gateway.views.queues.messages import MessageView, RedriveView, TakenView
from sluicegate.gateway.views.queues.queues import DurableSelectorView, NetworkQueueView, QueueView
from sluicegate.gateway.views.queues.selections import MessageSelection, ReplayStart, selector_of
from sluicegate.gateway.views.rest import RestDeliveryPointView
from sluicegate.messaging.bulk.durable_cursors import NO_SUCH_CURSOR, CursorRefused
from sluicegate.messaging.message.keys import KeySource
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid, changed
from sluicegate.messaging.queues.template import QueueTemplate, changed_template, check_template_matches
from sluicegate.messaging.selectors.durable import SELECTORS_OF_ONE_MAX
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selector


class NodeOperations(AccountOperations, NodeInterface):
    """Carries out operations by asking a node's actors. It works on one message VPN of the node."""

    def __init__(self, node: Node, vpn: str = DEFAULT_VPN, followers: QueueFollowers | None = None) -> None:
        """`followers` are shared by the views of all message VPNs; without them this view makes its own."""
        super().__init__(node.vpns[vpn])
        self._node = node
        self.followers = followers or QueueFollowers(node.services.runtime, node.services.root)
        self._messages = MessageOperations(node, self._vpn)
        self._changing = asyncio.Lock()  # a change of a template starts from its present state
        self._views = {vpn: self}  # by VPN; re-drives that run are remembered there

    def in_vpn(self, name: str) -> "NodeOperations":
        """Return the view of another message VPN."""
        vpn, view = self._node.vpns.get(name), self._views.get(name)
        if vpn is None:
            self._views.pop(name, None)
            raise VpnNotFound(name)
        if view is None or view._vpn is not vpn:  # another one of its name was deleted meanwhile
            view = self._views[name] = NodeOperations(self._node, name, self.followers)
        return view

    async def list_message_vpns(self) -> MessageVpnsView:
        """Return every message VPN."""
        return vpns_view(self._node)

    async def show_message_vpn(self, name: str) -> MessageVpnView:
        """Return one message VPN."""
        found = self._node.vpns.get(name)
        if found is None:
            raise VpnNotFound(name)
        return vpn_view(self._node, found)

    async def create_message_vpn(self, asked: Mapping[str, object]) -> MessageVpnView:
        """Create a message VPN."""
        return await self.show_message_vpn(await self._node.vpn_changes.create(asked))

    async def update_message_vpn(self, name: str, changes: Mapping[str, object]) -> MessageVpnView:
        """Change settings of a message VPN."""
        await self._node.vpn_changes.change(name, changes)
        return await self.show_message_vpn(name)

    async def delete_message_vpn(self, name: str, *, force: bool) -> None:
        """Delete a message VPN."""
        await self._node.vpn_changes.delete(name, force=force)

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
        await self._vpn.queues.ask(DeleteQueue(name))

    async def list_queues(self, *, of_client: str | None = None) -> Sequence[QueueView]:
        """Return every queue by name, or those that a client consumes."""
        handles: list[LocalQueue] = await self._vpn.queues.ask(ListQueues())
        wanted = [each for each in handles if of_client is None or of_client in each.state.clients()]
        durable = {each.name for each in handles if each.durable}
        return [self._view(handle, overview, durable) for handle, overview in await overviews_of(wanted)]

    async def list_network_queues(self) -> Sequence[NetworkQueueView]:
        """Return the queues of neighbor brokers."""
        return network_queues(self._vpn.space)

    async def queue_names(self) -> Sequence[str]:
        """Return the name of every queue."""
        handles: list[LocalQueue] = await self._vpn.queues.ask(ListQueues())
        return [handle.name for handle in handles]

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
        return [message_view(each, _key_source(handle), handle.broker) for each in found]

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
                yield message_view(message, _key_source(handle), handle.broker)

    def _selector(self, text: str) -> Selector | None:
        return selector_of(text, self._node.services.selectors) if text else None

    async def list_templates(self) -> Sequence[QueueTemplate]:
        """Return every template by name."""
        templates: list[QueueTemplate] = await self._vpn.queues.ask(ListTemplates())
        return templates

    async def put_template(self, template: QueueTemplate, *, must_be_new: bool) -> None:
        """Store a template."""
        async with self._changing:
            await self._put_template(template, must_be_new=must_be_new)

    async def update_template(self, name: str, changes: Mapping[str, object]) -> QueueTemplate:
        """Change some fields of a template."""
        async with self._changing:
            template = changed_template(await template_of(self, name), dict(changes))
            await self._put_template(template, must_be_new=False)
        return template

    async def _put_template(self, template: QueueTemplate, *, must_be_new: bool) -> None:
        check_template_matches(template)
        try:
            await self._vpn.queues.ask(PutTemplate(template, must_be_new))
        except TemplateExists:
            raise TemplateAlreadyExists(template.name) from None
        except StoreRefused as refusal:
            raise Refused(str(refusal)) from None

    async def delete_template(self, name: str) -> None:
        """Delete a template."""
        async with self._changing:
            if not await self._vpn.queues.ask(DeleteTemplate(name)):
                raise TemplateNotFound(name)

    async def take_messages(self, name: str, action: str, selection: MessageSelection) -> TakenView:
        """Delete, move or copy messages."""
        return await self._messages.take(await self._find(name), action, selection)

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
            raise QueueNotFound(queue)

    async def delete_selector(self, queue: str, subscriber: str) -> None:
        """Delete the selectors of a subscriber."""
        if not await self._vpn.router.ask(PutSelector(queue, subscriber, None)):
            raise SelectorNotFound(queue, subscriber)

    async def reload(self) -> ReloadView:
        """Reload the configuration, from the sources that the node was started with.

        The reload runs to its end even if the caller no longer waits: creating thousands of queues takes longer than
        the time limit of a response.
        """
        node = self._node
        if node.configuration is None:
            raise Refused("this node was not started with a configuration that can be read again")
        try:
            reloading = asyncio.create_task(node.reload_from(node.configuration))
            node.services.runtime.keep(reloading)
            changes = await asyncio.shield(reloading)
        except ConfigUnreadable as problem:
            raise Refused(str(problem)) from None
        except ConfigError as problem:
            raise Refused(f"the configuration is invalid: {problem}") from None
        except (OSError, ValueError) as problem:  # as Node.reload says
            raise Refused(f"a file that the configuration names cannot be used: {problem}") from None
        return ReloadView(
            taken_over=tuple(str(change) for change in changes.reloadable),
            restart_needed=tuple(str(change) for change in changes.restart_needed),
            warnings=tuple(text for vpn in node.vpns.values() for text in vpn.warnings),
        )

    async def node_figures(self) -> NodeFigures:
        """Return the node's totals."""
        return node_figures(self._node)

    async def queues_figures(self, question: QueuesQuery) -> QueuesFigures:
        """Return a page of the figures of queues."""
        handles: list[LocalQueue] = await self._vpn.queues.ask(ListQueues())
        found = wanted_queues(handles, question)
        page = found[question.after : question.after + question.limit]
        figures = tuple([queue_figures(handle, overview) for handle, overview in await overviews_of(page)])
        return QueuesFigures(at_ms=self._node.services.clock.now_ms(), total_count=len(found), queues=figures)

    async def show_spool(self) -> SpoolView:
        """Return the spool."""
        staging: list[StagingOverview] = []
        for vpn in list(self._node.vpns.values()):
            with suppress(ActorDeadError):  # it was deleted meanwhile
                staging.append(await vpn.staging.ask(DescribeStaging()))
        return spool_view(self._node, staging)

    async def start_backup(self, name: str) -> BackupView:
        """Start a backup."""
        return await start_backup(self._node, name)

    async def show_backup(self) -> BackupView:
        """Return the progress of the latest backup."""
        return await show_backup(self._node)

    async def cancel_backup(self) -> BackupView:
        """Cancel the backup that is running."""
        return await cancel_backup(self._node)

    async def list_clients(self, question: ClientQuery) -> ClientsView:
        """Return a page of the connected clients."""
        found = wanted_clients(self._node, self._vpn.name, question)
        page = found[question.after : question.after + question.limit]
        names = {each.rights.client for each in page}
        handles: list[LocalQueue] = await self._vpn.queues.ask(ListQueues())
        theirs = await overviews_of([each for each in handles if names & each.state.clients()])
        views = client_views(page, [overview for _, overview in theirs], now_ms=self._node.services.clock.now_ms())
        return ClientsView(total_count=len(found), clients=views)

    async def client_names(self) -> Sequence[str]:
        """Return the name of every connected client, once for each of its connections."""
        return [each.rights.client for each in wanted_clients(self._node, self._vpn.name, ClientQuery())]

    async def disconnect_client(self, name: str) -> None:
        """Disconnect a client."""
        if not self._node.disconnect(self._vpn, name):
            raise ClientNotFound(name)

    async def actor_tree(self) -> Sequence[ActorView]:
        """Return the actors without a supervisor, each with those that it supervises."""
        return [actor_view(root.overview(), "") for root in self._node.services.runtime.roots]

    async def events(self, *, after: int, limit: int) -> Sequence[EventView]:
        """Return recent events, oldest first."""
        return [
            event_view(number, event)
            for number, event in self._node.services.runtime.events.record.recent(after, limit)
        ]

    async def list_rest_delivery_points(self) -> Sequence[RestDeliveryPointView]:
        """Return every delivery point by name."""
        return self._vpn.rest.views()

    async def show_rest_delivery_point(self, name: str) -> RestDeliveryPointView:
        """Return one delivery point."""
        return self._vpn.rest.view(name)

    async def create_rest_delivery_point(self, asked: Mapping[str, object]) -> RestDeliveryPointView:
        """Create a delivery point."""
        return self._vpn.rest.view(await self._vpn.rest.create(asked))

    async def update_rest_delivery_point(self, name: str, changes: Mapping[str, object]) -> RestDeliveryPointView:
        """Change a delivery point."""
        await self._vpn.rest.update(name, changes)
        return self._vpn.rest.view(name)

    async def delete_rest_delivery_point(self, name: str) -> None:
        """Delete a delivery point."""
        await self._vpn.rest.delete(name)

    async def list_links(self) -> LinksView:
        """Return every link by name."""
        return self._node.links.view()

    async def show_link(self, name: str) -> LinkView:
        """Return one link."""
        return self._node.links.link_view(name)

    async def create_link(self, asked: Mapping[str, object]) -> LinkView:
        """Create a link."""
        return self._node.links.link_view(await self._node.links.create(asked))

    async def update_link(self, name: str, changes: Mapping[str, object]) -> LinkView:
        """Change a link."""
        await self._node.links.update(name, changes)
        return self._node.links.link_view(name)

    async def delete_link(self, name: str) -> None:
        """Delete a link."""
        await self._node.links.delete(name)

    async def forget_neighbor(self, name: str, *, vpn: str = "", force: bool) -> None:
        """Delete what is kept for a neighbor broker."""
        await self._node.links.forget(name, vpn=vpn, force=force)

    async def list_bridges(self) -> Sequence[BridgeView]:
        """Return every bridge by name."""
        return self._vpn.bridges.views()

    async def show_bridge(self, name: str) -> BridgeView:
        """Return one bridge."""
        return self._vpn.bridges.view(name)

    async def create_bridge(self, asked: Mapping[str, object]) -> BridgeView:
        """Create a bridge."""
        return self._vpn.bridges.view(await self._vpn.bridges.create(asked))

    async def update_bridge(self, name: str, changes: Mapping[str, object]) -> BridgeView:
        """Change a bridge."""
        await self._vpn.bridges.update(name, changes)
        return self._vpn.bridges.view(name)

    async def delete_bridge(self, name: str) -> None:
        """Delete a bridge."""
        await self._vpn.bridges.delete(name)

    async def pause_bridge(self, name: str) -> BridgeView:
        """Disconnect a bridge."""
        await self._vpn.bridges.pause(name)
        return self._vpn.bridges.view(name)

    async def resume_bridge(self, name: str) -> BridgeView:
        """Connect a bridge."""
        await self._vpn.bridges.resume(name)
        return self._vpn.bridges.view(name)

    async def smrp_subscriptions(self, question: SmrpQuery) -> SmrpSubscriptionsView:
        """Return a page of subscriptions."""
        vpn = self._vpn.name
        rows, interests = rows_of(self._vpn.space, question, vpn), self._vpn.space.interests
        exported = interests is not None and interests.has_exports
        return await asyncio.to_thread(lambda: answer(rows, question, vpn, exported=exported))

    async def explain_publish(self, message: ExampleMessage, *, queue: str | None) -> PublishExplanation:
        """Explain the routing of a message."""
        return await publish_explained(self._vpn, message, queue, wall_ms=self._node.services.clock.wall_ms())

    async def explain_key(self, queue: str, key: str) -> KeyExplanation:
        """Explain the state of a partition key in a queue; the broker that has it is asked."""
        try:
            return await self.explain_key_here(queue, key)
        except QueueNotFound:
            return await ask_home(self._node.links.links.neighbors, self._vpn, KeyExplanation, KEY, queue, key)

    async def explain_key_here(self, queue: str, key: str) -> KeyExplanation:
        """Explain the state of a partition key in a queue of this broker. Raises QueueNotFound."""
        return await key_explained(self._vpn, queue, key)

    async def metrics_snapshot(self) -> Sequence[Sample]:
        """Return the node's samples, of all message VPNs."""
        figures: list[VpnFigures] = []
        for vpn in list(self._node.vpns.values()):
            with suppress(ActorDeadError):  # it was deleted meanwhile
                figures.append(await self._figures(vpn))
        return samples_of(self._node, figures)

    async def _figures(self, vpn: MessageVpn) -> VpnFigures:
        handles: list[LocalQueue] = await vpn.queues.ask(ListQueues())
        cursors: list[CursorOverview] = await vpn.cursors.ask(ListCursors(None))
        vpn.reader_batches.keep_only(cursors)
        staging: StagingOverview = await vpn.staging.ask(DescribeStaging())
        return VpnFigures(vpn, await overviews_of(handles), cursors, staging)

    async def health(self) -> Health:
        """Return whether the node works and accepts traffic."""
        reasons = []
        if not self._node.ready:
            reasons.append("the node is starting or stopping")
        if self._node.services.spool_gate.blocked:
            reasons.append(f"the spool takes no messages: {self._node.services.spool_gate.blocked}")
        live = not self._node.failed.done() and self._node.services.spool_health.is_live()
        return Health(live=live, ready=not reasons, reasons=tuple(reasons))

    async def _find(self, name: str) -> LocalQueue:
        handle: LocalQueue | None = await self._vpn.queues.ask(FindQueue(name))
        if handle is None:
            raise not_found(self._vpn.space, name)
        return handle

    async def _find_anywhere(self, name: str) -> QueueHandle:
        """Return a queue of this broker, or of a neighbor. Raises QueueNotFound."""
        handle: QueueHandle | None = await self._vpn.queues.ask(FindQueue(name, anywhere=True))
        if handle is None:
            raise not_found(self._vpn.space, name)
        return handle

    async def _shown(self, handle: LocalQueue) -> QueueView:
        dead: LocalQueue | None = await self._vpn.queues.ask(FindQueue(handle.definition.config.dead_msg_queue))
        durable = {dead.name} if dead is not None and dead.durable else set()
        return self._view(handle, await overview_of(handle), durable)

    def _view(self, handle: LocalQueue, overview: QueueOverview, durable: set[str]) -> QueueView:
        """Return a queue as operators see it; `durable` has the name of its dead message queue if that exists."""
        now_ms = self._node.services.clock.now_ms()
        rate = self._vpn.rates.rate(handle.name, overview.totals.accepted_count, now_ms)
        incarnation = incarnation_text(self._node.services.recovered.incarnation)
        view = queue_view(handle, overview, incarnation, rate, now_ms=now_ms)
        warning = lost_dead_messages(view, durable, self._vpn.name)
        return replace(view, warnings=(warning,)) if warning else view


def _check_not_of_a_link(handle: LocalQueue) -> None:
    if handle.kind == LINK:
        raise Refused(
            f"{handle.name!r} is the queue of a link: queue_share_percent and when_full of the link change it, and it"
            " is deleted when the neighbor is forgotten"
        )


def _check_partition(handle: QueueHandle, partition: int | None) -> None:
    known = handle.definition.config.partition_count or 1
    count = len(handle.target.partitions) if isinstance(handle, LocalQueue) else known
    if partition is not None and not 0 <= partition < count:
        raise QueueInvalid("partition", f"{partition} does not exist", f"0 to {count - 1}")


def _key_source(handle: QueueHandle) -> KeySource | None:
    """Return where the keys of a queue's messages come from. None: keys of messages only, or the queue is elsewhere."""
    return handle.target.key_source if isinstance(handle, LocalQueue) else None
