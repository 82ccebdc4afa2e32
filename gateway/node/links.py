"""The links of a node to other brokers: configured at the start and with each reload, and stopped with the node."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from sluicegate.actors.runtime.actor import SupervisorActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, Role
from sluicegate.actors.runtime.supervision import ONE_CONNECTION, VITAL
from sluicegate.actors.runtime.ticker import Ticker
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.config.findings import changed, described
from sluicegate.gateway.config.sections.links import Link, NamedLink
from sluicegate.gateway.config.settings.links import link_settings
from sluicegate.gateway.node.link_queues import LinkQueues
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.siblings import connect_to_sibling
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.provisioning.store import CONFIGURATION, OPERATOR, ProvisionedObjects, kind_of_sections
from sluicegate.gateway.views.errors import LinkAlreadyExists, LinkNotFound, Refused, VpnNotFound
from sluicegate.gateway.views.links import LinksView, LinkView, link_view, missing_links
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.flow.codec.frames.link import Link as Greeting
from sluicegate.protocols.mqtt.session.other_servers import KEPT, OtherServer
from sluicegate.protocols.network.dialing.dialed import DialedConnection
from sluicegate.protocols.network.dialing.dialing import dial
from sluicegate.protocols.network.link.links import Links
from sluicegate.protocols.network.link.neighbor import Neighbor
from sluicegate.protocols.network.link.settings import LinkSettings
from sluicegate.protocols.network.link.vpn_link import LinkedVpn
from sluicegate.protocols.network.moves.moves import VpnMoves
from sluicegate.protocols.network.queues.questions import SESSION, Answerer

TICK_MS: Final = 500  # between checks of time limits, as protocol servers have

log = logging.getLogger("sluicegate.network")


LINKS: Final = kind_of_sections(
    NamedLink,
    row_key=b"link/",
    count_max=100,  # each is a connection, and a copy of what the neighbor wants
    not_found=LinkNotFound,
    already_exists=LinkAlreadyExists,
)


class NodeLinks:
    """The links of one node: configured ones, and those that operators created. Without one it does nothing."""

    def __init__(self, services: NodeServices, message_vpns: Mapping[str, MessageVpn]) -> None:
        self._services = services
        self._message_vpns = message_vpns  # the node's: it changes while the node runs
        self.counters = ProtocolCounters()  # of the connections that this node makes
        runtime = services.runtime
        self._cell = runtime.spawn(SupervisorActor, kind="links", name="links", policy=VITAL, parent=services.root)
        self._dialed = runtime.spawn(
            SupervisorActor, kind="connections", name="dialed-links", policy=VITAL, parent=services.root
        )
        self._queues = LinkQueues(services, message_vpns, self._cell.inbox)
        self._queues.answerer.allows = self._allows_actions
        self._queues.answerer.sessions = self._session_here
        self._settings: dict[str, LinkSettings] = {}
        self._errors: dict[str, str] = {}  # why an enabled link does not run, by the name of its neighbor
        self._ticker = Ticker(runtime.clock.now_ns, runtime.after, TICK_MS, self.tick)
        self._dials_count = 0
        self._is_stopped = False
        config = services.config
        self._is_named = config.node.is_named()
        self._siblings = services.environment.siblings
        default = message_vpns[DEFAULT_VPN]
        catalog = services.recovered.stored(DEFAULT_VPN).catalog
        self._provisioned = ProvisionedObjects(LINKS, default.access, catalog, self._configured)
        self.links = Links(
            self._cell,
            runtime.events,
            broker=config.node.name,
            network=config.node.network,
            incarnation=services.recovered.incarnation,
            vpn=self._vpn,
            dial=self._dial,
        )
        for vpn in message_vpns.values():
            vpn.ways.awaits_links = bool(self._enabled())

    # --- for operators ---

    @property
    def answerer(self) -> Answerer:
        """Who answers neighbors that ask about queues here."""
        return self._queues.answerer

    def _allows_actions(self, neighbor: str) -> bool:
        """Return whether operators of a neighbor may change queues here."""
        link = self._definitions().get(neighbor)
        return link is None or link.allow_operator_actions

    def moves(self, vpn: MessageVpn) -> VpnMoves:
        """Return the moves of queues of a message VPN to other brokers, and from them."""
        return self._queues.moves(vpn)

    def all_moves(self) -> dict[str, VpnMoves]:
        """Return the moves of each message VPN that has links, by its name."""
        return self._queues.all_moves()

    def view(self) -> LinksView:
        """Return the view of all links."""
        views = [self._view(name, link) for name, link in sorted(self._definitions().items())]
        missing = missing_links(self.links.meshes.values())
        return LinksView(self.links.broker, self.links.network, dict(self.links.refused.counts), views, missing)

    def link_view(self, name: str) -> LinkView:
        """Return the view of one link. Raises LinkNotFound."""
        link = self._definitions().get(name)
        if link is None:
            raise LinkNotFound(name)
        return self._view(name, link)

    async def create(self, asked: Mapping[str, object]) -> str:
        """Create a link; return its name. Raises LinkAlreadyExists, QueueInvalid and Refused."""
        link = described(NamedLink, asked)
        await self._provisioned.change(self._create(link))
        return link.name

    async def update(self, name: str, changes: Mapping[str, object]) -> None:
        """Change a link, which begins anew. Raises LinkNotFound, QueueInvalid and Refused."""
        await self._provisioned.change(self._update(name, changes))

    async def delete(self, name: str) -> None:
        """Delete a link. Raises LinkNotFound and Refused."""
        await self._provisioned.change(self._delete(name))

    async def _create(self, link: NamedLink) -> None:
        if not self._is_named:
            raise Refused(
                "this broker has no name of its own: set node.name, which is unique in the network, and restart"
            )
        if link.name == self.links.broker:
            raise QueueInvalid("name", "that is this broker itself", "the name of another broker")
        self._provisioned.check_new(link.name)
        await self._keep(link)

    async def _update(self, name: str, changes: Mapping[str, object]) -> None:
        await self._keep(changed(self._provisioned.changeable(name), changes))

    async def _delete(self, name: str) -> None:
        self._provisioned.changeable(name)
        await self._provisioned.put(name, None)
        self.configure()

    async def _keep(self, link: NamedLink) -> None:
        try:
            link_settings(link.name, link, broker=self.links.broker)
        except (OSError, ValueError) as error:
            raise Refused(f"a file that it names cannot be used: {error}") from None
        await self._provisioned.put(link.name, link)
        await self.prepare()
        self.configure()

    def _configured(self) -> dict[str, Link]:
        return self._services.config.links

    def _definitions(self) -> dict[str, Link]:
        return {**self._provisioned.objects, **self._configured(), **self._to_siblings()}

    def _to_siblings(self) -> dict[str, Link]:
        """Return the links to the other brokers of this machine: each has all message VPNs."""
        if self._siblings is None:
            return {}
        link = Link(vpns={name: name for name in self._message_vpns})
        return dict.fromkeys(self._siblings.others, link)

    def _settings_of(self, name: str, link: Link) -> LinkSettings:
        """Return the settings of a link. Raises OSError and ValueError for a file that cannot be used."""
        settings = link_settings(name, link, broker=self.links.broker)
        if self._siblings is not None and name in self._siblings.others:
            rules = ExportRules(to_sibling=True)
            return replace(settings, dials_sibling=self._siblings.dials(name), export=rules)
        return settings

    def _view(self, name: str, link: Link) -> LinkView:
        named = link if isinstance(link, NamedLink) else NamedLink.of(name, link)
        origin = OPERATOR if link is self._provisioned.objects.get(name) else CONFIGURATION
        return link_view(named, self.links.neighbors.get(name), origin=origin, reason=self._errors.get(name, ""))

    async def forget(self, name: str, *, vpn: str = "", force: bool) -> None:
        """Delete all that is kept for a neighbor, or in one message VPN that the link to it does not have.

        Raises LinkNotFound, VpnNotFound and Refused.
        """
        if vpn and vpn not in self._message_vpns:
            raise VpnNotFound(vpn)
        link = self._definitions().get(name)
        if link is not None and link.enabled and (not vpn or vpn in link.vpns):
            where = f" in message VPN {vpn}: take it out of vpns" if vpn else ": delete it"
            raise Refused(f"there is a link to {name}{where}, or set enabled=false, and then forget the neighbor")
        vpns = [vpn] if vpn else list(self._message_vpns)
        if link is None and not self._queues.knows(name, vpns):
            raise LinkNotFound(name)
        await self._queues.forget(name, vpns, force=force)

    async def waiting_for(self, name: str) -> int:
        """Return how many messages wait for a neighbor, in all message VPNs."""
        return await self._queues.waiting_for(name)

    def overruns(self) -> dict[str, int]:
        """Return how many messages of neighbors queues took beyond their limits, by message VPN."""
        return self._queues.overruns()

    # --- start, reload, stop ---

    def configure(self) -> None:
        """Put the configuration in force. Links whose files cannot be read do not run; their neighbors stay known."""
        if self._is_stopped:
            return
        self._errors.clear()
        settings: dict[str, LinkSettings] = {}
        enabled = self._enabled()
        for name, link in enabled.items():
            try:
                settings[name] = self._settings_of(name, link)
            except (OSError, ValueError) as error:
                self._errors[name] = str(error)
                log.error("there is no link to %s: %s", name, error)
        self._settings = settings
        self._queues.expect_only(enabled)
        self._configure_links()
        if settings:
            self._ticker.start()
        else:
            self._ticker.stop()
            self.links.check_mesh(self._services.clock.now_ms())  # without neighbors no link is missing

    def stop(self) -> None:
        """End all links: the node stops."""
        self._is_stopped = True
        self._ticker.stop()
        self.links.stop("the broker stops")
        self._queues.expect(self._enabled())  # clients are there a moment longer

    def tick(self, stall_ms: int = 0) -> None:
        """Check time limits of connections, deletions that are too old, and which message VPNs there are.

        Time limits do not count the time for which the event loop has stood still.
        """
        now_ms = self._services.clock.now_ms()
        for cell in list(self._dialed.children or ()):
            if not cell.is_stopped():
                connection: DialedConnection = cell.behaviour
                try:
                    if stall_ms:
                        connection.stalled(stall_ms, now_ms)
                    connection.tick(now_ms)
                except Exception as error:  # it costs this connection only, not the others
                    cell.failed(error)
        self.links.check_mesh(now_ms)
        for vpn in self._message_vpns.values():
            vpn.forget_deletions()
            vpn.store_retained_again()
        if self._lacks_queues():
            runtime = self._services.runtime
            runtime.keep(runtime.loop.create_task(self._prepare_and_configure()))
        self._configure_links()

    def _configure_links(self) -> None:
        """Run the links of message VPNs that are up, and store for the neighbors of the others."""
        self.links.configure(self._settings)
        self._queues.expect(self._enabled())
        self._name_servers()

    def _name_servers(self) -> None:
        """Have MQTT clients sent to those neighbors whose links say where clients connect to them."""
        referring = {name: link for name, link in self._enabled().items() if link.server_reference}
        for vpn in self._message_vpns.values():
            vpn.other_servers.neighbors = [
                OtherServer(link.server_reference, partial(self._ask_for_session, name, vpn.name))
                for name, link in referring.items()
                if vpn.name in link.vpns
            ]

    def _ask_for_session(self, name: str, vpn: str, client_id: str, user: str) -> LoopFuture[str] | None:
        """Ask a neighbor whether it keeps a session of MQTT; None: there is no link to it now."""
        neighbor = self.links.neighbors.get(name)
        for each in () if neighbor is None or not neighbor.is_up else neighbor.vpns:
            if each.vpn.name == vpn:
                return each.questions.ask(SESSION, [client_id, user])
        return None

    def _session_here(self, vpn: str, client_id: str, user: str) -> str:
        """Return what a neighbor is told that asks so: nothing while no client could have its session here.

        Else a broker that has moved and the neighbor would send the client to each other for ever.
        """
        found = self._message_vpns.get(vpn)
        if found is None or not found.is_up or self._services.config.mqtt.server_moved:
            return ""
        return KEPT if found.session_directory().keeps(client_id, user) else ""

    def _lacks_queues(self) -> bool:
        """Return whether a message VPN of a link has come, or a queue could not be made before."""
        if self._queues.is_busy or self._is_stopped:
            return False
        return self._queues.has_failed or any(
            self._queues.is_missing(here, name)
            for name, settings in self._settings.items()
            for here, _ in settings.vpns
        )

    async def restore(self) -> None:
        """Store what is published for neighbors that are known, before anything is: links begin with `configure`."""
        await self.prepare()
        self._queues.expect(self._enabled())
        for vpn in self._message_vpns.values():
            vpn.ways.awaits_links = False

    async def prepare(self) -> None:
        """Make the queues of enabled links, or change them as configured. A message VPN without is not linked."""
        await self._queues.make(self._enabled())

    def _enabled(self) -> dict[str, Link]:
        return {name: link for name, link in self._definitions().items() if link.enabled}

    async def vpn_changed(self) -> None:
        """A message VPN was created or changed: link it, and give the queues of its links their shares."""
        if self._enabled() and not self._is_stopped:
            await self._prepare_and_configure()

    async def _prepare_and_configure(self) -> None:
        await self.prepare()
        self.configure()

    def _vpn(self, name: str, neighbor: str) -> LinkedVpn | None:
        """Return a message VPN that is up, and has a queue for a neighbor."""
        vpn = self._message_vpns.get(name)
        if vpn is None or not vpn.is_up:
            return None
        return self._queues.linked(vpn, neighbor)

    def _dial(self, neighbor: Neighbor, greeting: Greeting) -> None:
        runtime = self._services.runtime
        self._dials_count += 1
        product = f"sluicegate {VERSION}"

        def make(cell: ActorCell) -> DialedConnection:
            return DialedConnection(cell, self.links, neighbor, greeting, product, self.counters)

        role = Role("connection", f"to-{neighbor.name}", ONE_CONNECTION, make, self._dialed, is_shared=False)
        cell = runtime.spawn_as(role, self._dials_count)
        connection: DialedConnection = cell.behaviour
        if neighbor.settings.dials_sibling:
            assert self._siblings is not None, "one of them is the neighbor"
            connect_to_sibling(connection, self._siblings, neighbor.name)
        else:
            begin = self._services.environment.dialed
            attempt = neighbor.counts.dials - 1
            runtime.keep(runtime.loop.create_task(dial(connection, neighbor.settings, begin, attempt=attempt)))
