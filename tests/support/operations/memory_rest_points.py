"""The REST delivery points of a node in memory. They push nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluicegate.gateway.config.findings import changed, described
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoint
from sluicegate.gateway.views.errors import RestDeliveryPointAlreadyExists, RestDeliveryPointNotFound
from sluicegate.gateway.views.rest import QueueBindingView, RestConsumerView, RestDeliveryPointView

BILLING = described(
    RestDeliveryPoint,
    {
        "name": "billing",
        "queue_bindings": [{"queue": "orders", "post_request_target": "/in"}],
        "rest_consumers": [{"name": "erp", "remote_host": "erp"}],
    },
)


@dataclass
class MemoryRestPoints:
    """Delivery points in a dict, made by operators."""

    points: dict[str, RestDeliveryPoint] = field(default_factory=lambda: {"billing": BILLING})

    async def list_rest_delivery_points(self) -> Sequence[RestDeliveryPointView]:
        consumer = RestConsumerView("erp", "http://erp:8080", False, "connection refused", 0, 3, {"200": 4}, 0)
        binding = QueueBindingView("orders", "/in", True, "", {"accepted": 4})
        return [
            RestDeliveryPointView(
                name,
                "operator",
                point.enabled,
                False,
                "",
                point,
                *(([consumer], [binding]) if point.enabled else ([], [])),
            )
            for name, point in sorted(self.points.items())
        ]

    async def show_rest_delivery_point(self, name: str) -> RestDeliveryPointView:
        for view in await self.list_rest_delivery_points():
            if view.name == name:
                return view
        raise RestDeliveryPointNotFound(name)

    async def create_rest_delivery_point(self, asked: Mapping[str, object]) -> RestDeliveryPointView:
        point = described(RestDeliveryPoint, asked)
        if point.name in self.points:
            raise RestDeliveryPointAlreadyExists(point.name)
        self.points[point.name] = point
        return await self.show_rest_delivery_point(point.name)

    async def update_rest_delivery_point(self, name: str, changes: Mapping[str, object]) -> RestDeliveryPointView:
        await self.show_rest_delivery_point(name)
        self.points[name] = changed(self.points[name], changes)
        return await self.show_rest_delivery_point(name)

    async def delete_rest_delivery_point(self, name: str) -> None:
        await self.show_rest_delivery_point(name)
        del self.points[name]
