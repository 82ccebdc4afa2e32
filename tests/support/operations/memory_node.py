"""A node that keeps its queues in a dict: the smallest thing that keeps the promises of `NodeInterface`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.operations.clients.subscriptions import answer, rows_of
from sluicegate.gateway.operations.interface import template_of
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery, SmrpSubscriptionsView
from sluicegate.gateway.views.cluster import (
    NO_REPLICAS,
    ClusterBrokersView,
    ClusterBrokerView,
    ClusterView,
    ReplicationView,
)
from sluicegate.gateway.views.errors import (
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
from sluicegate.gateway.views.node.backups import BackupState, BackupView
from sluicegate.gateway.views.node.figures import (
    NodeFigures,
    ProcessFigures,
    ProtocolFigures,
    QueueFigures,
    QueuesFigures,
    QueuesQuery,
)
from sluicegate.gateway.views.node.history import HistoryQuery, HistoryView
from sluicegate.gateway.views.node.runtime import ActorView, EventView, Health, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView
from sluicegate.gateway.views.queues.cursors import CursorPartitionView, CursorState, CursorView
from sluicegate.gateway.views.queues.explanations import (
    DestinationView,
    ExampleMessage,
    KeyExplanation,
    PublishExplanation,
)
from sluicegate.gateway.views.queues.messages import (
    MessageSearchView,
    MessageView,
    RedriveView,
    TakenView,
    payload_preview,
)
from sluicegate.gateway.views.queues.queues import (
    DurableSelectorView,
    FlowView,
    NetworkQueueView,
    PartitionStatus,
    PartitionView,
    QueueMoveView,
    QueueView,
)
from sluicegate.gateway.views.queues.selections import SCAN_DEFAULT, START, MessageSelection, ReplayStart
from sluicegate.gateway.views.text import name_pattern
from sluicegate.messaging.partitions.explain import WaitReason
from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid, changed, definition_from_dict
from sluicegate.messaging.queues.message_filter import MessageId
from sluicegate.messaging.queues.template import QueueTemplate, changed_template
from sluicegate.messaging.routing.routes import TopicSpace
from support.operations.memory_bridges import MemoryBridges
from support.operations.memory_clients import MemoryClients
from support.operations.memory_links import MemoryLinks
from support.operations.memory_profiles import MemoryProfiles
from support.operations.memory_rest_points import MemoryRestPoints
from support.operations.memory_users import MemoryUsers
from support.operations.memory_vpns import MemoryVpns

SPOOL: Final = SpoolView(
    incarnation="00000000000000ff",
    used_bytes=1,
    limit_bytes=2,
    messages_bytes=3,
    messages_bytes_max=4,
    blocked="",
    staged_bytes=5,
    transactions_open=6,
    messages_count=7,
    messages_count_max=8,
    unacked_count=9,
    unacked_count_max=10,
    memory_bytes=11,
    memory_bytes_max=12,
    file_bytes=13,
    disk_free_bytes=14,
    log_bytes=15,
    journal_records=16,
    pages=17,
    quarantined=18,
)


@dataclass
class MemoryNode(MemoryBridges, MemoryClients, MemoryLinks, MemoryProfiles, MemoryRestPoints, MemoryUsers, MemoryVpns):
    """Queues and messages in memory, shared by all message VPNs; health, actors and samples are what a test sets."""

    cluster: ClusterView | None = None  # its replicas
    replication: ReplicationView | None = None  # its sites
    actors: Sequence[ActorView] = ()
    samples: Sequence[Sample] = ()
    destination: DestinationView | None = None  # where a publish would go
    explained: ExampleMessage = field(default_factory=lambda: ExampleMessage(topic=""))  # the last one
    happened: Sequence[EventView] = ()
    reasons: tuple[str, ...] = ()  # why it is not ready
    live: bool = True
    moves: Sequence[QueueMoveView] = ()
    dropped = False  # what the queue keeps for readers
    cursors: Sequence[CursorView] = ()  # of the queue `q`
    batches: list[ReaderBatch] = field(default_factory=list)
    selectors: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)  # by queue and subscriber
    reloads: list[ReloadView] = field(default_factory=list)  # what reloads come to, the last one first
    replays: list[tuple[ReplayStart, int, int | None]] = field(default_factory=list)
    refusal: str = ""  # why it refuses to delete
    definitions: dict[str, QueueDefinition] = field(default_factory=dict)
    network_queues: Sequence[NetworkQueueView] = ()
    templates: dict[str, QueueTemplate] = field(default_factory=dict)
    messages: dict[str, list[MessageView]] = field(default_factory=dict)
    flows: dict[str, list[FlowView]] = field(default_factory=dict)
    refusals: dict[str, dict[str, int]] = field(default_factory=dict)  # queue -> reason -> messages
    drops: dict[str, dict[str, int]] = field(default_factory=dict)
    redrives: dict[str, RedriveView] = field(default_factory=dict)
    space: TopicSpace = field(default_factory=TopicSpace)
    backup: BackupView | None = None
    spool: SpoolView = SPOOL
    at_ms: int = 1000  # by its clock

    def publish(self, name: str, payload: bytes, *, key: str | None = None, delivery_count: int = 0) -> None:
        """Put a message into partition 0 of a queue."""
        stored = self.messages[name]
        text, encoding, truncated = payload_preview(payload)
        sequence = len(stored) + 1
        stored.append(
            MessageView(
                id=f"0:{sequence}",
                partition=0,
                sequence=sequence,
                topic="orders/new",
                size_bytes=len(payload),
                delivery_count=delivery_count,
                received_ms=1_700_000_000_000,
                key=key,
                payload=text,
                payload_encoding=encoding,
                payload_truncated=truncated,
            )
        )

    async def create_queue(self, asked: Mapping[str, object], *, durable: bool | None = None) -> QueueView:
        definition = definition_from_dict(dict(asked))
        name = definition.config.name
        if name in self.definitions:
            raise QueueAlreadyExists(name)
        self.definitions[name] = definition
        self.messages[name] = []
        return await self.show_queue(name)

    async def update_queue(self, name: str, changes: Mapping[str, object]) -> QueueView:
        self.definitions[name] = changed(self._definition(name), dict(changes))
        return await self.show_queue(name)

    async def add_subscription(self, queue: str, topic: str) -> None:
        topics = self._definition(queue).subscriptions
        if topic in topics:
            raise SubscriptionAlreadyExists(topic)
        await self.update_queue(queue, {"subscriptions": [*topics, topic]})

    async def remove_subscription(self, queue: str, topic: str) -> None:
        topics = self._definition(queue).subscriptions
        if topic not in topics:
            raise SubscriptionNotFound(topic)
        await self.update_queue(queue, {"subscriptions": [each for each in topics if each != topic]})

    async def delete_queue(self, name: str) -> None:
        self._definition(name)
        if self.refusal:
            raise Refused(self.refusal)
        del self.definitions[name], self.messages[name]

    async def list_queues(self, *, of_client: str | None = None) -> Sequence[QueueView]:
        views = [replace(await self.show_queue(name), partitions=()) for name in sorted(self.definitions)]
        return [each for each in views if of_client is None or of_client in {flow.client for flow in each.flows}]

    async def list_network_queues(self) -> Sequence[NetworkQueueView]:
        return self.network_queues

    async def queue_names(self) -> Sequence[str]:
        return list(self.definitions)

    async def show_queue(self, name: str) -> QueueView:
        definition = self._definition(name)
        stored = self.messages[name]
        size = sum(message.size_bytes for message in stored)
        first = PartitionView(
            number=0,
            status=PartitionStatus.READY,
            ready_count=len(stored),
            unacked_count=0,
            spooled_bytes=size,
            next_sequence=len(stored) + 1,
        )
        empty = replace(first, ready_count=0, spooled_bytes=0, next_sequence=1, status=PartitionStatus.UNASSIGNED)
        others = [replace(empty, number=number) for number in range(1, definition.config.partition_count)]
        return QueueView(
            move=next((each for each in self.moves if each.name == name), None),
            config=definition.config,
            subscriptions=definition.subscriptions,
            ready_count=len(stored),
            unacked_count=0,
            spooled_bytes=size,
            spooled_count=len(stored),
            partitions=(first, *others),
            flows=tuple(self.flows.get(name, ())),
            refusals=self.refusals.get(name, {}),
            drops=self.drops.get(name, {}),
        )

    async def purge_queue(self, name: str) -> int:
        self._definition(name)
        count = len(self.messages[name])
        self.messages[name].clear()
        return count

    async def browse_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, limit: int = 100, selector: str = ""
    ) -> Sequence[MessageView]:
        count = max(1, self._definition(name).config.partition_count)
        if partition is not None and partition >= count:
            raise QueueInvalid("partition", f"{partition} does not exist", f"0 to {count - 1}")
        stored = self.messages[name] if not partition else []
        return [message for message in stored if message.sequence > after][:limit]

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
        found = await self.browse_queue(name, partition=partition, after=position.sequence, limit=scan)
        wanted = [each for each in found if not selection.key or each.key == selection.key]
        more = len(wanted) > limit
        return MessageSearchView(
            messages=tuple(wanted[:limit]), scanned_count=len(found), position=wanted[limit - 1].id if more else None
        )

    async def republish_messages(self, name: str, ids: Sequence[MessageId], *, remove: bool) -> TakenView:
        action = "delete" if remove else "copy"
        return await self.take_messages(name, action, MessageSelection(ids=tuple(ids), to=name))

    async def follow_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, selector: str = ""
    ) -> AsyncIterator[MessageView]:
        messages = await self.browse_queue(name, partition=partition, after=after)

        async def one_by_one() -> AsyncIterator[MessageView]:
            for message in messages:
                yield message

        return one_by_one()

    async def list_templates(self) -> Sequence[QueueTemplate]:
        return [self.templates[name] for name in sorted(self.templates)]

    async def put_template(self, template: QueueTemplate, *, must_be_new: bool) -> None:
        if must_be_new and template.name in self.templates:
            raise TemplateAlreadyExists(template.name)
        self.templates[template.name] = template

    async def update_template(self, name: str, changes: Mapping[str, object]) -> QueueTemplate:
        template = changed_template(await template_of(self, name), dict(changes))
        await self.put_template(template, must_be_new=False)
        return template

    async def delete_template(self, name: str) -> None:
        if self.templates.pop(name, None) is None:
            raise TemplateNotFound(name)

    async def take_messages(self, name: str, action: str, selection: MessageSelection) -> TakenView:
        self._definition(name)
        wanted = {each.text() for each in selection.ids or ()}
        stored = self.messages[name]
        chosen = [each for each in stored if each.id in wanted or not wanted][: selection.limit]
        if action != "delete" and selection.to:
            self._definition(selection.to)
            self.messages[selection.to] += chosen
        if action != "copy":
            self.messages[name] = [each for each in stored if each not in chosen]
        found = {each.id for each in chosen}
        return TakenView(done_count=len(chosen), kept={}, not_found=tuple(sorted(wanted - found)))

    async def start_redrive(self, name: str, selection: MessageSelection) -> RedriveView:
        self._definition(name)
        if name in self.redrives and self.redrives[name].state == "running":
            raise Refused("it is running")
        self.redrives[name] = RedriveView(
            queue=name,
            to=selection.to or None,
            state="running",
            done_count=0,
            kept={},
            position="0:1",
            started_ms=1_700_000_000_000,
            ended_ms=None,
            rate=selection.rate,
            limit=selection.limit,
        )
        return self.redrives[name]

    async def show_redrive(self, name: str) -> RedriveView:
        self._definition(name)
        if name not in self.redrives:
            raise Refused("there was none")
        return self.redrives[name]

    async def cancel_redrive(self, name: str) -> RedriveView:
        self.redrives[name] = replace(await self.show_redrive(name), state="cancelled")
        return self.redrives[name]

    async def replay_queue(self, name: str, start: ReplayStart, *, end: int, partition: int | None) -> int:
        if not self._definition(name).config.retention_size_mb:
            raise Refused(f"{name!r} keeps nothing")
        self.replays.append((start, end, partition))
        return 7

    async def list_cursors(self, name: str) -> Sequence[CursorView]:
        self._definition(name)
        return [view for view in self.cursors if name == "q"]

    async def move_queue(self, name: str, to: str, *, drop_kept: bool = False) -> None:
        self._definition(name)
        if to != "b":
            raise Refused(f"there is no link to broker {to!r}")
        self.dropped = drop_kept
        self.moves = [QueueMoveView(name=name, broker=to, begun_ms=1_700_000_000_000, moved_count=12, left_count=34)]

    async def cancel_move(self, name: str) -> None:
        self._definition(name)
        if not self.moves:
            raise Refused(f"queue {name!r} is not being moved away from here")
        self.moves = []

    async def end_move(self, name: str, without: str) -> None:
        self._definition(name)
        if without != "b":
            raise Refused(f"queue {name!r} is being moved neither to broker {without!r} nor from there")
        self.moves = []

    async def list_moves(self) -> Sequence[QueueMoveView]:
        return self.moves

    async def delete_cursor(self, name: str, cursor: str) -> None:
        kept = [view for view in self.cursors if view.name != cursor]
        if name not in self.definitions or len(kept) == len(self.cursors):
            raise CursorNotFound(name, cursor)
        self.cursors = kept

    async def add_batch(self, name: str, cursor: str, batch: ReaderBatch) -> None:
        if not any(view.name == cursor for view in await self.list_cursors(name)):
            raise CursorNotFound(name, cursor)
        self.batches.append(batch)

    async def list_selectors(self) -> Sequence[DurableSelectorView]:
        return [
            DurableSelectorView(queue=queue, subscriber=subscriber, selectors=selectors, seen_ms=1)
            for (queue, subscriber), selectors in self.selectors.items()
        ]

    async def put_selector(self, queue: str, subscriber: str, selectors: Sequence[str]) -> None:
        self._definition(queue)
        self.selectors[queue, subscriber] = tuple(selectors)

    async def delete_selector(self, queue: str, subscriber: str) -> None:
        if self.selectors.pop((queue, subscriber), None) is None:
            raise SelectorNotFound(queue, subscriber)

    async def show_cluster(self) -> ClusterView:
        if self.cluster is None:
            raise Refused(NO_REPLICAS)
        return self.cluster

    async def list_cluster_brokers(self) -> ClusterBrokersView:
        own = await self.show_cluster()
        first = own.replicas[0].name
        broker = ClusterBrokerView(
            broker=own.broker,
            owner=own.owner,
            epoch=own.epoch,
            preferred="" if own.owner == first else first,
            replicas=own.replicas,
        )
        return ClusterBrokersView(brokers=(broker,))

    async def add_replica(self, name: str, before: str) -> None:
        own = await self.show_cluster()
        if name in {each.name for each in own.replicas}:
            raise Refused(f"{name!r} is a replica of this broker already")
        added = replace(own.replicas[0], name=name)
        place = [each.name for each in own.replicas].index(before) if before else len(own.replicas)
        self.cluster = replace(own, replicas=(*own.replicas[:place], added, *own.replicas[place:]))

    async def remove_replica(self, name: str) -> None:
        own = await self.show_cluster()
        if name == own.owner:
            raise Refused(f"replica {name!r} owns the broker: have another one own it before")
        self.cluster = replace(own, replicas=tuple(each for each in own.replicas if each.name != name))

    async def show_replication(self) -> ReplicationView:
        if self.replication is None:
            raise Refused(NO_REPLICAS)
        return self.replication

    async def promote_site(self, *, accept_loss: bool) -> None:
        sites = await self.show_replication()
        if not (sites.ends_with_handover or accept_loss):
            raise Refused("the log does not end with a hand-over")
        self.replication = replace(sites, role="active", ends_with_handover=False)

    async def demote_site(self) -> None:
        self.replication = replace(await self.show_replication(), role="demoting")

    async def hand_over(self, replica: str, broker: str) -> None:
        if self.cluster is None:
            raise Refused(NO_REPLICAS)
        if broker not in ("", self.cluster.broker):
            raise Refused("no owner answers; try again when there is one")
        if replica not in {each.name for each in self.cluster.replicas}:
            raise Refused(f"replica {replica!r} is not there")
        self.cluster = replace(self.cluster, owner=replica)

    async def reload(self) -> ReloadView:
        if not self.reloads:
            raise Refused("the configuration is wrong")
        return self.reloads.pop()

    async def node_figures(self) -> NodeFigures:
        protocol = ProtocolFigures(
            protocol="mqtt",
            connections_count=2,
            messages_received_total=self.at_ms,
            messages_sent_total=2 * self.at_ms,
            bytes_received_total=100 * self.at_ms,
            bytes_sent_total=0,
        )
        return NodeFigures(
            name="node",
            version="1",
            at_ms=self.at_ms,
            wall_ms=1,
            spool_commits_total=0,
            process=ProcessFigures(memory_bytes=1 << 20, cpu_ms_total=self.at_ms // 4),
            protocols=(protocol,),
        )

    async def node_history(self, question: HistoryQuery) -> HistoryView:
        return self._history("messages_in", "commit_ms")

    async def vpn_history(self, question: HistoryQuery) -> HistoryView:
        return self._history("messages_in", "delivery_ms")

    async def queue_history(self, name: str, question: HistoryQuery, *, partition: int | None = None) -> HistoryView:
        await self.show_queue(name)
        return self._history("messages_in", "messages")

    def _history(self, *figures: str) -> HistoryView:
        return HistoryView(step_ms=2000, times_ms=[self.at_ms], values={each: [1.5] for each in figures})

    async def queues_figures(self, question: QueuesQuery) -> QueuesFigures:
        figures = []
        for name in sorted(filter(name_pattern(question.name).fullmatch, self.definitions)):
            view = await self.show_queue(name)
            figures.append(
                QueueFigures(
                    name=name,
                    access_type=view.config.access_type,
                    durable=True,
                    partition_count=view.config.partition_count,
                    flows_count=len(view.flows),
                    ready_count=view.ready_count,
                    unacked_count=view.unacked_count,
                    spooled_bytes=view.spooled_bytes,
                    quota_bytes=view.config.max_msg_spool_usage << 20,
                    accepted_total=view.ready_count,
                    delivered_total=0,
                    redelivered_total=0,
                    settled_total=0,
                    discarded_total=0,
                    rebalance_status="ready",
                    refused_total=sum(view.refusals.values()),
                    dropped_total=sum(view.drops.values()),
                )
            )
        page = figures[question.after : question.after + question.limit]
        return QueuesFigures(at_ms=self.at_ms, total_count=len(figures), queues=tuple(page))

    async def show_spool(self) -> SpoolView:
        return self.spool

    async def start_backup(self, name: str) -> BackupView:
        if self.backup is not None and self.backup.state == BackupState.RUNNING:
            raise Refused(f"backup {self.backup.name!r} is running")
        self.backup = BackupView(
            name=name or "now",
            folder=f"/backups/{name or 'now'}",
            state=BackupState.RUNNING,
            started_ms=1_700_000_000_000,
        )
        return self.backup

    async def show_backup(self) -> BackupView:
        if self.backup is None:
            raise Refused("no backup was made since the node started")
        return self.backup

    async def cancel_backup(self) -> BackupView:
        latest = await self.show_backup()
        if latest.state == BackupState.RUNNING:
            latest = self.backup = replace(latest, state=BackupState.CANCELLED, failure="it was cancelled")
        return latest

    async def actor_tree(self) -> Sequence[ActorView]:
        return self.actors

    async def events(self, *, after: int, limit: int) -> Sequence[EventView]:
        return [event for event in self.happened if event.number > after][-limit:]

    def in_vpn(self, name: str) -> "MemoryNode":
        if name not in self.vpns:
            raise VpnNotFound(name)
        return self

    async def smrp_subscriptions(self, question: SmrpQuery) -> SmrpSubscriptionsView:
        return answer(rows_of(self.space, question), question)

    async def explain_publish(self, message: ExampleMessage, *, queue: str | None) -> PublishExplanation:
        self.explained = message
        if queue is not None:
            self._definition(queue)
        return PublishExplanation(
            topic=message.topic,
            key=message.key,
            size_bytes=message.size_bytes,
            qos=message.qos,
            verdict="accepted",
            reason="",
            retained_now=False,
            destinations=() if self.destination is None else (self.destination,),
        )

    async def explain_key(self, queue: str, key: str) -> KeyExplanation:
        self._definition(queue)
        return KeyExplanation(
            queue=queue,
            key=key,
            key_hash=7,
            partition=3,
            partition_status="ready",
            assignment_epoch=1,
            flow_id="9",
            client="worker",
            waiting_count=2,
            in_flight_count=1,
            first_waiting="3:5",
            reason=WaitReason.WINDOW_FULL,
            unseen_count=0,
        )

    async def metrics_snapshot(self) -> Sequence[Sample]:
        return self.samples

    async def health(self) -> Health:
        return Health(live=self.live, ready=self.live and not self.reasons, reasons=self.reasons)

    def _definition(self, name: str) -> QueueDefinition:
        if name not in self.definitions:
            raise QueueNotFound(name)
        return self.definitions[name]


def cursor_view_of(name: str) -> CursorView:
    """A cursor that is a little behind."""
    partition = CursorPartitionView(number=0, low=1, acked=3, next_sequence=9, lag_bytes=600)
    return CursorView(
        name=name,
        mode="tap",
        state=CursorState.BOUND,
        epoch=2,
        instance="driver-1",
        batch_ref="query/7",
        lag_count=6,
        lag_bytes=600,
        lag_bytes_max=1 << 30,
        lag_time_ms_max=0,
        heartbeat_ms=30_000,
        partitions=(partition,),
    )
