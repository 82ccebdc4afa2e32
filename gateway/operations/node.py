"""The operations of a running node: each asks the actors and returns a view of their replies."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from pykka import ActorDeadError

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    DeleteTemplate,
    ListQueues,
    ListTemplates,
    LocalQueue,
    PutTemplate,
    TemplateExists,
)
from sluicegate.actors.messages.readers import CursorOverview, ListCursors
from sluicegate.actors.messages.staging import DescribeStaging, StagingOverview
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.observability.history import History
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.operations.backups import cancel_backup, show_backup, start_backup
from sluicegate.gateway.operations.clients.accounts import AccountOperations
from sluicegate.gateway.operations.clients.client_operations import ClientOperations
from sluicegate.gateway.operations.clients.listeners import listeners_view
from sluicegate.gateway.operations.clients.message_vpns import vpn_view, vpns_view
from sluicegate.gateway.operations.history import history_view
from sluicegate.gateway.operations.interface import NodeInterface, template_of
from sluicegate.gateway.operations.metrics import VpnFigures, samples_of
from sluicegate.gateway.operations.no_replicas import NoReplicas
from sluicegate.gateway.operations.node_views import actor_view, event_view, node_figures, reload_view, spool_view
from sluicegate.gateway.operations.queues.asking import not_found, overviews_of
from sluicegate.gateway.operations.queues.explain import publish_explained
from sluicegate.gateway.operations.queues.followers import QueueFollowers
from sluicegate.gateway.operations.queues.queues import QueueOperations
from sluicegate.gateway.operations.traces.traces import ClientTrace, check_traceable
from sluicegate.gateway.operations.traces.wanted import ClientsNamed, ClientsOf
from sluicegate.gateway.views.bridges import BridgeView
from sluicegate.gateway.views.clients.message_vpns import MessageVpnsView, MessageVpnView
from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.gateway.views.errors import (
    Refused,
    TemplateAlreadyExists,
    TemplateNotFound,
    VpnNotFound,
    reading_configuration,
)
from sluicegate.gateway.views.links import LinksView, LinkView
from sluicegate.gateway.views.node.backups import BackupView
from sluicegate.gateway.views.node.figures import NodeFigures
from sluicegate.gateway.views.node.history import HistoryQuery, HistoryView
from sluicegate.gateway.views.node.listeners import ListenersView
from sluicegate.gateway.views.node.runtime import ActorView, EventView, Health, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView
from sluicegate.gateway.views.queues.explanations import ExampleMessage, PublishExplanation
from sluicegate.gateway.views.rest import RestDeliveryPointView
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.template import QueueTemplate, changed_template, check_template_matches


class NodeOperations(AccountOperations, ClientOperations, QueueOperations, NoReplicas, NodeInterface):
    """Carries out operations by asking a node's actors. It works on one message VPN of the node."""

    def __init__(self, node: Node, vpn: str = DEFAULT_VPN, followers: QueueFollowers | None = None) -> None:
        """`followers` are shared by the views of all message VPNs; without them this view makes its own."""
        AccountOperations.__init__(self, node.vpns[vpn])
        ClientOperations.__init__(self, node, node.vpns[vpn])
        followers = followers or QueueFollowers(node.services.runtime, node.services.root)
        QueueOperations.__init__(self, node, node.vpns[vpn], followers)
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

    async def reload(self) -> ReloadView:
        """Reload the configuration, from the sources that the node was started with.

        The reload runs to its end even if the caller no longer waits: creating thousands of queues takes longer than
        the time limit of a response.
        """
        node = self._node
        if node.configuration is None:
            raise Refused("this node was not started with a configuration that can be read again")
        with reading_configuration():
            reloading = asyncio.create_task(node.reload_from(node.configuration))
            node.services.runtime.keep(reloading)
            changes = await asyncio.shield(reloading)
        return reload_view(changes, node.vpns.values())

    async def node_figures(self) -> NodeFigures:
        """Return the node's totals."""
        return node_figures(self._node)

    async def node_history(self, question: HistoryQuery) -> HistoryView:
        """Return the node's figures of the last hour."""
        return self._history_view(self._node.history.node, question)

    async def vpn_history(self, question: HistoryQuery) -> HistoryView:
        """Return the figures of the message VPN."""
        history = self._node.history
        return self._history_view(history.vpns.look(self._vpn.name, history.step()), question)

    async def queue_history(self, name: str, question: HistoryQuery, *, partition: int | None = None) -> HistoryView:
        """Return the figures of a queue or a partition of it, which are kept for an hour from now."""
        history, vpn = self._node.history, self._vpn.name
        target = history.target(vpn, name)
        if target is None:
            raise not_found(self._vpn.space, name)
        if partition is None:
            return self._history_view(history.queues.look((vpn, name), history.step()), question)
        if partition >= len(target.partitions):
            allowed = f"0 to {len(target.partitions) - 1}"
            raise QueueInvalid("partition", f"{partition} does not exist", allowed)
        return self._history_view(history.partitions.look((vpn, name, partition), history.step()), question)

    def _history_view(self, history: History, question: HistoryQuery) -> HistoryView:
        return history_view(history, question, wall_ms=self._node.services.clock.wall_ms())

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

    async def actor_tree(self) -> Sequence[ActorView]:
        """Return the actors without a supervisor, each with those that it supervises."""
        return [actor_view(root.overview(), "") for root in self._node.services.runtime.roots]

    async def events(self, *, after: int, limit: int) -> Sequence[EventView]:
        """Return recent events, oldest first."""
        return [
            event_view(number, event)
            for number, event in self._node.services.runtime.events.record.recent(after, limit)
        ]

    async def trace_client(self, name: str, payload_bytes: int) -> AsyncIterator[TracedPacket]:
        """Return what a client and the node say to each other."""
        check_traceable(self._node, self._vpn.name, name)
        return ClientTrace(self._node, ClientsNamed(self._vpn.name, name), payload_bytes).packets()

    async def trace_username(self, username: str, payload_bytes: int) -> AsyncIterator[TracedPacket]:
        """Return what the clients of a username and the node say to each other."""
        return ClientTrace(self._node, ClientsOf(self._vpn.name, username), payload_bytes).packets()

    async def list_listeners(self) -> ListenersView:
        """Return the open ports for clients."""
        return listeners_view(self._node)

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

    async def explain_publish(self, message: ExampleMessage, *, queue: str | None) -> PublishExplanation:
        """Explain the routing of a message."""
        return await publish_explained(self._vpn, message, queue, wall_ms=self._node.services.clock.wall_ms())

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
