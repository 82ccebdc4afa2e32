"""The REST delivery points of a message VPN, configured or created by operators: started, stopped, shown.

Those that operators create are checked like those of a file, and stored in the catalog.
"""

import logging
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final

from sluicegate.actors.runtime.actor import SupervisorActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import VITAL
from sluicegate.gateway.config.findings import changed, described
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoint
from sluicegate.gateway.config.settings.rest_delivery_points import (
    ALLOWED_HOSTS,
    refused_hosts,
    reserved_headers,
    settings_of,
)
from sluicegate.gateway.provisioning.handover import Handed, Handover
from sluicegate.gateway.provisioning.store import (
    CONFIGURATION,
    OPERATOR,
    ProvisionedObjects,
    VpnAccess,
    kind_of_sections,
)
from sluicegate.gateway.views.errors import Refused, RestDeliveryPointAlreadyExists, RestDeliveryPointNotFound
from sluicegate.gateway.views.rest import RestDeliveryPointView, point_view
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.protocols.rest.allowed_targets import AllowedTargets
from sluicegate.protocols.rest.point import RestDeliveryPoint as RunningPoint
from sluicegate.protocols.rest.point import RestServices
from sluicegate.protocols.rest.settings import PointSettings
from sluicegate.storage.catalog.recovered import StoredVpn

POINTS: Final = kind_of_sections(
    RestDeliveryPoint,
    row_key=b"rest-delivery-point/",
    count_max=1000,  # each has connections and flows of its own
    not_found=RestDeliveryPointNotFound,
    already_exists=RestDeliveryPointAlreadyExists,
)


log = logging.getLogger("sluicegate.rest")


class RestPoints:
    """The delivery points of one message VPN: configured ones, and those that operators created."""

    def __init__(
        self,
        vpn: VpnAccess,
        stored: StoredVpn,
        *,
        services: RestServices,
        parent: ActorCell,
        targets: Callable[[], AllowedTargets],
    ) -> None:
        """`targets` returns the hosts that points may send to, by the present configuration."""
        self._vpn = vpn
        self._services = services
        self._targets = targets
        self._cell = services.runtime.spawn(
            SupervisorActor, kind="rest-delivery-points", name="rest", policy=VITAL, parent=parent
        )
        self.running: dict[str, RunningPoint] = {}
        self._provisioned = ProvisionedObjects(POINTS, vpn, stored.catalog, self._configured)
        self.handover: Final = Handover(
            self._provisioned, RestDeliveryPoint, follow=self._follow, packed=_packed, unpack=_unpack
        )
        self._reasons: dict[str, str] = {}  # why an enabled point does not run, by its name
        self._is_stopped = False  # the node stops: no point starts any more

    async def start(self) -> None:
        """Start the points that are defined and enabled, stop the others, and restart those that changed."""
        await self._provisioned.change(self._follow_all())

    async def stop(self) -> None:
        """Stop all points for good."""
        await self._provisioned.change(self._stop())

    def views(self) -> list[RestDeliveryPointView]:
        """Return the view of every point, by name."""
        return [self._view(definition) for _, definition in sorted(self._definitions().items())]

    def view(self, name: str) -> RestDeliveryPointView:
        """Return the view of a point. Raises RestDeliveryPointNotFound."""
        definition = self._definitions().get(name)
        if definition is None:
            raise RestDeliveryPointNotFound(name)
        return self._view(definition)

    async def create(self, asked: Mapping[str, object]) -> str:
        """Create a point; return its name. Raises RestDeliveryPointAlreadyExists, QueueInvalid and Refused."""
        point = described(RestDeliveryPoint, asked)
        await self._provisioned.change(self._create(point))
        return point.name

    async def update(self, name: str, changes: Mapping[str, object]) -> None:
        """Change and restart a point. Raises RestDeliveryPointNotFound, QueueInvalid and Refused."""
        await self._provisioned.change(self._update(name, changes))

    async def delete(self, name: str) -> None:
        """Delete a point; unsettled messages return to their queues. Raises RestDeliveryPointNotFound and Refused."""
        await self._provisioned.change(self._delete(name))

    async def _create(self, point: RestDeliveryPoint) -> None:
        self._provisioned.check_new(point.name)
        await self._keep(point)

    async def _update(self, name: str, changes: Mapping[str, object]) -> None:
        await self._keep(changed(self._provisioned.changeable(name), changes))

    async def _delete(self, name: str) -> None:
        self._provisioned.changeable(name)
        await self._provisioned.put(name, None)
        await self._follow(name)

    async def _stop(self) -> None:
        self._is_stopped = True
        for point in self.running.values():
            await point.stop()
        self.running.clear()

    def _view(self, definition: RestDeliveryPoint) -> RestDeliveryPointView:
        name = definition.name
        return point_view(
            definition,
            self.running.get(name),
            origin=OPERATOR if definition is self._provisioned.objects.get(name) else CONFIGURATION,
            reason=self._reasons.get(name, ""),
        )

    def _configured(self) -> dict[str, RestDeliveryPoint]:
        return {each.name: each for each in self._vpn.config.rest_delivery_points}

    def _definitions(self) -> dict[str, RestDeliveryPoint]:
        return self._provisioned.objects | self._configured()

    async def _keep(self, point: RestDeliveryPoint) -> None:
        targets = self._targets()
        for finding in chain(reserved_headers(point), refused_hosts(point, targets)):
            raise QueueInvalid(finding.field, finding.reason, finding.allowed or ALLOWED_HOSTS)
        try:
            settings_of(point, targets)
        except ValueError as error:
            raise Refused(f"a file that it names cannot be used: {error}") from None
        await self._provisioned.put(point.name, point)
        await self._follow(point.name)

    async def _follow_all(self) -> None:
        for name in dict.fromkeys([*self.running, *self._definitions()]):
            await self._follow(name)

    async def _follow(self, name: str) -> None:
        """Run a point by its present definition; stop it if it has none or is not to run."""
        wanted, point = self._settings(name), self.running.get(name)
        if point is not None and point.settings != wanted:
            del self.running[name]
            await point.stop()
            point.cell.stop()
        if wanted is not None and name not in self.running:
            cell = self._services.runtime.spawn(
                SupervisorActor, kind="rest-delivery-point", name=name, policy=VITAL, parent=self._cell
            )
            point = self.running[name] = RunningPoint(cell, wanted, self._services)
            point.start()

    def _settings(self, name: str) -> PointSettings | None:
        """Return the settings that a point is to run with; None if it is not to run."""
        self._reasons.pop(name, None)
        definition = self._definitions().get(name)
        if definition is None or not definition.enabled or not self._vpn.is_up or self._is_stopped:
            return None
        if to := self._provisioned.goes_to(name):
            self._reasons[name] = f"moves to broker {to}"
            return None
        try:
            return settings_of(definition, self._targets())
        except ValueError as error:  # it is of an earlier release, or a secret or certificate is gone
            self._reasons[name] = str(error)
            log.error("REST delivery point %r does not start: %s", name, error)
            return None


def _packed(point: RestDeliveryPoint) -> Handed:
    return Handed(point.name, point.to_dict())


async def _unpack(handed: Handed) -> None:
    """Do nothing: all there is to know of a delivery point is its definition."""
