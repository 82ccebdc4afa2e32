"""The node: everything put together, started in order and stopped in the opposite one."""

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sluicegate.actors.partitions.triggers import watch_for_room
from sluicegate.actors.runtime.actor import LoopActor, SupervisorActor
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import VITAL
from sluicegate.actors.spool.actor import Spool
from sluicegate.actors.spool.health import SpoolHealth
from sluicegate.actors.spool.store_threads import StoreThreads
from sluicegate.gateway.build import release
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.reload import Changes, diff, in_force
from sluicegate.gateway.node.backups import spawn_backups
from sluicegate.gateway.node.environment import THE_MACHINE, Surroundings
from sluicegate.gateway.node.recovery import Recovered, last_cursors, read_store, register_partitions
from sluicegate.gateway.node.servers.amqp import AmqpFront
from sluicegate.gateway.node.servers.flow import FlowFront
from sluicegate.gateway.node.servers.front import ProtocolFront
from sluicegate.gateway.node.servers.http import HttpFront
from sluicegate.gateway.node.servers.mqtt import MqttFront
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.observability.events import reload_event_log, spawn_event_log, watch_gates
from sluicegate.gateway.observability.logs import set_up_logging
from sluicegate.gateway.observability.trace_export import TraceExport, make_tracing, start_export
from sluicegate.gateway.operations.queues import Following
from sluicegate.gateway.process.operator_ports import OperatorPorts
from sluicegate.gateway.security.certificates import Validity, look_at_certificates
from sluicegate.gateway.security.credentials import Proofs, Secrets, read_secrets
from sluicegate.gateway.security.operators import AdminAccounts
from sluicegate.gateway.security.watched_files import WatchedFiles, look_at
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.headers import NATIVE_AMQP
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.observability.events import SYSTEM_RECORD_QUARANTINED, SYSTEM_STARTUP_COMPLETE
from sluicegate.messaging.partitions.paging import MemoryBudget
from sluicegate.messaging.queues.admission import SpoolGate
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.amqp.messages.selector_fields import AmqpFields
from sluicegate.protocols.security.login_attempts import LoginAttempts
from sluicegate.protocols.security.password_checks import PasswordChecks
from sluicegate.protocols.transport.listeners import BaseListener
from sluicegate.protocols.transport.unfinished import UnfinishedBytes
from sluicegate.storage.catalog.recovered import NOTHING_STORED
from sluicegate.storage.commit.planner import CommitPlanner
from sluicegate.storage.environment.file_rights import describe_rights, make_folder, open_to_others
from sluicegate.storage.errors import StorageError, StoreDamaged
from sluicegate.storage.interface import CommitJob, Store
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import RESERVE_BYTES, SPOOL_FILES, SpoolStore

log = logging.getLogger("sluicegate.node")

USER_GONE = "the user is shut down"
DISCONNECTED = "an operator disconnected the client"

STOP_S = 10  # how long clients may take to let go of their connections

RESERVE_OF_SMALL_MAPS = 4  # of a map below 128 MiB, a quarter is kept for settling and deleting


class Node:
    """One gateway process, between `start` and `stop`."""

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        clock: Clock,
        rng: random.Random,
        surroundings: Surroundings = THE_MACHINE,
    ) -> None:
        self.config = config
        self.surroundings = surroundings
        self.store = store
        self.clock = clock
        self.natives = {NATIVE_AMQP: AmqpFields()}
        self.selectors = Selectors(self.natives, config.selectors.dialect())
        self.recovered: Recovered = read_store(store)
        self.planner: CommitPlanner = self.recovered.planner
        self.spool_gate = SpoolGate(
            usage_bytes_max=config.spool.usage_bytes_max, usage_count_max=config.limits.messages_max
        )
        self.memory = MemoryBudget(bytes_max=config.spool.memory_bytes_max)
        self.unfinished = UnfinishedBytes(config.backpressure.unfinished_bytes_max)
        self.ready = False
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.runtime = Runtime(
            loop=asyncio.get_running_loop(), clock=clock, rng=rng, on_fatal=self._fatal, call_soon=surroundings.turns()
        )
        self.threads: StoreThreads = surroundings.store_threads(store, self.runtime)
        self.credit: CreditPool[Address] = CreditPool(config.limits.delivered_unacked_max)
        watch_for_room(self.credit, self.runtime.dispatcher)
        watch_gates(self)
        self.tracing = make_tracing(config.tracing, self.natives, rng)
        self.trace_export: TraceExport | None = None
        self.root = self.runtime.spawn(SupervisorActor, kind="node", name=config.node.name, policy=VITAL)
        self.partition_addresses: dict[int, Address] = {}  # of durable partitions, for the spool
        self.spool = self._spawn_spool()
        self.partition_ids = self.recovered.partition_ids
        self.attempts = LoginAttempts()
        self.password_checks = PasswordChecks(memory_bytes_max=config.limits.login_memory_bytes_max, clock=clock)
        self.vpns: dict[str, MessageVpn] = {}  # those that are configured, and those that the store knows
        names = dict.fromkeys([*config.message_vpns(), *self.recovered.vpns])
        secrets = read_secrets(config, names, [], clock.wall_ms)
        for name in names:
            self.vpns[name] = MessageVpn(self, name, self.recovered.stored(name), secrets.clients[name])
        self.default = self.vpns[DEFAULT_VPN]
        register_partitions(self.recovered, self.partition_addresses)  # what their ledgers have is known
        self.event_log = spawn_event_log(self)
        self.following = Following(self.runtime, self.root)
        self.watched_files = WatchedFiles(self.runtime, config, lambda: self._go_by(self._read_secrets(self.config)))
        self.backups = spawn_backups(self)
        self.mqtt = MqttFront(self)
        self.amqp = AmqpFront(self)
        self.flow = FlowFront(self)
        self.http = HttpFront(self)
        self.fronts: tuple[ProtocolFront[Any, Any], ...] = (self.mqtt, self.amqp, self.flow, self.http)
        self.admin_accounts = self._make_admin_accounts(secrets.operators)
        self.operator_ports = OperatorPorts(self)
        self.certificates: dict[str, Validity] = {}  # of the ports in TLS, by the names of their listeners
        self.configuration: Callable[[], Config] | None = None  # reads it again from where it came
        self._alone = asyncio.Lock()  # of a start and reloads: it takes time to make what a configuration declares

    def _make_admin_accounts(self, proofs: Proofs) -> AdminAccounts:
        return AdminAccounts(
            self.config.admin,
            proofs,
            checks=self.password_checks,
            clock=self.clock,
            wait=self.runtime.sleep,
            random_bytes=self.runtime.rng.randbytes,
        )

    # --- start ---

    async def start(self) -> None:
        """Bring everything back, then open the doors, those of clients first.

        Raises CannotStart when a port cannot be had; it is known before anybody is let in.
        """
        async with self._alone:
            await self._start()

    async def _start(self) -> None:
        if self.recovered.damaged_count:
            text = f"{self.recovered.damaged_count} damaged records were set aside at the start"
            self.runtime.events.emit(SYSTEM_RECORD_QUARANTINED, text)
        await self._spool_is_idle()  # sequences are reserved in the store before any is given out
        for name, vpn in self.vpns.items():
            await vpn.start(self.recovered.stored(name))
        self.recovered.records.clear()
        self.recovered.partitions.clear()
        self.recovered.vpns.clear()
        if self.tracing is not None:
            self.trace_export = start_export(self.config.tracing, self.config.node.name, self.runtime, self.tracing)
        await self.operator_ports.bind()
        for front in self.fronts:
            await front.start()
        for vpn in self.vpns.values():
            await vpn.rest.start()
        await self.operator_ports.open()
        self._look_at_certificates()
        self.ready = True
        self.runtime.events.emit(SYSTEM_STARTUP_COMPLETE, f"release {release()} takes traffic")

    async def reload(self, config: Config) -> Changes:
        """Take over what can change while running; return what differs.

        Raises OSError and ValueError for a file that cannot be used; nothing has changed then.
        """
        async with self._alone:
            return await self._reload(config)

    async def _reload(self, wanted: Config) -> Changes:
        changes = diff(self.config, wanted)
        config = in_force(self.config, wanted)
        seen = look_at(config)  # what changes after this is read again later
        secrets = self._read_secrets(config)
        set_up_logging(config.log)
        for change in changes.restart_needed:
            log.warning("%s: takes a restart", change)
        for change in changes.reloadable:
            log.info("%s", change)
        if not changes.restart_needed and not changes.reloadable:
            log.info("the configuration was read again, and no setting differs")
        self.config = config
        reload_event_log(self.event_log, config)
        self.unfinished.bytes_max = config.backpressure.unfinished_bytes_max
        for name in config.message_vpns():
            if name not in self.vpns:
                self.vpns[name] = MessageVpn(self, name, NOTHING_STORED, secrets.clients[name])
        # Before anything is waited for: files that change meanwhile are read after this, and put in force after this.
        self._go_by(secrets)
        self.watched_files.follow(seen)
        for vpn in self.vpns.values():
            await self._take_over(vpn)
        for front in self.fronts:
            front.reload()
        for vpn in self.vpns.values():
            if not vpn.config.enabled:
                self._send_away(vpn, "the message VPN is shut down")
            await vpn.rest.start()
        return changes

    async def _take_over(self, vpn: MessageVpn) -> None:
        """Have a message VPN go by the configuration. One that comes lets nobody in before it is there as a whole."""
        try:
            await (vpn.reload() if vpn.is_started else vpn.start(NOTHING_STORED))
        except Exception as error:  # of whatever kind: the others go on
            until_then = "" if vpn.is_started else ", and until then nobody is let in"
            text = f"has not taken over what is configured: {error!r}; a reload tries it again{until_then}"
            vpn.warnings = [f"message VPN {vpn.name!r} {text}"]
            log.error("%s", vpn.warnings[0])

    def users_changed(self, vpn: MessageVpn) -> None:
        """Go by all users of a message VPN as they are now."""
        self._send_away(vpn, USER_GONE, vpn.renew_roster())

    def user_changed(self, vpn: MessageVpn, name: str) -> None:
        """Go by what operators have made of a user of a message VPN."""
        if vpn.user_changed(name):
            self._send_away(vpn, USER_GONE, frozenset({name}))

    def _send_away(self, vpn: MessageVpn, reason: str, users: frozenset[str] | None = None) -> None:
        """Say goodbye to the clients of a message VPN, or to those of these users only."""
        for front in self.fronts:
            front.send_away(vpn.name, reason, users)
        vpn.http_flows.end(reason, users)  # they outlive connections

    def disconnect(self, vpn: MessageVpn, client: str) -> bool:
        """Say goodbye to a client, over whatever protocols it came. Return whether it was there."""
        found = [front.disconnect(vpn.name, client, DISCONNECTED) for front in self.fronts]
        return vpn.http_flows.end_of(client, DISCONNECTED) or any(found)

    def _read_secrets(self, config: Config) -> Secrets:
        """Read keys, certificates and passwords from their files. Raises OSError and ValueError."""
        return read_secrets(config, {*config.message_vpns(), *self.vpns}, self._listeners(), self.clock.wall_ms)

    def _go_by(self, secrets: Secrets) -> None:
        """Put in force what was read, for the next client; send away who is none any more."""
        self.admin_accounts.configure(self.config.admin, secrets.operators)
        for name, proofs in secrets.clients.items():
            self._send_away(self.vpns[name], USER_GONE, self.vpns[name].configure(proofs))
        for listener, context in secrets.certificates:
            listener.use_tls(context)
        self._look_at_certificates()

    def _look_at_certificates(self) -> None:
        self.certificates = look_at_certificates(self._listeners(), now_s=self.clock.wall_ms() / 1000)

    def _listeners(self) -> list[BaseListener]:
        """Return whoever listens on an open port."""
        listeners: list[BaseListener] = [each for front in self.fronts for each in front.listeners.values()]
        return listeners + self.operator_ports.listeners()

    def spool_actor(self) -> Spool:
        """Return what the actor that has the spool does."""
        spool = self.spool.behaviour
        assert isinstance(spool, Spool)
        return spool

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open port; the names are those of the configuration."""
        return [each for front in self.fronts for each in front.endpoints()] + self.operator_ports.endpoints()

    # --- stop ---

    async def stop(self) -> None:
        """Close the doors, let everybody finish, and leave the store in order."""
        self.ready = False
        self.password_checks.stop()
        for vpn in self.vpns.values():
            vpn.keep_queues()
        self.following.end()
        for vpn in self.vpns.values():
            await vpn.rest.stop()
        self.watched_files.end()
        await asyncio.gather(*[front.stop(within_s=STOP_S) for front in self.fronts])
        await self.operator_ports.stop()
        await self._spool_is_idle()
        closed = [each for vpn in self.vpns.values() for each in await vpn.close_ledgers()]
        await self._spool_is_idle()
        if self.trace_export is not None:
            await self.trace_export.stop()
        self.runtime.stop()
        self.threads.stop()
        try:
            self._leave_in_order(last_cursors(closed, self.planner))
        except StorageError as error:
            log.error("the spool was not closed in order, and the next start takes it for a crash: %s", error)
        self.store.close()

    def _leave_in_order(self, states: list[CursorRecord]) -> None:
        """Write what a start in order reads. Raises StoreFull and StoreFailed."""
        if self.spool_health.is_damaged():
            raise StoreDamaged(self.spool_gate.blocked)  # nothing is written beside damage
        if states:
            self.store.commit(CommitJob(cursor_puts=states, uses_reserve=True))
        self.store.mark_clean()

    async def _spool_is_idle(self) -> None:
        done = asyncio.get_running_loop().create_future()
        self.spool_actor().when_idle(lambda: None if done.done() else done.set_result(None))
        try:
            await asyncio.wait_for(done, STOP_S)
        except TimeoutError:
            log.warning("the spool did not come to rest in %d s", STOP_S)

    # --- putting together ---

    def _spawn_spool(self) -> ActorCell:
        self.spool_health = SpoolHealth()  # asked for when the actor is gone, too
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

    def _fatal(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)


def open_store(config: Config) -> SpoolStore:
    """Open the store in the data folder. Raises CannotStart."""
    folder: Path = config.data.path
    try:
        make_folder(folder)
        map_bytes_max = config.spool.map_bytes_max
        reserve_bytes = min(RESERVE_BYTES, map_bytes_max // RESERVE_OF_SMALL_MAPS)
        sync = config.spool.sync
        store = SpoolStore.open(folder, map_bytes_max=map_bytes_max, reserve_bytes=reserve_bytes, sync=sync)
        rights = open_to_others(folder, SPOOL_FILES)
    except OSError as error:
        reason = "it is no folder" if isinstance(error, FileExistsError) else error.strerror or error
        text = f"the data folder {folder} cannot be used: {reason}"
        raise CannotStart(text, advice="Another one: --data DIR.") from None
    except StorageError as error:
        raise CannotStart(str(error)) from None
    if rights:
        log.warning("%s", describe_rights(rights))
    return store
