"""Operations on bridges and REST delivery points, at the broker where each runs."""

from collections.abc import Mapping, Sequence

from sluicegate.gateway.machine.operations.rules import AskedBroker, Rules, least_used
from sluicegate.gateway.views.bridges import BridgeView
from sluicegate.gateway.views.rest import RestDeliveryPointView


class BridgeOperations(Rules):
    """Carries out operations on bridges and REST delivery points, each of which runs at one broker."""

    async def list_rest_delivery_points(self) -> Sequence[RestDeliveryPointView]:
        """Return every delivery point by name."""
        return sorted(await self._joined("list_rest_delivery_points"), key=lambda each: str(each.name))

    async def show_rest_delivery_point(self, name: str) -> RestDeliveryPointView:
        """Return one delivery point."""
        view: RestDeliveryPointView = await self._at_home("show_rest_delivery_point", name)
        return view

    async def create_rest_delivery_point(self, asked: Mapping[str, object]) -> RestDeliveryPointView:
        """Create and start a delivery point, at the broker that has the fewest."""
        broker = await self._with_fewest("list_rest_delivery_points", asked.get("name"), "show_rest_delivery_point")
        view: RestDeliveryPointView = await self._at(broker, "create_rest_delivery_point", asked)
        return view

    async def update_rest_delivery_point(self, name: str, changes: Mapping[str, object]) -> RestDeliveryPointView:
        """Change a delivery point that operators created."""
        view: RestDeliveryPointView = await self._at_home("update_rest_delivery_point", name, changes)
        return view

    async def delete_rest_delivery_point(self, name: str) -> None:
        """Delete a delivery point that operators created."""
        await self._at_home("delete_rest_delivery_point", name)

    async def list_bridges(self) -> Sequence[BridgeView]:
        """Return every bridge by name."""
        return sorted(await self._joined("list_bridges"), key=lambda each: str(each.name))

    async def show_bridge(self, name: str) -> BridgeView:
        """Return one bridge."""
        view: BridgeView = await self._at_home("show_bridge", name)
        return view

    async def create_bridge(self, asked: Mapping[str, object]) -> BridgeView:
        """Create and start a bridge, at the broker that has the fewest."""
        broker = await self._with_fewest("list_bridges", asked.get("name"), "show_bridge")
        view: BridgeView = await self._at(broker, "create_bridge", asked)
        return view

    async def _with_fewest(self, listing: str, name: object, show: str) -> AskedBroker:
        """Return the broker with the fewest objects of a kind; the one that has an object of the name, if one has."""
        answers = await self._all(listing)
        for broker, views in answers:
            if any(each.name == name for each in views):
                return broker  # which refuses another one
        return least_used(answers)

    async def update_bridge(self, name: str, changes: Mapping[str, object]) -> BridgeView:
        """Change a bridge that operators created."""
        view: BridgeView = await self._at_home("update_bridge", name, changes)
        return view

    async def delete_bridge(self, name: str) -> None:
        """Delete a bridge that operators created."""
        await self._at_home("delete_bridge", name)

    async def pause_bridge(self, name: str) -> BridgeView:
        """Disconnect a bridge until it is resumed, or the node restarts."""
        view: BridgeView = await self._at_home("pause_bridge", name)
        return view

    async def resume_bridge(self, name: str) -> BridgeView:
        """Connect a bridge that is paused, waits, or has given up."""
        view: BridgeView = await self._at_home("resume_bridge", name)
        return view
