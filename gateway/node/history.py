"""The history of a node's figures: a timer reads counters that exist, at each step, and asks no queue.

What is kept is bounded: the node, 100 message VPNs, 500 queues, and 128 partitions that operators look at. A queue of
sessions has a history while operators look at it.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, final

from pykka import ActorDeadError

from sluicegate.actors.messages.partitions import DescribePartition, PartitionOverview
from sluicegate.actors.runtime.asks import ask_at
from sluicegate.actors.runtime.runtime import TimerHandle
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.observability.history import COARSE, STEP_MS, Figure, Histories, History, Kind
from sluicegate.messaging.observability.latency import LatencyHistogram
from sluicegate.messaging.queues.admission import QueueGate, SpoolGate
from sluicegate.messaging.queues.definition import is_named
from sluicegate.messaging.routing.destinations import QueueTarget

log = logging.getLogger("sluicegate.history")

VPNS_MAX: Final = 100
QUEUES_MAX: Final = 500
PARTITIONS_MAX: Final = 128
NEW_QUEUES_MAX: Final = 100  # that get a history at once, every ten seconds
QUEUES_PER_TURN: Final = 50  # read together: a turn takes half a millisecond

NODE_FIGURES: Final = (
    Figure("messages_in", Kind.RATE),
    Figure("messages_out", Kind.RATE),
    Figure("bytes_in", Kind.RATE),
    Figure("bytes_out", Kind.RATE),
    Figure("connections", Kind.LEVEL),
    Figure("messages", Kind.LEVEL),
    Figure("messages_bytes", Kind.LEVEL),
    Figure("unacked", Kind.LEVEL),
    Figure("commits", Kind.RATE),
    Figure("commit_ms", Kind.TIME),
    Figure("confirmation_ms", Kind.TIME),
    Figure("delivery_ms", Kind.TIME),
    Figure("memory_bytes", Kind.LEVEL),
    Figure("cpu_ms", Kind.RATE),
)
VPN_FIGURES: Final = (
    Figure("messages_in", Kind.RATE),
    Figure("messages_out", Kind.RATE),
    Figure("messages", Kind.LEVEL),
    Figure("messages_bytes", Kind.LEVEL),
    Figure("connections", Kind.LEVEL),
    Figure("delivery_ms", Kind.TIME),
)
QUEUE_FIGURES: Final = (
    Figure("messages_in", Kind.RATE),
    Figure("messages_out", Kind.RATE),
    Figure("messages", Kind.LEVEL),
    Figure("messages_bytes", Kind.LEVEL),
)
PARTITION_FIGURES: Final = (*QUEUE_FIGURES, Figure("unacked", Kind.LEVEL), Figure("held", Kind.LEVEL))

PartitionKey = tuple[str, str, int]  # message VPN, queue, number


@final
class NodeHistory:
    """Reads the figures of a node from `follow` on until `end`."""

    def __init__(
        self,
        services: NodeServices,
        message_vpns: Mapping[str, MessageVpn],
        servers: Sequence[ProtocolServer[Any, Any]],
    ) -> None:
        self._services = services
        self._message_vpns = message_vpns  # the node's: it changes while the node runs
        self._servers = servers
        self._timer: TimerHandle | None = None
        self._taking: asyncio.Task[None] | None = None
        self.node = History(NODE_FIGURES)
        self.vpns: Histories[str] = Histories(VPN_FIGURES, VPNS_MAX)
        self.queues: Histories[tuple[str, str]] = Histories(QUEUE_FIGURES, QUEUES_MAX)
        self.partitions: Histories[PartitionKey] = Histories(PARTITION_FIGURES, PARTITIONS_MAX)

    def step(self) -> int:
        """Return the number of the step that ends next, or now."""
        return -(-self._services.clock.wall_ms() // STEP_MS)

    def follow(self) -> None:
        """Read at the end of each step from now on."""
        self._tick()

    def end(self) -> None:
        """Read no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._taking is not None:
            self._taking.cancel()

    def _tick(self) -> None:
        services = self._services
        left_ms = STEP_MS - services.clock.wall_ms() % STEP_MS  # brokers of a machine read at the same times
        self._timer = services.runtime.after(left_ms, self._tick)
        if self._taking is None or self._taking.done():
            self._taking = asyncio.create_task(self._take_or_tell())
            services.runtime.keep(self._taking)

    async def _take_or_tell(self) -> None:
        try:
            await self.take()
        except Exception:
            log.exception("the figures of a step cannot be read")

    async def take(self) -> None:
        """Read all figures now, for the step that ends. Others have their turns between parts of many queues."""
        step = round(self._services.clock.wall_ms() / STEP_MS)
        self.node.read(step, self._now_s(), self._of_node())
        self._take_vpns(step)
        if step % COARSE == 0:
            self.queues.offer(islice(self._working_queues(), NEW_QUEUES_MAX), step)
            self.partitions.forget_unseen(step)
        await self._take_queues(step)
        await self._take_partitions(step)

    def _working_queues(self) -> Iterator[tuple[str, str]]:
        """Yield the queues at work that have no history, without those of sessions."""
        for vpn in self._message_vpns.values():
            for name in vpn.rates.working():
                if (vpn.name, name) not in self.queues and is_named(name):
                    yield vpn.name, name

    def _now_s(self) -> float:
        return self._services.clock.now_ms() / 1000

    def _of_node(self) -> list[float]:
        services, counters = self._services, [server.counters for server in self._servers]
        spool, process = services.spool_actor(), services.environment.process()
        commits = spool.commit_latencies
        confirmations = [each.confirmations for each in counters]
        return [
            sum(each.messages_received for each in counters),
            sum(each.messages_sent for each in counters),
            sum(each.bytes_received for each in counters),
            sum(each.bytes_sent for each in counters),
            sum(server.clients_count() for server in self._servers),
            int(services.spool_gate.usage_count),
            int(services.spool_gate.usage_bytes),
            int(services.credit.used),
            spool.commits_count,
            *(commits.sum_ns / 1_000_000, sum(commits.counts)),
            *_times(confirmations),
            *_times([vpn.gone_queues.latencies for vpn in self._message_vpns.values()]),
            *((0, 0) if process is None else (process.memory_bytes, process.cpu_ms_total)),
        ]

    def _take_vpns(self, step: int) -> None:
        self.vpns.offer(self._message_vpns, step)
        for name in self.vpns:
            vpn = self._message_vpns.get(name)
            if vpn is None:
                self.vpns.drop(name)
            else:
                self.vpns.read(name, step, self._now_s(), _of_vpn(vpn))

    async def _take_queues(self, step: int) -> None:
        for number, key in enumerate(self.queues):
            if number % QUEUES_PER_TURN == QUEUES_PER_TURN - 1:
                await asyncio.sleep(0)
            target = self.target(*key)
            if target is None:
                self.queues.drop(key)
            elif key in self.queues:
                self.queues.read(key, step, self._now_s(), _of_gate(target.gate))

    def target(self, vpn: str, queue: str) -> QueueTarget | None:
        """Return a queue of this broker; None if there is none of that name."""
        found = self._message_vpns.get(vpn)
        return None if found is None else found.ways.targets.get(queue)

    async def _take_partitions(self, step: int) -> None:
        for key in self.partitions:
            vpn, queue, number = key
            target = self.target(vpn, queue)
            if target is None or number >= len(target.partitions):
                self.partitions.drop(key)
                continue
            try:
                overview: PartitionOverview = await ask_at(target.partitions[number].address, DescribePartition())
            except ActorDeadError:  # it was deleted meanwhile
                continue
            if key in self.partitions:
                self.partitions.read(key, step, self._now_s(), _of_partition(overview))


def _times(histograms: Sequence[LatencyHistogram]) -> tuple[float, float]:
    return sum(int(each.sum_ms) for each in histograms), sum(sum(each.counts()) for each in histograms)


def _of_vpn(vpn: MessageVpn) -> list[float]:
    return [*_of_gate(vpn.gate), vpn.clients.count, *_times([vpn.gone_queues.latencies])]


def _of_gate(gate: SpoolGate | QueueGate) -> list[float]:
    accepted_count, usage_count = int(gate.accepted_count), int(gate.usage_count)
    return [accepted_count, accepted_count - usage_count, usage_count, int(gate.usage_bytes)]


def _of_partition(overview: PartitionOverview) -> list[float]:
    return [
        overview.next_sequence,
        overview.next_sequence - overview.waiting_count,
        overview.waiting_count,
        overview.waiting_bytes,
        overview.in_flight_count,
        overview.held_count,
    ]
