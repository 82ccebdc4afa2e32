"""The operations of operators on a machine with several brokers, which they see as one: those on all together.

Lists are joined, and totals added up.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from sluicegate.gateway.machine.operations.bridges import BridgeOperations
from sluicegate.gateway.machine.operations.clients import ClientOperations
from sluicegate.gateway.machine.operations.definitions import DefinitionOperations
from sluicegate.gateway.machine.operations.events import MergedEvents
from sluicegate.gateway.machine.operations.merging import (
    merged_backup,
    merged_figures,
    merged_health,
    merged_page_of_queues,
    merged_reload,
    merged_spool,
)
from sluicegate.gateway.machine.operations.queues import QueueOperations
from sluicegate.gateway.machine.operations.rules import AskedBroker, BrokerAway, Machine
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.operations.history import merged_history
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.operations.no_replicas import NoReplicas
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.node.backups import BackupView
from sluicegate.gateway.views.node.figures import NodeFigures, QueuesFigures, QueuesQuery
from sluicegate.gateway.views.node.history import HistoryQuery, HistoryView
from sluicegate.gateway.views.node.runtime import ActorView, EventView, Health, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView
from sluicegate.gateway.views.queues.explanations import ExampleMessage, PublishExplanation
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import QueueInvalid

HEALTH_S: Final = 0.8  # for a broker to answer a probe: those of Kubernetes wait for a second by default


class MachineOperations(
    DefinitionOperations, ClientOperations, QueueOperations, BridgeOperations, NoReplicas, NodeInterface
):
    """The operations on one message VPN of the machine."""

    def __init__(self, machine: Machine, vpn: str = DEFAULT_VPN, events: MergedEvents | None = None) -> None:
        """`events` are shared by the views of all message VPNs; without them this view makes its own."""
        super().__init__(machine, vpn)
        self._events = events or MergedEvents()

    def in_vpn(self, name: str) -> "MachineOperations":
        """Return the operations on another message VPN; that it exists is known with the first one."""
        return MachineOperations(self._machine, name, self._events)

    async def reload(self) -> ReloadView:
        """Reload the configuration."""
        return merged_reload(await self._machine.reload())

    async def node_figures(self) -> NodeFigures:
        """Return the totals."""
        return merged_figures([figures for _, figures in await self._all("node_figures")])

    async def queues_figures(self, question: QueuesQuery) -> QueuesFigures:
        """Return a page of the figures of queues, by name."""
        whole = replace(question, after=0, limit=question.after + question.limit, without=self._queues_of_links())
        return merged_page_of_queues([page for _, page in await self._all("queues_figures", whole)], question)

    async def node_history(self, question: HistoryQuery) -> HistoryView:
        """Return the figures of all brokers together."""
        views = [view for _, view in await self._all("node_history", question)]
        return merged_history(views, goes_on=question.after_ms > 0)

    async def vpn_history(self, question: HistoryQuery) -> HistoryView:
        """Return the figures of the message VPN at all brokers together."""
        views = [view for _, view in await self._all("vpn_history", question)]
        return merged_history(views, goes_on=question.after_ms > 0)

    async def queue_history(self, name: str, question: HistoryQuery, *, partition: int | None = None) -> HistoryView:
        """Return the figures of a queue, from the broker that has it."""
        found: HistoryView = await self._at_home("queue_history", name, question, partition=partition)
        return found

    async def show_spool(self) -> SpoolView:
        """Return the spools together."""
        return merged_spool([(broker.name, spool) for broker, spool in await self._all("show_spool")])

    async def start_backup(self, name: str) -> BackupView:
        """Start a backup of all spools, in one folder."""
        first, *others = self._every()
        begun: BackupView = await self._at(first, "start_backup", name)
        views = [begun]
        for broker in others:
            try:
                views.append(await self._at(broker, "start_backup", begun.name))
            except (Refused, QueueInvalid):
                await self._all("cancel_backup")
                raise
        return merged_backup(views)

    async def show_backup(self) -> BackupView:
        """Return the progress of the latest backup."""
        return merged_backup([view for _, view in await self._all("show_backup")])

    async def cancel_backup(self) -> BackupView:
        """Cancel the backup that is running."""
        return merged_backup([view for _, view in await self._all("cancel_backup")])

    async def actor_tree(self) -> Sequence[ActorView]:
        """Return the actors of all brokers: each broker's name is the root of its own."""
        return await self._joined("actor_tree")

    async def events(self, *, after: int, limit: int) -> Sequence[EventView]:
        """Return the latest events, oldest first, with numbers of the machine."""
        for broker in self._running():
            try:
                self._events.take(
                    broker.name,
                    await self._at(broker, "events", after=self._events.last_of(broker.name), limit=limit),
                )
            except BrokerAway:
                continue
        return self._events.recent(after, limit)

    async def explain_publish(self, message: ExampleMessage, *, queue: str | None) -> PublishExplanation:
        """Explain the routing of a message to its topic, or to a queue."""
        explained: PublishExplanation = await self._first("explain_publish", message, queue=queue)
        return explained

    async def metrics_snapshot(self) -> Sequence[Sample]:
        """Return the samples of all brokers, each with the broker's name, and those of the supervisor."""
        answers: list[tuple[AskedBroker, Sequence[Sample]]] = []
        with suppress(Refused):  # those of the supervisor say that no broker answers
            answers = await self._all("metrics_snapshot")
        return [*_of_brokers((broker.name, samples) for broker, samples in answers), *self._machine.samples()]

    async def health(self) -> Health:
        """Return whether the machine works and accepts traffic: while at least one broker does, it does."""

        async def of(broker: AskedBroker) -> Health | str:
            if broker.absence:
                return broker.absence
            try:
                health: Health = await asyncio.wait_for(self._at(broker, "health"), HEALTH_S)
            except (BrokerAway, TimeoutError):
                return broker.absence or f"has not answered within {HEALTH_S:g} s"
            return health

        brokers = self._machine.brokers
        answers = await asyncio.gather(*[of(broker) for broker in brokers])
        found = merged_health({broker.name: answer for broker, answer in zip(brokers, answers, strict=True)})
        left = [
            f"retired broker {broker.name} still has: {obstacle}"
            for broker in brokers
            for obstacle in (() if broker.left is None else broker.left.obstacles)
        ]
        return replace(found, reasons=(*found.reasons, *left))


def _of_brokers(answers: Iterable[tuple[str, Sequence[Sample]]]) -> list[Sample]:
    return [sample._replace(broker=broker) for broker, samples in answers for sample in samples]
