"""One message VPN of a node: its topic space, queues, sessions and accounts, and the actors that keep them.

Clients of one VPN see nothing of another. All VPNs share the services of the node: the store with its one spool actor,
the memory, the ports. A connection is given the services of its VPN once, when its VPN is known; messages do not name
their VPN, and no table that is looked up for each message has it in its keys.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sluicegate.actors.cursors.directory import CursorDirectory
from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    DeleteQueue,
    KeepQueues,
    ListMoves,
    ListQueues,
    LocalQueue,
    Moves,
    SetQueueLimits,
)
from sluicegate.actors.messages.partitions import ClosedLedger, CloseLedger
from sluicegate.actors.messages.spool import WriteTables
from sluicegate.actors.messages.staging import FinishDecided
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.publishing.retain import forget_deletions, store_again
from sluicegate.actors.queues.assembly import QueueServices
from sluicegate.actors.queues.core import GoneQueues
from sluicegate.actors.queues.directory.directory import QueueDirectory
from sluicegate.actors.queues.directory.network_directory import NetworkQueueDirectory
from sluicegate.actors.queues.quota_events import bound_vpn, watch_retained, watch_vpn
from sluicegate.actors.routing.durable_selectors import DurableSelectors
from sluicegate.actors.routing.router import TopicRouter
from sluicegate.actors.runtime.actor import LoopActor, SupervisorActor
from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.actors.runtime.supervision import VITAL
from sluicegate.actors.spool.catalog import CatalogActor, WriteRow
from sluicegate.actors.transactions.staging import StagingActor, StagingServices
from sluicegate.gateway.config.sections.message_vpns.message_vpns import MessageVpn as MessageVpnSection
from sluicegate.gateway.config.sections.node import Queues as QueuesSection
from sluicegate.gateway.node.recovery import restore_retained
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.shared_limits import SharedLimits
from sluicegate.gateway.observability.statistics import SAMPLE_MS, QueueRates, ReaderBatches
from sluicegate.gateway.provisioning.bridges import Bridges
from sluicegate.gateway.provisioning.profiles import ACL, CLIENT, AnyProfiles, Kind, P, Profiles, V
from sluicegate.gateway.provisioning.queues import declare_queues, define_virtual_destinations, group_queue, own_queue
from sluicegate.gateway.provisioning.rest_points import RestPoints
from sluicegate.gateway.provisioning.store import VpnAccess
from sluicegate.gateway.provisioning.users import Users
from sluicegate.gateway.security.accounts import Accounts, configure_roster, make_roster
from sluicegate.gateway.security.credentials import ConfiguredCredentials
from sluicegate.gateway.security.external_logins import ExternalLogins
from sluicegate.gateway.security.fetched_keys import FetchedTokenKeys
from sluicegate.gateway.views.clients.accounts import ProfileKind
from sluicegate.messaging.clients.homes import publisher_of_key
from sluicegate.messaging.clients.payload_rules import PayloadRules
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.refusals import REFUSED_VPN_FULL
from sluicegate.messaging.message.thresholds import ThresholdPair
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.network.clients import NetworkClients
from sluicegate.messaging.observability.events import VPN_STATE_CHANGED, VPN_TOKEN_KEYS_DOWN, VPN_TOKEN_KEYS_UP
from sluicegate.messaging.queues.admission import SpoolGate
from sluicegate.messaging.routing.queue_ways import QueueWays
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.protocols.amqp.datapath.sender_recovery import SuspendedSenders
from sluicegate.protocols.amqp.links.subscriptions import container_of
from sluicegate.protocols.amqp.registry import Registry
from sluicegate.protocols.bridges.path import place_of
from sluicegate.protocols.bridges.rules import BridgeServices
from sluicegate.protocols.flow.publishers.directory import PublisherDirectory
from sluicegate.protocols.flow.publishers.publisher import RestorePublishers
from sluicegate.protocols.http.consuming.flows import HttpFlows
from sluicegate.protocols.mqtt.session.directory import SessionDirectory
from sluicegate.protocols.mqtt.session.messages import RestoreSessions
from sluicegate.protocols.mqtt.session.other_servers import OtherServers
from sluicegate.protocols.mqtt.session.quota import SessionQuota
from sluicegate.protocols.rest.point import RestServices
from sluicegate.storage.catalog.partition_owners import staging_owner_row
from sluicegate.storage.catalog.queues import staging_partition_id, staging_row
from sluicegate.storage.catalog.recovered import StoredVpn, read_cursor_book
from sluicegate.storage.catalog.staging import find_staging

QUEUES_PER_TURN: Final = 50  # deleted together: other actors have their turns between


class MessageVpn:
    """One message VPN. Its actors run from the beginning; messages arrive once the ports are open.

    In: its configuration, at the start and with each reload; changes that operators make of users and profiles. Out:
    the actors and tables that connections use, and the users who may no longer connect.
    """

    def __init__(
        self,
        services: NodeServices,
        name: str,
        stored: StoredVpn,
        credentials: ConfiguredCredentials,
        *,
        on_users_gone: Callable[[str, frozenset[str]], None],
    ) -> None:
        """Make everything, each part after those that it needs.

        1. Topic space and quotas. 2. Accounts: the roster, then profiles, then users, who name profiles. 3. Router,
        then queues, which register their subscriptions with it; the cursor book before them, for they keep what
        cursors have not read. 4. What publishes and consumes: cursors, transactions, sessions, publishers, flows.
        5. Delivery points, which consume from queues.

        `on_users_gone` is called with the VPN's name and the users who may no longer connect.
        """
        self.name = name
        self._services = services
        self._on_users_gone = on_users_gone
        config = services.config.message_vpn(name)
        self.events = services.runtime.events.of(name)
        self.selectors = services.selectors
        self.warnings: list[str] = []  # about its configuration, of the last start or reload
        self.cell = services.runtime.spawn(SupervisorActor, kind="vpn", name=name, policy=VITAL, parent=services.root)

        self.space = TopicSpace(services.natives, name, services.config.node.name)
        self.space.tracing = None if services.tracing is None else services.tracing.of(name)
        self.space.refuses_unmatched = config.reject_msg_to_sender_on_no_subscription_match
        self.gate = SpoolGate(
            usage_bytes_max=config.usage_bytes_max, refusal=REFUSED_VPN_FULL, parent=services.spool_gate
        )
        watch_vpn(self.events, self.gate)
        watch_retained(self.events, self.space.retained)
        self.clients, self.payload_rules = self._make_clients(), PayloadRules(services.natives)
        self.access = VpnAccess(config, self.clients, self._write_row)
        self._apply_quotas()
        self.client_profiles, self.acl_profiles = self._make_profiles(CLIENT, stored), self._make_profiles(ACL, stored)
        self.users, self.external = self._make_users(stored), self._make_external()
        self._configure_roster()
        self.accounts, self.token_keys = self._make_accounts(credentials), self._make_token_keys(credentials)

        self._book = read_cursor_book(stored.readers)
        self.router = self._spawn_router(stored)
        self.gone_queues = GoneQueues()
        self.queues = self._spawn_queues(stored)
        self.cursors = self._spawn_cursors()
        self.reader_batches = ReaderBatches()
        self.staging = self._spawn_staging(stored)
        self.network_clients, self.other_servers = NetworkClients(self.space.broker), OtherServers(services.runtime)
        self.sessions = self._spawn_sessions()
        self.publishers = self._spawn_publishers()
        self.http_flows = self._make_http_flows()
        self.amqp_registry = Registry(is_retired=services.environment.is_retired)
        self.amqp_links = SuspendedSenders(self._publisher_at)
        self.catalog = self._spawn_catalog()
        self.rates = QueueRates()
        self._sampler: TimerHandle | None = None
        self.rest, self.bridges = self._make_rest_points(stored), self._make_bridges(stored)

    # --- start, reload, stop ---

    async def start(self, stored: StoredVpn) -> None:
        """Restore what the store has, and create what the configuration declares."""
        self.token_keys.start()
        self.space.retained.clock.broker = self._services.config.node.name
        restore_retained(stored, self.space)
        self.forget_deletions()
        queues = self.queues.actor
        assert isinstance(queues, QueueDirectory)
        queues.report_lost_definitions()
        await self._declare()
        await self.sessions.ask(RestoreSessions(dict(stored.sessions)))
        restored = RestorePublishers(
            dict(stored.sessions), self._services.recovered.was_clean, self._stale_publishers()
        )
        await self.publishers.ask(restored)
        await self._note_moving_containers()
        self.staging.inbox.post(FinishDecided())
        self._sample_rates()
        self.access.is_started = True
        self.clients.is_up = self.is_up

    async def _note_moving_containers(self) -> None:
        """Serve no container of which a subscription was being moved away when this broker ended."""
        if self._services.environment.is_retired:
            found: Moves = await self.queues.ask(ListMoves())
            containers = [container_of(each.name) for each in found.queues if not each.is_received]
            self.amqp_registry.containers.moving = frozenset([each for each in containers if each])

    def _stale_publishers(self) -> frozenset[str]:
        """Return the publishers whose homes are at other brokers of this machine, and that are here as well."""
        siblings = self._services.environment.siblings
        stale = frozenset() if siblings is None else siblings.stale_copies
        names = [publisher_of_key(each) for each in stale]
        return frozenset([name for vpn, name in names if vpn == self.name])

    def forget_deletions(self) -> None:
        """Delete the rows of deletions of retained messages that no neighbor has to hear of any more."""
        services = self._services
        forget_deletions(space=self.space, spool=services.spool.inbox, wall_ms=services.clock.wall_ms())

    def store_retained_again(self) -> None:
        """Have the store write the retained messages that it has refused."""
        store_again(space=self.space, spool=self._services.spool.inbox)

    @property
    def config(self) -> MessageVpnSection:
        """Its configuration, as it is in force."""
        return self.access.config

    @property
    def is_started(self) -> bool:
        """Whether everything that its configuration declares has been created."""
        return self.access.is_started

    @property
    def is_up(self) -> bool:
        """Whether clients may connect: the VPN is enabled and started."""
        return self.access.is_up

    async def reload(self) -> None:
        """Put in force what can change while the node runs, after `configure` has done so for users and quotas."""
        config = self._services.config
        self.space.refuses_unmatched = self.config.reject_msg_to_sender_on_no_subscription_match
        await self._declare()
        self.queues.inbox.post(SetQueueLimits(config.backpressure.limits(), self.config.queues.temporary_grace_s))
        publishers = self._publisher_directory()
        publishers.publishers_max = config.flow.publishers_max
        publishers.remembered_ms = config.flow.publishers_remembered_s * 1000

    def _publisher_directory(self) -> PublisherDirectory:
        publishers = self.publishers.actor
        assert isinstance(publishers, PublisherDirectory)
        return publishers

    def configure(self, credentials: ConfiguredCredentials) -> frozenset[str]:
        """Put quotas and users of the configuration in force, with the credentials read from their files.

        Return the users who may no longer connect. Users and credentials change together: a client with valid
        credentials that is missing in the roster would connect with the profiles of unknown users.
        """
        self.access.config = self._services.config.message_vpn(self.name)
        self._apply_quotas()
        self.accounts.configure(self.config.authentication, credentials)
        self.token_keys.configure(self.config.authentication.oauth, credentials)
        self.external.configure(self.config.authentication.http, self.config.authentication.ldap)
        return self.renew_roster()

    def renew_roster(self) -> frozenset[str]:
        """Put all users and profiles in force. Return the users who may no longer connect."""
        before = self.clients.let_in()
        self._configure_roster()
        return before - self.clients.let_in()

    def _users_changed(self) -> None:
        """Put changed profiles in force: some users may connect now, others no longer."""
        self._on_users_gone(self.name, self.renew_roster())

    def _user_changed(self, name: str) -> None:
        """Put in force what operators changed of a user."""
        self.accounts.user_changed(name)
        username = self.users.username(name)
        if username is not None:
            self.external.forget([name])
        if self.clients.set_username(name, username):
            self._on_users_gone(self.name, frozenset({name}))

    def _make_clients(self) -> ClientRoster:
        clients = make_roster(self.name, self.space, self.events)
        if self._services.limits is not None:
            self._share(self._services.limits, clients)
        return clients

    def _share(self, limits: SharedLimits, clients: ClientRoster) -> None:
        """Share the quotas with the other brokers of this machine."""
        shared = limits.share_vpn(self.name, self.gate, clients)

        def settle() -> None:
            shared.subscriptions.settle(self.space.subscriptions_count)
            shared.subscription_bytes.settle(self.space.subscriptions_bytes)
            shared.endpoints.settle(self.queues_count)
            shared.sessions.settle(self.session_quota.kept_count)
            shared.session_bytes.settle(self.session_quota.usage_bytes)
            shared.publishers.settle(self._publisher_directory().count)
            shared.staged_bytes.settle(self._staged.staged_bytes)

        limits.settles(self.name, settle)

    def _apply_quotas(self) -> None:
        usage = ThresholdPair(self.config.usage_threshold)
        bound_vpn(self.gate, usage_bytes_max=self.config.usage_bytes_max, usage=usage)
        self.space.retained.bound(self.config.retained_bytes_max, self.config.max_retained_message_count)

    def _configure_roster(self) -> None:
        clients, acls = self.client_profiles.all().values(), self.acl_profiles.all().values()
        own = list(self.users.usernames())
        self.external.forget([each.name for each in own])
        further = self.external.in_force(clients, acls)
        configure_roster(self.clients, self.config, [*own, *further], clients, acls)
        self.clients.is_up = self.is_up

    def profiles(self, kind: ProfileKind) -> AnyProfiles:
        """Return the profiles of a kind."""
        return self.client_profiles if kind is ProfileKind.CLIENT else self.acl_profiles

    def shut(self, *, is_shut: bool) -> None:
        """Admit no client, whatever the configuration says, until the deletion of the VPN; or admit clients again."""
        self.access.is_shut = is_shut
        self.clients.is_up = self.is_up

    def tell_state(self, *, was_up: bool) -> None:
        """Emit an event if the VPN has begun, or ceased, to admit clients."""
        if self.is_up != was_up:
            self.events.emit(VPN_STATE_CHANGED, f"Message VPN {self.name} is {'up' if self.is_up else 'down'}")

    async def end(self) -> None:
        """End everything in it for ever, with the messages of its queues. Its connections are closed already.

        Rows that say more about it remain in the store.
        """
        self.keep_queues()
        await self.external.close()
        await self.token_keys.close()
        await self.bridges.stop()
        await self.rest.stop()
        self.http_flows.end("the message VPN is deleted")
        while handles := await self.queues.ask(ListQueues()):
            for first in range(0, len(handles), QUEUES_PER_TURN):
                part: list[LocalQueue] = handles[first : first + QUEUES_PER_TURN]
                for deleted in [self.queues.ask(DeleteQueue(handle.name)) for handle in part]:
                    with suppress(StoreRefused):  # the store has failed: the next start deletes it
                        await deleted
        self.cell.stop()
        self.gate.count_out(self.gate.usage_count, self.gate.usage_bytes)  # of staged transactions, also in the node's
        if self._services.limits is not None:
            self._services.limits.forget(self.name)

    def keep_queues(self) -> None:
        """The node stops: from now on no queue is deleted for want of a consumer."""
        self.queues.inbox.post(KeepQueues())
        if self._sampler is not None:
            self._sampler.cancel()

    async def close_ledgers(self) -> list[ClosedLedger]:
        """Return the state in which every durable partition begins after the next start."""
        closed: list[ClosedLedger] = []
        handles: list[LocalQueue] = await self.queues.ask(ListQueues())
        for handle in handles:
            if handle.durable and handle.cell.children:
                for partition in [each for each in handle.cell.children if each.kind == "partition"]:
                    closed.append(await partition.ask(CloseLedger()))
        return closed

    @property
    def sessions_count(self) -> int:
        """The number of MQTT sessions."""
        return self.session_directory().count

    def session_clients(self) -> list[str]:
        """Return the identifiers of the clients that have an MQTT session."""
        return self.session_directory().client_ids()

    @property
    def session_quota(self) -> SessionQuota:
        """The quota of MQTT sessions, and what is used of it."""
        return self.session_directory().quota

    def session_directory(self) -> SessionDirectory:
        """Return the directory of MQTT sessions, to look at."""
        sessions = self.sessions.behaviour
        assert isinstance(sessions, SessionDirectory)
        return sessions

    def named_publishers(self) -> list[str]:
        """Return the names of the publishers of the flow protocol that have one, connected or not."""
        return self._publisher_directory().names()

    @property
    def queues_count(self) -> int:
        """The number of queues, those of subscriptions included."""
        queues = self.queues.actor
        assert isinstance(queues, QueueDirectory)
        return queues.queues_count

    def _sample_rates(self) -> None:
        queues, runtime = self.queues.actor, self._services.runtime
        assert isinstance(queues, QueueDirectory)
        self.rates.add(runtime.clock.now_ms(), queues.accepted_counts())
        self._sampler = runtime.after(SAMPLE_MS, self._sample_rates)

    async def _declare(self) -> None:
        self.warnings = await declare_queues(self.queues, self._declared_here())
        self.warnings += await define_virtual_destinations(
            self.name,
            self.config.virtual_destinations,
            queues=self.queues,
            router=self.router,
            is_home=self._is_home_of,
        )

    def _declared_here(self) -> QueuesSection:
        """Return the section of queues, without those whose home is another broker of this machine."""
        section = self.config.queues
        here = tuple([each for each in section.declared if self._is_home_of(each.config.name)])
        return section.model_copy(update={"declared": here})

    def _is_home_of(self, queue: str) -> bool:
        """Return whether a queue of the configuration belongs here. Since the start it may have moved."""
        siblings = self._services.environment.siblings
        if siblings is None or queue in self.ways.targets:
            return True
        neighbors = self.space.neighbors
        if self.is_started and neighbors is not None and neighbors.queues.homes(queue):
            return False
        return siblings.is_home_of_queue(self.name, queue)

    # --- construction ---

    def _make_profiles(self, kind: Kind[P, V], stored: StoredVpn) -> Profiles[P, V]:
        return Profiles(
            kind,
            self.access,
            stored,
            users_with=lambda field, profile: [
                *self.users.with_profile(field, profile),
                *self.external.with_profile(field, profile),
            ],
            on_users_changed=self._users_changed,
        )

    def _make_users(self, stored: StoredVpn) -> Users:
        return Users(
            self.access,
            stored,
            profiles={kind: self.profiles(kind) for kind in ProfileKind},
            random_bytes=self._services.runtime.rng.randbytes,
            on_changed=self._user_changed,
            kinds_beside=lambda name: self.accounts.kinds_beside(name),
            hash_memory_bytes_max=self._services.password_checks.memory_bytes_max,
        )

    def _make_external(self) -> ExternalLogins:
        external = ExternalLogins(self.clients, self._services.runtime)
        external.configure(self.config.authentication.http, self.config.authentication.ldap)
        return external

    def _make_accounts(self, credentials: ConfiguredCredentials) -> Accounts:
        services = self._services
        accounts = Accounts(
            self.config.authentication,
            credentials,
            services.config.listeners,
            services.runtime,
            services.attempts,
            services.password_checks,
            self.users.provisioned.objects,
        )
        accounts.authenticator.external = self.external
        return accounts

    def _make_token_keys(self, credentials: ConfiguredCredentials) -> FetchedTokenKeys:
        keys = FetchedTokenKeys(self._services.clock, self.events, up=VPN_TOKEN_KEYS_UP, down=VPN_TOKEN_KEYS_DOWN)
        keys.configure(self.config.authentication.oauth, credentials)
        return keys

    def _make_rest_points(self, stored: StoredVpn) -> RestPoints:
        services = self._services
        return RestPoints(
            self.access,
            stored,
            services=RestServices(services.runtime, self.events, self.queues, services.credit),
            parent=self.cell,
            targets=lambda: services.config.rest.targets(),
        )

    def _make_bridges(self, stored: StoredVpn) -> Bridges:
        services, node = self._services, self._services.config.node.name
        return Bridges(
            self.access,
            stored,
            node=node,
            name=self.name,
            is_named=lambda: services.config.node.is_named() and services.config.node.name == node,
            services=BridgeServices(
                services.runtime,
                self.events,
                self.queues,
                self.router,
                services.credit,
                publisher_at=self._publisher_at,
                place=lambda: place_of(node, self.name),
            ),
            parent=self.cell,
        )

    async def _write_row(self, row: WriteRow) -> None:
        await self.catalog.ask(row)

    def _spawn_router(self, stored: StoredVpn) -> ActorCell:
        services = self._services
        durable_selectors = DurableSelectors(
            stored.catalog, selectors=self.selectors, spool=services.spool.inbox, row_prefix=self.space.row_prefix
        )
        return self._spawn(
            "router",
            lambda cell: LoopActor(
                cell,
                TopicRouter(
                    cell,
                    space=self.space,
                    selectors=self.selectors,
                    durable_selectors=durable_selectors,
                    group_queue=group_queue,
                    events=self.events,
                ),
            ),
        )

    def _spawn_queues(self, stored: StoredVpn) -> ActorCell:
        services, config = self._services, self._services.config
        self.ways = QueueWays({}, self.space, services.environment.sibling_names)
        queue_services = QueueServices(
            broker=self.space.broker,
            runtime=services.runtime,
            events=self.events,
            row_prefix=self.space.row_prefix,
            partition_ids=services.partition_ids,
            spool_gate=self.gate,
            queue_messages_max=config.limits.queue_messages_max,
            memory=services.memory,
            spool=services.spool.inbox,
            reader=services.threads,
            pressure=config.backpressure.limits(),
            temporary_grace_s=self.config.queues.temporary_grace_s,
            partition_addresses=services.partition_addresses,
            ways=self.ways,
            cores={},
            cursors=self._book,
            router=self.router.inbox,
            clients=self.clients,
            tracing=self.space.tracing,
            gone=self.gone_queues,
            latencies=self.gone_queues.latencies,
        )
        cell = self._spawn(
            "queues",
            lambda cell: NetworkQueueDirectory(
                cell,
                services=queue_services,
                router=self.router,
                catalog=stored.catalog,
                owners=stored.owners,
                lost=stored.lost,
                own_queue=own_queue,
                stored=services.recovered.partitions,
                was_clean=services.recovered.was_clean,
            ),
        )
        router = self.router.behaviour
        assert isinstance(router, TopicRouter)
        router.directory = cell
        return cell

    def _spawn_catalog(self) -> ActorCell:
        spool = self._services.spool.inbox
        return self._spawn("catalog", lambda cell: CatalogActor(cell, spool=spool, row_prefix=self.space.row_prefix))

    def _spawn_cursors(self) -> ActorCell:
        services = self._services
        return self._spawn(
            "cursors",
            lambda cell: CursorDirectory(
                cell,
                book=self._book,
                queues=self.queues,
                spool=services.spool.inbox,
                row_prefix=self.space.row_prefix,
                incarnation=services.recovered.incarnation,
                events=self.events,
            ),
        )

    def _spawn_staging(self, stored: StoredVpn) -> ActorCell:
        services, config = self._services, self._services.config.transactions
        partition_id = staging_partition_id(self.name, stored.catalog)
        if partition_id is None:
            partition_id = self._take_staging_partition()
        elif self.name != DEFAULT_VPN and staging_owner_row(partition_id).key not in stored.owners:
            self._write_staging_rows(partition_id)  # an earlier release kept no more than the one in the catalog
        found = find_staging(
            stored.transactions,
            services.recovered.partitions.get(partition_id),
            wall_ms=services.clock.wall_ms(),
            bytes_max=config.staged_bytes_max,
            ttl_ms=config.stage_ttl_s * 1000,
            names_kept_ms=config.names_kept_s * 1000,
        )
        self._staged = found.area
        shared = self.clients.quota.shared
        if shared is not None:
            self._staged.shared = shared.staged_bytes
        self.gate.count_in(found.messages_count, found.area.staged_bytes)
        staging_services = StagingServices(
            partition_id, self.space, services.spool.inbox, services.threads, self.gate, services.runtime.rng
        )
        return self._spawn("staging", lambda cell: StagingActor(cell, found=found, services=staging_services))

    def _take_staging_partition(self) -> int:
        """Return a new partition for staged transactions. Its row is written before any message in it."""
        services = self._services
        (partition_id,) = services.partition_ids.take(1)
        self._write_staging_rows(partition_id)
        services.planner.register(partition_id, floor=1, next_sequence_reserved=1)
        return partition_id

    def _write_staging_rows(self, partition_id: int) -> None:
        services, prefix = self._services, self.space.row_prefix
        rows = [staging_row(partition_id).under(prefix), staging_owner_row(partition_id).under(prefix)]
        services.spool.inbox.post(WriteTables([*rows, services.partition_ids.row()], None, 0, until_done=True))

    def _spawn_sessions(self) -> ActorCell:
        services = self._services
        return self._spawn(
            "sessions",
            lambda cell: LoopActor(
                cell,
                SessionDirectory(
                    cell,
                    space=self.space,
                    router=self.router,
                    queues=self.queues,
                    spool=services.spool.inbox,
                    clients=self.clients,
                    selectors=self.selectors,
                    network=self.network_clients,
                    is_retired=services.environment.is_retired,
                ),
            ),
            name="mqtt-sessions",
        )

    def _spawn_publishers(self) -> ActorCell:
        services, flow = self._services, self._services.config.flow
        publishers = self._spawn(
            "publishers",
            lambda cell: PublisherDirectory(
                cell,
                spool=services.spool.inbox,
                row_prefix=self.space.row_prefix,
                publishers_max=flow.publishers_max,
                remembered_ms=flow.publishers_remembered_s * 1000,
                incarnation=services.recovered.incarnation,
                is_retired=services.environment.is_retired,
            ),
            name="flow-publishers",
        )
        shared, directory = self.clients.quota.shared, publishers.actor
        if shared is not None:
            assert isinstance(directory, PublisherDirectory)
            directory.shared = shared.publishers
        return publishers

    def _make_http_flows(self) -> HttpFlows:
        services = self._services
        cell = self._spawn("flows", SupervisorActor, name="http-flows")
        siblings = services.environment.siblings
        broker = 0 if siblings is None else siblings.number
        flows = HttpFlows(services.runtime, parent=cell, queues=self.queues, credit=services.credit, broker=broker)
        shared = self.clients.quota.shared
        if shared is not None:
            flows.shared = shared.http_flows
        return flows

    def _spawn(self, kind: str, factory: Callable[[ActorCell], LoopActor], *, name: str = "") -> ActorCell:
        """Start a vital actor of the VPN: the node fails with it. Its name is its kind, unless given."""
        runtime = self._services.runtime
        return runtime.spawn(factory, kind=kind, name=name or kind, policy=VITAL, parent=self.cell)

    def _publisher_at(self, address: Address) -> Publisher:
        """Return a publisher whose confirmations go to an address that outlives connections."""
        services = self._services
        return Publisher(space=self.space, spool=services.spool.inbox, address=address, rng=services.runtime.rng)
