"""REST delivery points that operators make while the node runs: checked like those of a file, kept in the catalog."""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

import orjson
from pydantic import ValidationError

from gateway.config.findings import finding_of
from gateway.config.rest_delivery_points import RestDeliveryPoint
from messaging.queue_config import QueueInvalid
from storage.interface import Table, TableWrite

POINT_ROW: Final = b"rest-delivery-point/"
POINTS_MAX: Final = 1000  # that are made; each has connections and flows of its own

log = logging.getLogger("sluicegate.rest")


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


def point_row(name: str, point: RestDeliveryPoint | None) -> TableWrite:
    """Return the row that keeps a point, or with None the one that deletes it."""
    value = None if point is None else orjson.dumps(point_to_dict(point))
    return TableWrite(Table.CATALOG, POINT_ROW + name.encode(), value)


def stored_points(catalog: Mapping[bytes, bytes]) -> Iterator[RestDeliveryPoint]:
    """Yield every point in the catalog; one that this release cannot read stays there, and is told of."""
    for key, value in catalog.items():
        if key.startswith(POINT_ROW):
            try:
                yield point_from_dict(orjson.loads(value))
            except QueueInvalid as problem:
                log.error("REST delivery point %r of the store is left out: %s", key.decode(), problem)
