"""The node: made from the ground up, started in order, reloaded, and stopped in reverse order."""

import asyncio
import logging
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import RESTARTED
from sluicegate.actors.spool.backups import BackupActor, BackupRecord
from sluicegate.gateway.build import VERSION, release
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.reload import Changes, diff, in_force
from sluicegate.gateway.node.environment import MACHINE, Environment, OperatorPorts, peak_memory_bytes
from sluicegate.gateway.node.history import NodeHistory
from sluicegate.gateway.node.links import NodeLinks
from sluicegate.gateway.node.payload_rules import NO_RULES, ReadRules, read_rules
from sluicegate.gateway.node.recovery import last_cursors, register_partitions
from sluicegate.gateway.node.servers.amqp import AmqpServer
from sluicegate.gateway.node.servers.flow import FlowServer
from sluicegate.gateway.node.servers.http import HttpServer
from sluicegate.gateway.node.servers.mqtt import MqttServer
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.node.vpn_changes import SHUT_DOWN, USER_GONE, VpnChanges
from sluicegate.gateway.observability.broker_topics import BrokerFigures, BrokerTopics, TrafficFigures
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
from sluicegate.gateway.security.watched_files import Seen, WatchedFiles, WatchedSchemas, look_at, look_at_schemas
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
        self.watched_files, self.watched_schemas = self._watch()
        self._payload_rules = NO_RULES
        self._apply_payload_rules(read_rules(services.config, NO_RULES))
        self.backups = self._spawn_backups()

        self.mqtt = MqttServer(services, self.vpns)
        self.amqp = AmqpServer(services, self.vpns)
        self.links = NodeLinks(services, self.vpns)
        self.flow = FlowServer(services, self.vpns, self.links.links)
        self.http = HttpServer(services, self.vpns)
        self.servers: tuple[ProtocolServer[Any, Any], ...] = (self.mqtt, self.amqp, self.flow, self.http)
        self.history = NodeHistory(services, self.vpns, self.servers)
        self.vpn_changes = self._make_vpn_changes()
        self._started_ms = services.clock.now_ms()
        self._broker_topics: dict[str, tuple[MessageVpn, BrokerTopics]] = {}  # by message VPN
        self.operators = self._make_operators(secrets.operators)
        self.operator_ports = operator_ports(self)
        self.certificates: dict[str, Validity] = {}  # of TLS ports, by listener name

    def _watch(self) -> tuple[WatchedFiles, WatchedSchemas]:
        """Watch the files with secrets and keys, and those with schemas."""
        services = self.services

        async def read_schemas() -> None:
            self._apply_payload_rules(await self._read_payload_rules(services.config))

        return WatchedFiles(
            services.runtime.after,
            lambda: look_at(services.config),
            lambda: self._apply_secrets(self._read_secrets(services.config)),
        ), WatchedSchemas(
            services.runtime.after,
            look_at_schemas(services.config),
            change_lock=self._change_lock,
            is_used=lambda: services.config.has_payload_rules(),
            look=lambda: _look_at_schemas(services.config),
            read_again=read_schemas,
        )

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
            events=services.runtime.events,
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

    def _follow_broker_topics(self) -> None:
        """Publish `$SYS/broker/...` in every message VPN at the interval of the configuration."""
        services, interval_s = self.services, self.services.config.mqtt.sys_interval_s
        for name, (vpn, topics) in list(self._broker_topics.items()):
            if self.vpns.get(name) is not vpn:
                topics.end()
                del self._broker_topics[name]
        for name, vpn in self.vpns.items():
            if name not in self._broker_topics:
                figures, own = partial(self._broker_figures, vpn), self.event_log.inbox
                topics = BrokerTopics(
                    services.runtime,
                    vpn.space,
                    figures=figures,
                    tells_traffic=vpn is self.default,
                    spool=services.spool.inbox,
                    own=own,
                )
                self._broker_topics[name] = vpn, topics
            self._broker_topics[name][1].follow(interval_s)

    def _broker_figures(self, vpn: MessageVpn) -> BrokerFigures | None:
        """Return what `$SYS/broker/...` says in a message VPN; None if it is deleted."""
        if self.vpns.get(vpn.name) is not vpn:
            return None
        sessions, gate = vpn.session_directory(), vpn.gate
        return BrokerFigures(
            uptime_s=(self.services.clock.now_ms() - self._started_ms) // 1000,
            clients_connected=sessions.connected_count,
            sessions_count=sessions.count,
            sessions_count_max=max(sessions.count_max, sessions.count),
            expired_total=sessions.expired_count,
            subscriptions_count=vpn.space.subscriptions_count,
            retained_count=vpn.space.retained.count,
            stored_count=int(gate.usage_count),
            stored_bytes=int(gate.usage_bytes),
            traffic=self._traffic_figures() if vpn is self.default else None,
        )

    def _traffic_figures(self) -> TrafficFigures:
        """Return messages and bytes of MQTT, of all message VPNs, and the memory of the process."""
        counters, process = self.mqtt.counters, self.services.environment.process()
        return TrafficFigures(
            sockets_total=counters.connected,
            received_total=counters.messages_received,
            sent_total=counters.messages_sent,
            dropped_total=sum(counters.dropped.values()),
            bytes_received_total=counters.bytes_received,
            bytes_sent_total=counters.bytes_sent,
            memory_bytes=0 if process is None else process.memory_bytes,
            memory_bytes_max=0 if process is None else max(process.memory_bytes, peak_memory_bytes()),
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
        self._follow_broker_topics()
        self.history.follow()
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
        seen_schemas = await _look_at_schemas(config)  # before they are read: later changes are read
        payload_rules = await self._read_payload_rules(config)
        seen = look_at(config)
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
        self.services.unfinished.bytes_max = config.backpressure.unfinished_bytes_max
        for name in config.message_vpns():
            if name not in self.vpns:
                self._add_vpn(name, NOTHING_STORED, secrets.clients[name])
        was_up = {name: vpn.is_up for name, vpn in self.vpns.items()}
        # Before the next await: a file that changes meanwhile is read later, and must be put in force later.
        self._apply_secrets(secrets)
        self._apply_payload_rules(payload_rules)
        self.watched_files.follow(seen)
        self.watched_schemas.follow(seen_schemas)
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
        self._follow_broker_topics()
        return changes

    async def _reload_vpn(self, vpn: MessageVpn) -> None:
        """Put the configuration in force in a message VPN. A new one accepts no client until it is complete."""
        try:
            await (vpn.reload() if vpn.is_started else vpn.start(NOTHING_STORED))
            self._follow_broker_topics()
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

    async def _read_payload_rules(self, config: Config) -> ReadRules:
        """Read the schema files of a configuration on a thread, if it has any. Raises ValueError."""
        if not config.has_payload_rules():
            return NO_RULES
        return await asyncio.to_thread(read_rules, config, self._payload_rules)

    def _apply_payload_rules(self, read: ReadRules) -> None:
        """Put rules for payloads in force, for the next message."""
        self._payload_rules = read
        for name, vpn in self.vpns.items():
            vpn.payload_rules.configure(read.rules.get(name, []))
            vpn.payload_rules.stale_count = len(read.stale.get(name, ()))
            vpn.clients.set_payload_rules(vpn.payload_rules)

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

    async def stop(self, *, clients_s: float = STOP_S) -> None:
        """Close the ports, let clients finish within a time, and write to the store what a clean start reads.

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
        self.watched_schemas.end()
        for _, topics in self._broker_topics.values():
            topics.end()
        self.history.end()
        await asyncio.gather(*[server.stop(within_s=clients_s) for server in self.servers])
        await asyncio.gather(*[vpn.token_keys.close() for vpn in self.vpns.values()])
        await asyncio.gather(*[vpn.external.close() for vpn in self.vpns.values()])  # clients have asked it until now
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


async def _look_at_schemas(config: Config) -> dict[Path, Seen]:
    """Look at the schema files of a configuration on a thread, if it has any."""
    return await asyncio.to_thread(look_at_schemas, config) if config.has_payload_rules() else {}


def _compared(before: Config, wanted: Config) -> tuple[Changes, Config]:
    """Return the changes that a reload makes, and the configuration that is in force afterwards."""
    return diff(before, wanted), in_force(before, wanted)


def open_store(config: Config, *, incarnation: int | None = None, is_copy: bool = False) -> SpoolStore:
    """Open the store in the data folder; a new one has the given incarnation. See `SpoolStore.open`.

    Raises CannotStart.
    """
    folder: Path = config.data.path
    try:
        make_folder(folder)
        map_bytes_max = config.spool.map_bytes_max
        reserve_bytes = min(RESERVE_BYTES, map_bytes_max // RESERVE_OF_SMALL_MAPS)
        sync = config.spool.sync
        store = SpoolStore.open(
            folder,
            map_bytes_max=map_bytes_max,
            reserve_bytes=reserve_bytes,
            sync=sync,
            incarnation=incarnation,
            is_copy=is_copy,
        )
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
