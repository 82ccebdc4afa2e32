"""The bridges of a message VPN, configured or created by operators: started, paused, stopped, shown.

Those that operators create are checked like those of a file, and stored in the catalog.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from sluicegate.actors.runtime.actor import SupervisorActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import VITAL
from sluicegate.gateway.config.findings import Finding, changed, described
from sluicegate.gateway.config.sections.message_vpns.bridges import NODE_NAME_MISSING, Bridge
from sluicegate.gateway.config.settings.bridge_conflicts import conflicts
from sluicegate.gateway.config.settings.bridges import client_id_of, refused_rules, settings_of
from sluicegate.gateway.provisioning.bridge_sessions import BridgeSessions
from sluicegate.gateway.provisioning.handover import Handed, Handover
from sluicegate.gateway.provisioning.store import (
    CONFIGURATION,
    OPERATOR,
    ProvisionedObjects,
    VpnAccess,
    kind_of_sections,
)
from sluicegate.gateway.views.bridges import BridgeView, bridge_view
from sluicegate.gateway.views.errors import BridgeAlreadyExists, BridgeNotFound, Refused
from sluicegate.messaging.observability.events import VPN_BRIDGE_DOWN, as_word
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.protocols.bridges.bridge import Bridge as RunningBridge
from sluicegate.protocols.bridges.bridge import State
from sluicegate.protocols.bridges.remote import Opened
from sluicegate.protocols.bridges.remotes.choice import make_remote
from sluicegate.protocols.bridges.rules import BridgeServices, RuleCounters
from sluicegate.protocols.bridges.settings import BridgeSettings
from sluicegate.storage.catalog.recovered import StoredVpn

BRIDGES: Final = kind_of_sections(
    Bridge,
    row_key=b"bridge/",
    count_max=100,  # each has a thread and a connection of its own
    not_found=BridgeNotFound,
    already_exists=BridgeAlreadyExists,
)


log = logging.getLogger("sluicegate.bridges")


class Bridges:
    """The bridges of one message VPN: configured ones, and those that operators created."""

    def __init__(
        self,
        vpn: VpnAccess,
        stored: StoredVpn,
        *,
        node: str,
        name: str,
        is_named: Callable[[], bool],
        services: BridgeServices,
        parent: ActorCell,
    ) -> None:
        """`node` and `name` are those of the broker and of the message VPN.

        `is_named` returns whether `node` is a name that the configuration gives, and so no default of all brokers.
        """
        self._vpn = vpn
        self._node = node
        self._name = name
        self._is_named = is_named
        self._services = services
        self._cell = services.runtime.spawn(
            SupervisorActor, kind="bridges", name="bridges", policy=VITAL, parent=parent
        )
        self.running: dict[str, RunningBridge] = {}
        self.counters: dict[str, dict[tuple[str, str], RuleCounters]] = {}  # by bridge; then by direction and rule
        self._provisioned = ProvisionedObjects(BRIDGES, vpn, stored.catalog, self._configured)
        self._sessions = BridgeSessions(vpn, stored.catalog)
        self.handover: Final = Handover(
            self._provisioned, Bridge, follow=self._follow_handed, packed=self._packed, unpack=self._unpack
        )
        self._reasons: dict[str, str] = {}  # why an enabled bridge does not run, by its name
        self._paused: set[str] = set()  # until an operator resumes them, or a restart
        self._is_stopped = False  # the node stops: no bridge starts any more

    async def start(self) -> None:
        """Start the bridges that are defined and enabled, stop the others, and restart those that changed."""
        await self._provisioned.change(self._follow_all())

    async def stop(self) -> None:
        """Stop all bridges for good."""
        await self._provisioned.change(self._stop())

    def views(self) -> list[BridgeView]:
        """Return the view of every bridge, by name."""
        return [self._view(definition) for _, definition in sorted(self._definitions().items())]

    def wanted(self) -> list[str]:
        """Return the names of the bridges that are to run, whether they do or not."""
        return [
            name
            for name, definition in self._definitions().items()
            if self._is_wanted(definition) and not self._provisioned.goes_to(name)
        ]

    def view(self, name: str) -> BridgeView:
        """Return the view of a bridge. Raises BridgeNotFound."""
        return self._view(self._definition(name))

    async def create(self, asked: Mapping[str, object]) -> str:
        """Create a bridge; return its name. Raises BridgeAlreadyExists, QueueInvalid and Refused."""
        bridge = described(Bridge, asked)
        await self._provisioned.change(self._create(bridge))
        return bridge.name

    async def update(self, name: str, changes: Mapping[str, object]) -> None:
        """Change and restart a bridge. Raises BridgeNotFound, QueueInvalid and Refused."""
        await self._provisioned.change(self._update(name, changes))

    async def delete(self, name: str) -> None:
        """Delete a bridge; unsettled messages return to their queues. Raises BridgeNotFound and Refused."""
        await self._provisioned.change(self._delete(name))

    async def pause(self, name: str) -> None:
        """Disconnect a bridge, configured or not, until `resume` or a restart. Raises BridgeNotFound and Refused."""
        await self._provisioned.change(self._pause(name))

    async def resume(self, name: str) -> None:
        """Connect a bridge that is paused, waits, or has given up. Raises BridgeNotFound and Refused."""
        await self._provisioned.change(self._resume(name))

    def _packed(self, bridge: Bridge) -> Handed:
        """Return a bridge for another broker: with the name by which the foreign broker knows it, and its session."""
        name = bridge.name
        client_id = bridge.client_id or client_id_of(self._node, self._name, name)
        definition = bridge.to_dict() | {"client_id": client_id}
        return Handed(name, definition, self._sessions.row(name), is_paused=name in self._paused)

    async def _unpack(self, handed: Handed) -> None:
        if handed.session is not None:
            await self._sessions.adopt(handed.name, handed.session)
        if handed.is_paused:
            self._paused.add(handed.name)

    async def _follow_handed(self, name: str) -> None:
        await self._follow(name)
        if name not in self._definitions():
            self.counters.pop(name, None)

    async def _create(self, bridge: Bridge) -> None:
        self._provisioned.check_new(bridge.name)
        await self._keep(bridge)

    async def _update(self, name: str, changes: Mapping[str, object]) -> None:
        await self._keep(changed(self._provisioned.changeable(name), changes))

    async def _delete(self, name: str) -> None:
        self._provisioned.changeable(name)
        await self._provisioned.put(name, None)
        await self._follow(name)
        self.counters.pop(name, None)

    async def _pause(self, name: str) -> None:
        bridge = self._running(name)
        self._paused.add(name)
        await bridge.pause()

    async def _resume(self, name: str) -> None:
        bridge = self._running(name)
        self._paused.discard(name)
        if bridge.state is State.PAUSED:
            bridge.start()
        else:
            bridge.connect_now()

    def _running(self, name: str) -> RunningBridge:
        self._definition(name)
        bridge = self.running.get(name)
        if bridge is None:
            raise Refused(f"bridge {name!r} does not run: {self._reasons.get(name) or 'it is disabled'}")
        return bridge

    async def _stop(self) -> None:
        self._is_stopped = True
        await _all([bridge.stop() for bridge in self.running.values()])
        self.running.clear()

    def _definition(self, name: str) -> Bridge:
        definition = self._definitions().get(name)
        if definition is None:
            raise BridgeNotFound(name)
        return definition

    def _view(self, definition: Bridge) -> BridgeView:
        name = definition.name
        return bridge_view(
            definition,
            self.running.get(name),
            self.counters.get(name, {}),
            origin=OPERATOR if definition is self._provisioned.objects.get(name) else CONFIGURATION,
            reason=self._reasons.get(name, ""),
        )

    def _configured(self) -> dict[str, Bridge]:
        return {each.name: each for each in self._vpn.config.bridges}

    def _definitions(self) -> dict[str, Bridge]:
        return self._provisioned.objects | self._configured()

    async def _keep(self, bridge: Bridge) -> None:
        if not self._is_named():
            raise Refused(f"{NODE_NAME_MISSING}; set it, and restart")
        for finding in (*refused_rules(bridge), *self._conflicts(bridge)):
            raise QueueInvalid(finding.field, finding.reason, finding.allowed)
        try:
            settings = await self._read(bridge)
        except ValueError as error:
            raise Refused(f"a file that it names cannot be used: {error}") from None
        await self._provisioned.put(bridge.name, bridge)
        await self._follow(bridge.name, settings)

    def _conflicts(self, bridge: Bridge) -> Iterator[Finding]:
        others = [each for name, each in self._definitions().items() if name != bridge.name]
        queues = [queue.config for queue in self._vpn.config.queues.declared]
        return conflicts(bridge, others, queues, node=self._node, vpn=self._name)

    async def _read(self, definition: Bridge) -> BridgeSettings:
        """Return the settings of a definition; a thread reads its files. Raises ValueError."""
        return await asyncio.to_thread(settings_of, definition, node=self._node, vpn=self._name)

    async def _follow_all(self) -> None:
        names = dict.fromkeys([*self.running, *self._definitions()])
        await _all([self._follow(name) for name in names])

    async def _follow(self, name: str, settings: BridgeSettings | None = None) -> None:
        """Run a bridge by its present definition, whose settings may have been read; stop it if it is not to run.

        One whose settings cannot be used, such as while a certificate is being replaced, goes on with those it has.
        """
        self._reasons.pop(name, None)
        definition = self._definitions().get(name)
        if definition is None:
            self._paused.discard(name)
        if to := self._provisioned.goes_to(name):
            self._reasons[name] = f"moves to broker {to}"
        if definition is None or to or not self._is_wanted(definition):
            await self._end(name)
            return
        try:
            await self._run(definition, settings)
        except ValueError as error:
            self._fail(name, str(error))

    async def _run(self, definition: Bridge, settings: BridgeSettings | None) -> None:
        """Run a bridge by this definition. Raises ValueError if it cannot be used."""
        name = definition.name
        if not self._is_named():
            raise ValueError(f"{NODE_NAME_MISSING}; set it, and restart")
        for finding in refused_rules(definition):  # of an earlier release
            raise ValueError(f"{finding.field}: {finding}")
        wanted = settings or await self._read(definition)
        running = self.running.get(name)
        if running is not None and running.settings == wanted:
            return
        await self._end(name)
        stale = await self._sessions.before_connecting(wanted, self._definitions().keys())
        wanted = replace(wanted, remote=replace(wanted.remote, stale_filters=stale))
        made = self.running[name] = self._made(wanted)
        if name in self._paused:
            made.stay_paused()
        else:
            made.start()

    async def _end(self, name: str) -> None:
        bridge = self.running.pop(name, None)
        if bridge is not None:
            await bridge.stop()

    def _made(self, settings: BridgeSettings) -> RunningBridge:
        counters = self.counters.setdefault(settings.name, {})
        return RunningBridge(
            settings,
            self._services,
            parent=self._cell,
            make_remote=make_remote,
            counters=counters,
            on_opened=lambda opened: self._opened(settings, opened),
        )

    def _opened(self, settings: BridgeSettings, opened: Opened) -> None:
        runtime = self._services.runtime
        runtime.keep(runtime.loop.create_task(self._sessions.after_connecting(settings, opened)))

    def _is_wanted(self, definition: Bridge) -> bool:
        return definition.enabled and self._vpn.is_up and not self._is_stopped

    def _fail(self, name: str, reason: str) -> None:
        is_running = name in self.running
        consequence = "goes on with the settings it has" if is_running else "does not start"
        self._reasons[name] = f"{consequence}: {reason}" if is_running else reason
        log.error("bridge %r %s: %s", name, consequence, reason)
        if not is_running:
            self._services.events.emit(VPN_BRIDGE_DOWN, f"bridge {as_word(name)} {consequence}: {reason}")


async def _all(work: list[Coroutine[Any, Any, None]]) -> None:
    """Wait until all of it is done; then raise what the first that failed has raised."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
