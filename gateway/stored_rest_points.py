"""REST delivery points that operators make while the node runs: checked like those of a file, kept in the catalog."""

from collections.abc import Mapping
from typing import Final

import orjson
from pydantic import ValidationError

from gateway.config.findings import finding_of
from gateway.config.rest_delivery_points import RestDeliveryPoint
from gateway.made_objects import MadeKind
from gateway.ports import RestDeliveryPointAlreadyExists, RestDeliveryPointNotFound
from messaging.queue_config import QueueInvalid


def point_from_dict(values: Mapping[str, object]) -> RestDeliveryPoint:
    """Return the point that a body describes, with the keys of a configuration. Raises QueueInvalid."""
    try:
        return RestDeliveryPoint.model_validate(dict(values))
    except ValidationError as error:
        found = finding_of(RestDeliveryPoint, error.errors(include_url=False)[0])
        raise QueueInvalid(found.field, found.reason, found.allowed or "keys that go together") from None


def changed_point(point: RestDeliveryPoint, changes: Mapping[str, object]) -> RestDeliveryPoint:
    """Return a point with some of its keys changed; lists as a whole. Raises QueueInvalid."""
    if changes.get("name", point.name) != point.name:
        raise QueueInvalid("name", "a delivery point keeps its name", point.name)
    return point_from_dict({**point_to_dict(point), **changes})


def point_to_dict(point: RestDeliveryPoint) -> dict[str, object]:
    """Return a point as a body or a file describes it."""
    return point.model_dump(mode="json")


POINTS: Final = MadeKind(
    row_key=b"rest-delivery-point/",
    count_max=1000,  # each has connections and flows of its own
    written=lambda point: orjson.dumps(point_to_dict(point)),
    read=lambda row: point_from_dict(orjson.loads(row)),
    not_found=RestDeliveryPointNotFound,
    already_exists=RestDeliveryPointAlreadyExists,
)
