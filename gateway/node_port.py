"""A running node as operators see it: the admin API's questions, asked of the actors."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from actors.cell import ActorOverview
from actors.cursor_messages import CursorOverview, DeleteCursor, ListCursors
from actors.directory_messages import (
    DeclareQueue,
    DeleteQueue,
    DeleteTemplate,
    FindQueue,
    ListQueues,
    ListTemplates,
    PutTemplate,
    QueueExists,
    QueueHandle,
    QueuesExhausted,
    TemplateExists,
    UpdateQueue,
    UpdateRefused,
)
from actors.messages import (
    INACTIVE,
    BrowsedMessage,
    DescribeQueue,
    PartitionOverview,
    PurgeQueue,
    QueueOverview,
)
from actors.queue_directory import StoreRefused
from actors.reading_messages import ReplayQueue, ReplayRefused
from actors.staging_messages import DescribeStaging, StagingOverview
from gateway.backups import cancel_backup, show_backup, start_backup
from gateway.browse_pages import browse_page
from gateway.event_bus import event_view
from gateway.explain_node import key_explained, publish_explained
from gateway.explain_publish import Specimen
from gateway.explanations import KeyExplanation, PublishExplanation
from gateway.message_deeds import MessageDeeds
from gateway.node_metrics import samples_of
from gateway.ports import (
    CursorNotFound,
    NodePort,
    QueueAlreadyExists,
    QueueNotFound,
    Refused,
    TemplateAlreadyExists,
    TemplateNotFound,
)
from gateway.reader_views import BackupView, CursorView, SpoolView, cursor_view, incarnation_text
from gateway.replay_start import ReplayStart
from gateway.rest_views import RestDeliveryPointView, point_view
from gateway.routing_views import DurableSelectorView, ReloadView
from gateway.selections import MessageSelection, selector_of
from gateway.smrp import SmrpQuestion, SmrpSubscriptionsView, answer, rows_of
from gateway.views import (
    ActorView,
    DeathView,
    EventView,
    FlowView,
    Health,
    MessageView,
    PartitionStatus,
    PartitionView,
    QueueView,
    RebalanceStatus,
    RedriveView,
    Sample,
    ScaleStatus,
    TakenView,
    payload_preview,
)
from gateway.virtual_destinations import delete_selector, put_selector, reload_configuration, selector_views
from messaging.cursors import NO_SUCH_CURSOR, CursorRefused
from messaging.dead_letter import DeadLetter
from messaging.key_source import KeySource
from messaging.keys import key_in
from messaging.queue_config import QueueInvalid, changed
from messaging.queue_template import QueueTemplate
from messaging.selectors import Selector
from messaging.settlement import TO_DMQ_FAILED

if TYPE_CHECKING:
    from gateway.node import Node


class NodeView(NodePort):
    """Answers the admin API from a node's actors."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._deeds = MessageDeeds(node)

    async def create_queue(self, asked: Mapping[str, object], *, durable: bool | None = None) -> QueueView:
        """Create a queue, with what a template says of it where `asked` does not."""
        try:
            handle: QueueHandle = await self._node.queues.ask(DeclareQueue(dict(asked), durable))
        except QueueExists as exists:
            raise QueueAlreadyExists(str(exists)) from None
        except (StoreRefused, QueuesExhausted) as refusal:
            raise Refused(str(refusal)) from None
        return await self._view(handle)

    async def update_queue(self, name: str, changes: Mapping[str, object]) -> QueueView:
        """Change attributes or subscriptions."""
        handle = await self._find(name)
        try:
            await self._node.queues.ask(UpdateQueue(changed(handle.definition, dict(changes), durable=handle.durable)))
        except (StoreRefused, UpdateRefused) as refusal:
            raise Refused(str(refusal)) from None
        return await self.show_queue(name)

    async def delete_queue(self, name: str) -> None:
        """Delete a queue with all it holds."""
        await self._find(name)
        await self._node.queues.ask(DeleteQueue(name))

    async def list_queues(self) -> Sequence[QueueView]:
        """Return every queue by name."""
        handles: list[QueueHandle] = await self._node.queues.ask(ListQueues())
        return [await self._view(handle) for handle in handles]

    async def show_queue(self, name: str) -> QueueView:
        """Return one queue with its partitions and flows."""
        return await self._view(await self._find(name))

    async def purge_queue(self, name: str) -> int:
        """Remove what waits; return how many."""
        handle = await self._find(name)
        count: int = await handle.cell.ask(PurgeQueue())
        return count

    async def browse_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, limit: int = 100, selector: str = ""
    ) -> Sequence[MessageView]:
        """Return messages oldest first, without removing any."""
        handle = await self._find(name)
        _check_partition(handle, partition)
        wanted = self._selector(selector)
        found = await browse_page(handle, partition=partition, after=after, limit=limit, selector=wanted)
        return [_message_view(each, handle.target.key_source) for each in found]

    async def follow_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, selector: str = ""
    ) -> AsyncIterator[MessageView]:
        """Return messages oldest first, and then new ones as they arrive."""
        handle = await self._find(name)
        _check_partition(handle, partition)
        return self._followed(handle, partition, after, self._selector(selector))

    async def _followed(
        self, handle: QueueHandle, partition: int | None, after: int, selector: Selector | None
    ) -> AsyncIterator[MessageView]:
        async with aclosing(self._node.following.messages(handle, partition, after, selector)) as messages:
            async for message in messages:
                yield _message_view(message, handle.target.key_source)

    def _selector(self, text: str) -> Selector | None:
        return selector_of(text, self._node.selectors) if text else None

    async def list_templates(self) -> Sequence[QueueTemplate]:
        """Return every template by name."""
        templates: list[QueueTemplate] = await self._node.queues.ask(ListTemplates())
        return templates

    async def put_template(self, template: QueueTemplate, *, must_be_new: bool) -> None:
        """Keep a template."""
        try:
            await self._node.queues.ask(PutTemplate(template, must_be_new))
        except TemplateExists:
            raise TemplateAlreadyExists(template.name) from None
        except StoreRefused as refusal:
            raise Refused(str(refusal)) from None

    async def delete_template(self, name: str) -> None:
        """Delete a template."""
        if not await self._node.queues.ask(DeleteTemplate(name)):
            raise TemplateNotFound(name)

    async def take_messages(self, name: str, deed: str, selection: MessageSelection) -> TakenView:
        """Delete, move or copy messages."""
        return await self._deeds.take(await self._find(name), deed, selection)

    async def start_redrive(self, name: str, selection: MessageSelection) -> RedriveView:
        """Begin to drive dead messages back."""
        return await self._deeds.start_redrive(await self._find(name), selection)

    async def show_redrive(self, name: str) -> RedriveView:
        """Return how far the latest re-drive has come."""
        return await self._deeds.show_redrive((await self._find(name)).name)

    async def cancel_redrive(self, name: str) -> RedriveView:
        """End a re-drive where it is."""
        return await self._deeds.cancel_redrive((await self._find(name)).name)

    async def replay_queue(self, name: str, start: ReplayStart, *, end: int, partition: int | None) -> int:
        """Offer kept messages again; return how many."""
        handle = await self._find(name)
        _check_partition(handle, partition)
        try:
            count: int = await handle.cell.ask(ReplayQueue(partition, start.first, start.since_ms, end))
        except ReplayRefused as refusal:
            raise Refused(str(refusal)) from None
        return count

    async def list_cursors(self, name: str) -> Sequence[CursorView]:
        """Return a queue's durable cursors."""
        await self._find(name)
        overviews: list[CursorOverview] = await self._node.cursors.ask(ListCursors(name))
        return [cursor_view(each) for each in overviews]

    async def delete_cursor(self, name: str, cursor: str) -> None:
        """Forget a durable cursor."""
        try:
            await self._node.cursors.ask(DeleteCursor(name, cursor))
        except CursorRefused as refusal:
            if refusal.code == NO_SUCH_CURSOR:
                raise CursorNotFound(name, cursor) from None
            raise Refused(str(refusal)) from None

    async def list_selectors(self) -> Sequence[DurableSelectorView]:
        """Return the durable selectors."""
        return await selector_views(self._node)

    async def put_selector(self, queue: str, subscriber: str, selectors: Sequence[str]) -> None:
        """Set what a subscriber selects."""
        await put_selector(self._node, queue, subscriber, selectors)

    async def delete_selector(self, queue: str, subscriber: str) -> None:
        """Forget what a subscriber selects."""
        await delete_selector(self._node, queue, subscriber)

    async def reload(self) -> ReloadView:
        """Read the configuration again."""
        return await reload_configuration(self._node)

    async def show_spool(self) -> SpoolView:
        """Return the spool."""
        node = self._node
        usage = node.store.usage()
        staging: StagingOverview = await node.staging.ask(DescribeStaging())
        return SpoolView(
            incarnation=incarnation_text(node.recovered.incarnation),
            used_bytes=usage.used_bytes,
            limit_bytes=usage.map_bytes_max,
            messages_bytes=node.spool_gate.usage_bytes,
            messages_bytes_max=node.spool_gate.usage_bytes_max,
            blocked=node.spool_gate.blocked,
            staged_bytes=staging.staged_bytes,
            transactions_open=staging.open_count,
        )

    async def start_backup(self, name: str) -> BackupView:
        """Begin a backup."""
        return await start_backup(self._node, name)

    async def show_backup(self) -> BackupView:
        """Return how far the latest backup has come."""
        return await show_backup(self._node)

    async def cancel_backup(self) -> BackupView:
        """End the backup that is running."""
        return await cancel_backup(self._node)

    async def actor_tree(self) -> Sequence[ActorView]:
        """Return the actors without a supervisor, each with what it supervises."""
        return [_actor_view(root.overview(), "") for root in self._node.runtime.roots]

    async def events(self, *, after: int, limit: int) -> Sequence[EventView]:
        """Return recent events, oldest first."""
        return [event_view(number, event) for number, event in self._node.runtime.events.recent(after, limit)]

    async def list_rest_delivery_points(self) -> Sequence[RestDeliveryPointView]:
        """Return every delivery point by name."""
        return [point_view(point) for _, point in sorted(self._node.rest.running.items())]

    async def smrp_subscriptions(self, question: SmrpQuestion) -> SmrpSubscriptionsView:
        """Return a page of subscriptions."""
        return await asyncio.to_thread(answer, rows_of(self._node.space, question), question)

    async def explain_publish(self, message: Specimen, *, queue: str | None) -> PublishExplanation:
        """Tell what would become of a message."""
        return await publish_explained(self._node, message, queue)

    async def explain_key(self, queue: str, key: str) -> KeyExplanation:
        """Tell where a partition key of a queue stands."""
        return await key_explained(self._node, queue, key)

    async def metrics_snapshot(self) -> Sequence[Sample]:
        """Return the node's samples."""
        handles: list[QueueHandle] = await self._node.queues.ask(ListQueues())
        overviews = [(handle, await self._describe(handle)) for handle in handles]
        cursors: list[CursorOverview] = await self._node.cursors.ask(ListCursors(None))
        staging: StagingOverview = await self._node.staging.ask(DescribeStaging())
        return samples_of(self._node, overviews, cursors, staging)

    async def health(self) -> Health:
        """Tell whether the node works and whether it takes traffic."""
        reasons = []
        if not self._node.ready:
            reasons.append("the node is starting or stopping")
        if self._node.spool_gate.blocked:
            reasons.append(f"the spool takes no messages: {self._node.spool_gate.blocked}")
        return Health(live=not self._node.failed.done(), ready=not reasons, reasons=tuple(reasons))

    async def _find(self, name: str) -> QueueHandle:
        handle: QueueHandle | None = await self._node.queues.ask(FindQueue(name))
        if handle is None:
            raise QueueNotFound(name)
        return handle

    async def _describe(self, handle: QueueHandle) -> QueueOverview:
        overview: QueueOverview = await handle.cell.ask(DescribeQueue())
        return overview

    async def _view(self, handle: QueueHandle) -> QueueView:
        return queue_view(handle, await self._describe(handle), incarnation_text(self._node.recovered.incarnation))


def _check_partition(handle: QueueHandle, partition: int | None) -> None:
    count = len(handle.target.partitions)
    if partition is not None and not 0 <= partition < count:
        raise QueueInvalid("partition", f"{partition} does not exist", f"0 to {count - 1}")


def queue_view(handle: QueueHandle, overview: QueueOverview, incarnation: str) -> QueueView:
    """Return a queue as operators see it."""
    clients = {flow.flow_id: flow.client for flow in overview.flows}
    partitions = []
    for partition, (status, flow_id, epoch) in zip(overview.partitions, overview.partition_statuses, strict=True):
        partitions.append(
            PartitionView(
                number=partition.number,
                status=PartitionStatus(status),
                ready_count=partition.ready_count,
                unacked_count=partition.in_flight_count,
                spooled_bytes=partition.waiting_bytes,
                next_sequence=partition.next_sequence,
                kept_from=partition.kept_from,
                kept_bytes=partition.kept_bytes,
                assignment_epoch=epoch,
                held_count=partition.held_count,
                flow_id=str(flow_id) if flow_id else None,
                client=clients.get(flow_id),
            )
        )
    return QueueView(
        config=overview.config,
        durable=handle.durable,
        subscriptions=handle.definition.subscriptions,
        ready_count=sum(each.ready_count for each in overview.partitions),
        unacked_count=sum(each.in_flight_count for each in overview.partitions),
        spooled_bytes=overview.usage_bytes,
        partition_operational_count=len(partitions) if overview.config.partitioned() else 0,
        scale_status=ScaleStatus(overview.scale_status),
        rebalance_status=RebalanceStatus(overview.rebalance_status),
        accepted_total=overview.accepted_count,
        delivered_total=sum(each.delivered_count for each in overview.partitions),
        redelivered_total=sum(each.redelivered_count for each in overview.partitions),
        settled_total=sum(each.settled_count for each in overview.partitions),
        discards=_discards(overview.partitions),
        bind_refusals=overview.bind_refusals,
        kept_bytes=sum(each.kept_bytes for each in overview.partitions),
        spool_incarnation=incarnation,
        partitions=tuple(partitions),
        flows=tuple(
            FlowView(
                id=str(flow.flow_id),
                client=flow.client,
                protocol=flow.protocol,
                window=flow.window,
                unacked_count=flow.unacked_count,
                active=flow.activity != INACTIVE,
                activity=flow.activity,
                partitions=tuple(flow.partitions),
                selector=flow.selector or None,
            )
            for flow in overview.flows
        ),
    )


def _message_view(message: BrowsedMessage, key_source: KeySource | None) -> MessageView:
    batch = message.batch
    headers = batch.headers_of(message.row)
    payload = batch.payloads()[message.row]
    text, encoding, truncated = payload_preview(payload)
    return MessageView(
        id=f"{message.partition_number}:{message.sequence}",
        partition=message.partition_number,
        sequence=message.sequence,
        topic=batch.topic_of(message.row),
        size_bytes=len(payload),
        delivery_count=max(message.delivery_count, 1 if message.redelivered or message.in_flight else 0),
        received_ms=batch.received_ms,
        key=key_in(key_source, batch, message.row),
        payload=text,
        payload_encoding=encoding,
        payload_truncated=truncated,
        dead=None if headers is None or headers.dead is None else _death_view(headers.dead),
    )


def _death_view(dead: DeadLetter) -> DeathView:
    return DeathView(
        reason=dead.reason,
        queue=dead.queue,
        partition=dead.partition,
        delivery_count=dead.delivery_count,
        time_ms=dead.died_ms,
        client=dead.client or None,
        cause=dead.cause or None,
        via=dead.via,
    )


def _discards(partitions: Sequence[PartitionOverview]) -> dict[str, int]:
    """Return what left a queue unconsumed, by reason and outcome: `_discarded`, `_to_dmq`, `_to_dmq_failed`."""
    counts: dict[str, int] = {}
    for partition in partitions:
        for reason, count in partition.discards.items():
            name = reason if reason.endswith(TO_DMQ_FAILED) else f"{reason}_discarded"
            counts[name] = counts.get(name, 0) + count
        for reason, count in partition.buried.items():
            counts[f"{reason}_to_dmq"] = counts.get(f"{reason}_to_dmq", 0) + count
    return counts


def _actor_view(overview: ActorOverview, parent_path: str) -> ActorView:
    path = f"{parent_path}/{overview.name}" if parent_path else overview.name
    batches = overview.batches_count
    return ActorView(
        name=overview.name,
        path=path,
        kind=overview.kind,
        state=overview.state,
        inbox_depth=overview.inbox_depth,
        handled_count=overview.handled_count,
        batch_count=batches,
        batch_size_mean=overview.handled_count / batches if batches else 0.0,
        handling_time_us=overview.handling_ns / 1000 / batches if batches else 0.0,
        restart_count=overview.restarts_count,
        children=tuple(_actor_view(child, path) for child in overview.children),
    )
