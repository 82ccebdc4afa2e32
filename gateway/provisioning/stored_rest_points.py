"""REST delivery points that operators make while the node runs: checked like those of a file, kept in the catalog."""

from typing import Final

from sluicegate.gateway.config.sections.rest_delivery_points import RestDeliveryPoint
from sluicegate.gateway.provisioning.store import kind_of_sections
from sluicegate.gateway.views.errors import RestDeliveryPointAlreadyExists, RestDeliveryPointNotFound

POINTS: Final = kind_of_sections(
    RestDeliveryPoint,
    row_key=b"rest-delivery-point/",
    count_max=1000,  # each has connections and flows of its own
    not_found=RestDeliveryPointNotFound,
    already_exists=RestDeliveryPointAlreadyExists,
)
