"""The node: made from the ground up, started in order, reloaded, and stopped in reverse order."""

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import RESTARTED
from sluicegate.actors.spool.backups import BackupActor, BackupRecord
from sluicegate.gateway.build import VERSION, release
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.reload import Changes, diff, in_force
from sluicegate.gateway.node.environment import MACHINE, Environment, OperatorPorts
from sluicegate.gateway.node.links import NodeLinks
from sluicegate.gateway.node.recovery import last_cursors, register_partitions
from sluicegate.gateway.node.servers.amqp import AmqpServer
from sluicegate.gateway.node.servers.flow import FlowServer
from sluicegate.gateway.node.servers.http import HttpServer
from sluicegate.gateway.node.servers.mqtt import MqttServer
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.node.vpn_changes import SHUT_DOWN, USER_GONE, VpnChanges
from sluicegate.gateway.observability.broker_topics import BrokerFigures, BrokerTopics
from sluicegate.gateway.observability.events import reload_event_log, spawn_event_log
from sluicegate.gateway.observability.logs import set_up_logging
from sluicegate.gateway.observability.trace_export import TraceExport, start_export
from sluicegate.gateway.security.credentials import (
    ConfiguredCredentials,
    Secrets,
    Validity,
    check_certificates,
    read_secrets,
)
from sluicegate.gateway.security.operators import Operators
from sluicegate.gateway.security.watched_files import WatchedFiles, look_at
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.observability.events import SYSTEM_RECORD_QUARANTINED, SYSTEM_STARTUP_COMPLETE
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.protocols.transport.listeners import BaseListener
from sluicegate.storage.catalog.recovered import NOTHING_STORED, StoredVpn
from sluicegate.storage.environment.file_rights import describe_rights, make_folder, open_to_others
from sluicegate.storage.errors import StorageError, StoreDamaged
from sluicegate.storage.interface import Store
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import RESERVE_BYTES, SPOOL_FILES, SpoolStore

log = logging.getLogger("sluicegate.node")

DISCONNECTED = "an operator disconnected the client"

STOP_S = 10  # for clients to close their connections, and for the spool to become idle

RESERVE_OF_SMALL_MAPS = 4  # a quarter of a map below 128 MiB is kept for settling and deleting


class Node:
    """One gateway process, between `start` and `stop`.

    In: a configuration, at the start and with each reload; changed files with secrets; the stop of the process. Out:
    open ports, events, and at the end a store that the next start reads. No message passes here: connections have the
    services of their message VPN, and actors do the rest.
    """

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        clock: Clock,
        rng: random.Random,
        environment: Environment = MACHINE,
        operator_ports: Callable[["Node"], OperatorPorts] = lambda node: OperatorPorts(),
    ) -> None:
        """Make everything, from the ground up. Ports open in `start`. Raises StorageError.

        1. Services, which all others use. 2. Message VPNs, with what the store has of them: each makes its queues, and
        so knows the addresses of its partitions, for which the spool opens accounts afterwards. 3. The event log, which
        publishes in the VPNs. 4. Servers, which give connections the services of a VPN. 5. Operators and their ports.
        """
        self.ready = False
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.configuration: Callable[[], Config] | None = None  # reads the configuration again; set by the process
        self._change_lock = asyncio.Lock()  # one start or reload at a time: creating what is declared takes time

        self.services = NodeServices(
            config, store=store, clock=clock, rng=rng, environment=environment, on_fatal=self._fatal
        )
        services = self.services

        self.vpns: dict[str, MessageVpn] = {}  # configured ones, those that operators created, and those in the store
        names = dict.fromkeys([*services.config.message_vpns(), *services.recovered.vpns])
        secrets = read_secrets(config, names, [], clock.wall_ms)
        for name in names:
            self._add_vpn(name, services.recovered.stored(name), secrets.clients[name])
        self.default = self.vpns[DEFAULT_VPN]
        register_partitions(services.recovered, services.partition_addresses)

        self.event_log = spawn_event_log(
            services.runtime,
            config,
            parent=services.root,
            spool=services.spool.inbox,
            space_of=self._space_of,
        )
        self.trace_export: TraceExport | None = None
        self.watched_files = WatchedFiles(
            services.runtime.after, config, lambda: self._apply_secrets(self._read_secrets(services.config))
        )
        self.backups = self._spawn_backups()

        self.mqtt = MqttServer(services, self.vpns)
        self.amqp = AmqpServer(services, self.vpns)
        self.links = NodeLinks(services, self.vpns)
        self.flow = FlowServer(services, self.vpns, self.links.links)
        self.http = HttpServer(services, self.vpns)
        self.servers: tuple[ProtocolServer[Any, Any], ...] = (self.mqtt, self.amqp, self.flow, self.http)
        self.vpn_changes = self._make_vpn_changes()
        self._started_ms = services.clock.now_ms()
        self.broker_topics = self._make_broker_topics()
        self.operators = self._make_operators(secrets.operators)
        self.operator_ports = operator_ports(self)
        self.certificates: dict[str, Validity] = {}  # of TLS ports, by listener name

    def _spawn_backups(self) -> ActorCell:
        """Start the actor that makes backups. Operators reach it by `gateway.operations.backups`."""
        services, record = self.services, BackupRecord()
        return services.runtime.spawn(
            lambda cell: BackupActor(
                cell,
                record,
                store=services.store,
                folder=services.config.backup.path.absolute(),
                place=services.environment.place,
                incarnation=services.recovered.incarnation,
                node=services.config.node.name,
                release=VERSION,
            ),
            kind="backups",
            name="backups",
            policy=RESTARTED,
            parent=services.root,
        )

    def _make_operators(self, credentials: ConfiguredCredentials) -> Operators:
        services = self.services
        return Operators(
            services.config.admin,
            credentials,
            checks=services.password_checks,
            clock=services.clock,
            wait=services.runtime.sleep,
            random_bytes=services.runtime.rng.randbytes,
        )

    def _add_vpn(self, name: str, stored: StoredVpn, credentials: ConfiguredCredentials) -> MessageVpn:
        vpn = self.vpns[name] = MessageVpn(self.services, name, stored, credentials, on_users_gone=self._users_gone)
        return vpn

    def _make_vpn_changes(self) -> VpnChanges:
        return VpnChanges(
            self.services,
            self.vpns,
            self.servers,
            lock=self._change_lock,
            add=lambda name, credentials: self._add_vpn(name, NOTHING_STORED, credentials),
            put_in_force=self._reload_vpn,
            link=self.links.vpn_changed,
            send_away=self._send_away,
        )

    def _space_of(self, vpn: str) -> TopicSpace | None:
        found = self.vpns.get(vpn)
        return None if found is None else found.space

    def _make_broker_topics(self) -> BrokerTopics:
        services, figures = self.services, self._broker_figures
        own = self.event_log.inbox
        return BrokerTopics(services.runtime, self.default.space, figures=figures, spool=services.spool.inbox, own=own)

    def _broker_figures(self) -> BrokerFigures:
        """Return what `$SYS/broker/...` says: clients, messages and bytes of MQTT, and what all protocols share."""
        counters, gate, vpns = self.mqtt.counters, self.services.spool_gate, self.vpns.values()
        return BrokerFigures(
            uptime_s=(self.services.clock.now_ms() - self._started_ms) // 1000,
            clients_connected=len(self.mqtt.connections.children or ()),
            sessions_count=sum(vpn.sessions_count for vpn in vpns),
            subscriptions_count=sum(vpn.space.subscriptions_count for vpn in vpns),
            retained_count=sum(vpn.space.retained.count for vpn in vpns),
            stored_count=int(gate.usage_count),
            stored_bytes=int(gate.usage_bytes),
            sockets_total=counters.connected,
            received_total=counters.messages_received,
            sent_total=counters.messages_sent,
            dropped_total=sum(counters.dropped.values()),
            bytes_received_total=counters.bytes_received,
            bytes_sent_total=counters.bytes_sent,
        )

    # --- start ---

    async def start(self, *, before_opening: Callable[[], None] = lambda: None) -> None:
        """Restore everything from the store, then open the ports, those of clients first.

        Raises CannotStart for a port that cannot be bound. Operator ports are bound before clients are accepted, so
        that such a start fails before a client is served. `before_opening` is called when everything is restored: for
        work that would hold clients up later.
        """
        async with self._change_lock:
            await self._start(before_opening)

    async def _start(self, before_opening: Callable[[], None]) -> None:
        services = self.services
        if services.recovered.damaged_count:
            text = f"{services.recovered.damaged_count} damaged records were set aside at the start"
            services.runtime.events.emit(SYSTEM_RECORD_QUARANTINED, text)
        await self._wait_for_spool()  # the store has sequences reserved before any is assigned
        await self.links.restore()
        for name, vpn in self.vpns.items():
            await vpn.start(services.recovered.stored(name))
        services.recovered.records.clear()
        services.recovered.partitions.clear()
        services.recovered.vpns.clear()
        if services.tracing is not None:
            self.trace_export = start_export(
                services.config.tracing,
                services.config.node.name,
                services.runtime,
                services.tracing,
            )
        before_opening()
        await self.operator_ports.bind()
        self.links.configure()
        for server in self.servers:
            await server.start()
        for vpn in self.vpns.values():
            await vpn.rest.start()
            await vpn.bridges.start()
        await self.operator_ports.open()
        self._check_certificates()
        self.ready = True
        self.broker_topics.follow(services.config.mqtt.sys_interval_s)
        services.runtime.events.emit(SYSTEM_STARTUP_COMPLETE, f"release {release()} takes traffic")

    async def reload(self, config: Config) -> Changes:
        """Put a configuration in force, as far as a running node can; return what differs.

        Raises OSError and ValueError for a file that cannot be used; nothing has changed then.
        """
        async with self._change_lock:
            return await self._reload(*_compared(self.services.config, self.services.provisioned_vpns.merged(config)))

    async def reload_from(self, read: Callable[[], Config]) -> Changes:
        """Read a configuration, and put it in force as `reload` does. Raises what reading raises, too.

        Reading thousands of queues takes seconds, so a thread does it, and clients are served meanwhile.
        """
        async with self._change_lock:
            wanted = self.services.provisioned_vpns.merged(await asyncio.to_thread(read))
            return await self._reload(*await asyncio.to_thread(_compared, self.services.config, wanted))

    async def _reload(self, changes: Changes, config: Config) -> Changes:
        seen = look_at(config)  # before the files are read: a later change is read again
        secrets = self._read_secrets(config)
        siblings = self.services.environment.siblings
        set_up_logging(config.log, broker="" if siblings is None else siblings.name)
        for change in changes.restart_needed:
            log.warning("%s: needs a restart to take effect", change)
        for change in changes.reloadable:
            log.info("%s", change)
        if not changes.restart_needed and not changes.reloadable:
            log.info("the configuration was read again, and no setting differs")
        self.services.config = config
        reload_event_log(self.event_log, config)
        self.broker_topics.follow(config.mqtt.sys_interval_s)
        self.services.unfinished.bytes_max = config.backpressure.unfinished_bytes_max
        for name in config.message_vpns():
            if name not in self.vpns:
                self._add_vpn(name, NOTHING_STORED, secrets.clients[name])
        was_up = {name: vpn.is_up for name, vpn in self.vpns.items()}
        # Before the first await: a file that changes meanwhile is read later, and must be put in force later.
        self._apply_secrets(secrets)
        self.watched_files.follow(seen)
        for vpn in self.vpns.values():
            await self._reload_vpn(vpn)
        for server in self.servers:
            server.reload()
        await self.links.prepare()
        self.links.configure()
        for vpn in self.vpns.values():
            if not vpn.config.enabled:
                self._send_away(vpn, SHUT_DOWN)
            await vpn.rest.start()
        await asyncio.gather(*[vpn.bridges.start() for vpn in self.vpns.values()])  # those that changed stop first
        for vpn in self.vpns.values():
            vpn.tell_state(was_up=was_up[vpn.name])
        return changes

    async def _reload_vpn(self, vpn: MessageVpn) -> None:
        """Put the configuration in force in a message VPN. A new one accepts no client until it is complete."""
        try:
            await (vpn.reload() if vpn.is_started else vpn.start(NOTHING_STORED))
        except Exception as error:  # whatever it is, the other VPNs are reloaded
            until_then = "" if vpn.is_started else ", and until then nobody is let in"
            text = f"could not apply its configuration: {error!r}; a reload tries again{until_then}"
            vpn.warnings = [f"message VPN {vpn.name!r} {text}"]
            log.error("%s", vpn.warnings[0])

    def _users_gone(self, vpn: str, users: frozenset[str]) -> None:
        """Disconnect the clients of users of a message VPN who may no longer connect."""
        self._send_away(self.vpns[vpn], USER_GONE, users)

    def _send_away(self, vpn: MessageVpn, reason: str, users: frozenset[str] | None = None) -> None:
        """Disconnect the clients of a message VPN, or those of these users only."""
        for server in self.servers:
            server.send_away(vpn.name, reason, users)
        vpn.http_flows.end(reason, users)  # flows outlive connections

    def disconnect(self, vpn: MessageVpn, client: str) -> bool:
        """Disconnect a client from all protocols. Return whether it was connected."""
        found = [server.disconnect(vpn.name, client, DISCONNECTED) for server in self.servers]
        return vpn.http_flows.end_of(client, DISCONNECTED) or any(found)

    def _read_secrets(self, config: Config) -> Secrets:
        """Read keys, certificates and passwords from their files. Raises OSError and ValueError."""
        return read_secrets(
            config, {*config.message_vpns(), *self.vpns}, self._listeners(), self.services.clock.wall_ms
        )

    def _apply_secrets(self, secrets: Secrets) -> None:
        """Put the secrets in force for new connections, and disconnect users who may no longer connect."""
        self.operators.configure(self.services.config.admin, secrets.operators)
        for name, credentials in secrets.clients.items():
            self._send_away(self.vpns[name], USER_GONE, self.vpns[name].configure(credentials))
        for listener, context in secrets.certificates:
            listener.use_tls(context)
        self._check_certificates()

    def _check_certificates(self) -> None:
        self.certificates = check_certificates(self._listeners(), now_s=self.services.clock.wall_ms() / 1000)

    def _listeners(self) -> list[BaseListener]:
        """Return the listeners of all open ports."""
        listeners: list[BaseListener] = [each for server in self.servers for each in server.listeners.values()]
        return listeners + self.operator_ports.listeners()

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open port; the names are those of the configuration."""
        return [each for server in self.servers for each in server.endpoints()] + self.operator_ports.endpoints()

    # --- stop ---

    async def stop(self) -> None:
        """Close the ports, let clients finish, and write to the store what a clean start reads.

        What would react to clients that leave is ended first: queues are no longer deleted, streams and delivery points
        stop. The spool has to be idle before the ledgers are closed, and again afterwards, for that settles messages.
        """
        self.ready = False
        await self.vpn_changes.end(STOP_S)
        self.services.password_checks.stop()
        for vpn in self.vpns.values():
            vpn.keep_queues()
        self.operator_ports.end_streams()
        self.links.stop()
        await asyncio.gather(*[vpn.bridges.stop() for vpn in self.vpns.values()])  # each takes seconds
        await asyncio.gather(*[vpn.rest.stop() for vpn in self.vpns.values()])
        self.watched_files.end()
        self.broker_topics.end()
        await asyncio.gather(*[server.stop(within_s=STOP_S) for server in self.servers])
        await self.operator_ports.stop()
        await self._wait_for_spool()
        closed = [each for vpn in self.vpns.values() for each in await vpn.close_ledgers()]
        self.services.spool_actor().checkpoints.close()
        await self._wait_for_spool()
        if self.trace_export is not None:
            await self.trace_export.stop()
        self.services.runtime.stop()
        self.services.threads.stop()
        try:
            self._write_clean_state(last_cursors(closed, self.services.planner))
        except StorageError as error:
            log.error("the spool was not closed in order; the next start recovers as after a crash: %s", error)
        self.services.store.close()

    def _write_clean_state(self, states: list[CursorRecord]) -> None:
        """Write what a clean start reads. Raises StoreFull and StoreFailed."""
        if self.services.spool_health.is_damaged():
            raise StoreDamaged(self.services.spool_gate.blocked)  # nothing is written beside damage
        self.services.store.checkpoint(self.services.planner.last_checkpoint(states))
        self.services.store.mark_clean()

    async def _wait_for_spool(self) -> None:
        done = asyncio.get_running_loop().create_future()
        self.services.spool_actor().when_idle(lambda: None if done.done() else done.set_result(None))
        try:
            await asyncio.wait_for(done, STOP_S)
        except TimeoutError:
            log.warning("the spool is not idle after %d s; going on", STOP_S)

    def _fatal(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)


def _compared(before: Config, wanted: Config) -> tuple[Changes, Config]:
    """Return the changes that a reload makes, and the configuration that is in force afterwards."""
    return diff(before, wanted), in_force(before, wanted)


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
        reason = "it is not a folder" if isinstance(error, FileExistsError) else error.strerror or error
        text = f"the data folder {folder} cannot be used: {reason}"
        raise CannotStart(text, advice="Another one: --data DIR.") from None
    except StorageError as error:
        raise CannotStart(str(error)) from None
    if rights:
        log.warning("%s", describe_rights(rights))
    return store
