"""What the message VPNs and protocol servers of a node share: its runtime, its store and spool actor, its limits.

`Node` makes them first and passes them to everything that it makes later. They know no message VPN and no server.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.partitions.triggers import watch_for_room
from sluicegate.actors.runtime.actor import LoopActor, SupervisorActor
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import VITAL
from sluicegate.actors.spool.actor import Spool
from sluicegate.actors.spool.health import SpoolHealth
from sluicegate.actors.spool.store_threads import StoreThreads
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.environment import Environment
from sluicegate.gateway.node.recovery import Recovered, read_store
from sluicegate.gateway.observability.events import watch_gates
from sluicegate.gateway.observability.trace_export import make_tracing
from sluicegate.gateway.provisioning.message_vpns import ProvisionedVpns
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.headers import NATIVE_AMQP
from sluicegate.messaging.partitions.paging import MemoryBudget
from sluicegate.messaging.queues.admission import SpoolGate
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.amqp.messages.selector_fields import AmqpFields
from sluicegate.protocols.security.login_attempts import LoginAttempts
from sluicegate.protocols.security.password_checks import PasswordChecks
from sluicegate.protocols.transport.unfinished import UnfinishedBytes
from sluicegate.storage.commit.planner import CommitPlanner
from sluicegate.storage.interface import Store

PAGES_WAITING_SHARE: Final = 8  # of the memory of messages, one part of so many may wait for a checkpoint to be freed


@final
class NodeServices:
    """The shared services of one node.

    They are made in the order of their needs: selectors; what the store has; the limits of the node; the runtime with
    the store's threads; the root of all actors and, below it, the spool actor, which needs all of these.
    """

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        clock: Clock,
        rng: random.Random,
        environment: Environment,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Read the store, and start the actors of the node itself. Raises StorageError."""
        self.environment = environment
        self.clock = clock

        self.natives = {NATIVE_AMQP: AmqpFields()}
        self.selectors = Selectors(self.natives, config.selectors.dialect())

        self.store = store
        self.recovered: Recovered = read_store(store, is_replicated=environment.is_replicated)
        self.provisioned_vpns = ProvisionedVpns(self.recovered.vpns)
        # The one in force, with the message VPNs that operators created. A reload replaces it, and so do operators.
        self.config = self.provisioned_vpns.merged(config)
        self.planner: CommitPlanner = self.recovered.planner
        self.partition_ids = self.recovered.partition_ids
        self.partition_addresses: dict[int, Address] = {}  # of durable partitions, for the spool

        self.spool_gate = SpoolGate(
            usage_bytes_max=config.spool.usage_bytes_max, usage_count_max=config.limits.messages_max
        )
        self.limits = environment.limits  # that are the machine's; None: this is its only broker
        if self.limits is not None:
            self.limits.share_node(self.spool_gate)
        self.memory = MemoryBudget(bytes_max=config.spool.memory_bytes_max)
        self.planner.checkpoints.page_bytes_max = config.spool.memory_bytes_max // PAGES_WAITING_SHARE
        self.unfinished = UnfinishedBytes(config.backpressure.unfinished_bytes_max)
        self.credit: CreditPool[Address] = CreditPool(config.limits.delivered_unacked_max)

        self.runtime = Runtime(
            loop=asyncio.get_running_loop(),
            clock=clock,
            rng=rng,
            on_fatal=on_fatal,
            call_soon=environment.turns(),
            call_from_thread=environment.thread_calls(),
            call_later=environment.timers(),
            is_quiet=environment.quiet(),
        )
        self.threads: StoreThreads = environment.store_threads(store, self.runtime)
        watch_for_room(self.credit, self.runtime.dispatcher)
        watch_gates(self.runtime.events, config, self.spool_gate, self.credit, self.unfinished)
        self.tracing = make_tracing(config.tracing, self.natives, rng)

        self.root = self.runtime.spawn(SupervisorActor, kind="node", name=config.node.name, policy=VITAL)
        self.spool_health = SpoolHealth()  # read even after the actor has ended
        self.spool = self._spawn_spool()

        self.attempts = LoginAttempts()
        if self.limits is not None:
            self.limits.share_logins(self.attempts)
        self.password_checks = PasswordChecks(memory_bytes_max=config.limits.login_memory_bytes_max, clock=clock)

    def spool_actor(self) -> Spool:
        """Return the behaviour of the spool actor."""
        spool = self.spool.behaviour
        assert isinstance(spool, Spool)
        return spool

    def _spawn_spool(self) -> ActorCell:
        return self.runtime.spawn(
            lambda cell: LoopActor(
                cell,
                Spool(
                    cell,
                    planner=self.planner,
                    writer=self.threads,
                    gate=self.spool_gate,
                    health=self.spool_health,
                    commit_interval_ms=self.config.spool.commit_interval_ms,
                    partitions=self.partition_addresses,
                    tracing=self.tracing,
                ),
            ),
            kind="spool",
            name="spool",
            policy=VITAL,
            parent=self.root,
        )
