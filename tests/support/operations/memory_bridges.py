"""The bridges of a node in memory. They carry nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluicegate.gateway.config.findings import changed, described
from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge
from sluicegate.gateway.views.bridges import BridgeView, bridge_view
from sluicegate.gateway.views.errors import BridgeAlreadyExists, BridgeNotFound

TO_PLANT = described(
    Bridge,
    {
        "name": "plant",
        "remote_url": "mqtt://plant.example",
        "outgoing": [{"queue": "orders", "add_prefix": "hq/"}],
        "incoming": [{"remote_topic": "alarms/#"}],
    },
)


@dataclass
class MemoryBridges:
    """Bridges in a dict, made by operators."""

    made_bridges: dict[str, Bridge] = field(default_factory=lambda: {"plant": TO_PLANT})
    paused_bridges: set[str] = field(default_factory=set)

    async def list_bridges(self) -> Sequence[BridgeView]:
        views = []
        for name, bridge in sorted(self.made_bridges.items()):
            view = bridge_view(bridge, None, {}, origin="operator", reason="connection refused")
            state = "paused" if name in self.paused_bridges else "waiting"
            rules = [replace(each, messages=4, dropped={"unmapped": 1}) for each in view.rules]
            views.append(replace(view, state=state, rules=rules))
        return views

    async def show_bridge(self, name: str) -> BridgeView:
        for view in await self.list_bridges():
            if view.name == name:
                return view
        raise BridgeNotFound(name)

    async def create_bridge(self, asked: Mapping[str, object]) -> BridgeView:
        bridge = described(Bridge, asked)
        if bridge.name in self.made_bridges:
            raise BridgeAlreadyExists(bridge.name)
        self.made_bridges[bridge.name] = bridge
        return await self.show_bridge(bridge.name)

    async def update_bridge(self, name: str, changes: Mapping[str, object]) -> BridgeView:
        await self.show_bridge(name)
        self.made_bridges[name] = changed(self.made_bridges[name], changes)
        return await self.show_bridge(name)

    async def delete_bridge(self, name: str) -> None:
        await self.show_bridge(name)
        del self.made_bridges[name]

    async def pause_bridge(self, name: str) -> BridgeView:
        await self.show_bridge(name)
        self.paused_bridges.add(name)
        return await self.show_bridge(name)

    async def resume_bridge(self, name: str) -> BridgeView:
        await self.show_bridge(name)
        self.paused_bridges.discard(name)
        return await self.show_bridge(name)
