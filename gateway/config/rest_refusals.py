"""Settings of a REST delivery point that have the right form and are refused all the same.

They are checked when a point is configured or created, and again before a stored one runs: an earlier release may have
accepted it.
"""

from collections.abc import Iterator
from typing import Final

from sluicegate.gateway.config.findings import Finding
from sluicegate.gateway.config.sections.rest_delivery_points import RestDeliveryPoint
from sluicegate.protocols.rest.allowed_targets import SETTING, AllowedTargets
from sluicegate.protocols.rest.header_names import HEADERS_ALLOWED, is_reserved

ALLOWED_HOSTS: Final = f"hosts that `{SETTING}` allows"


def reserved_headers(point: RestDeliveryPoint) -> Iterator[Finding]:
    """Yield the headers that a point sets and only the gateway may set."""
    for index, binding in enumerate(point.queue_bindings):
        for name in binding.request_headers:
            if is_reserved(name):
                yield _reserved(("queue_bindings", index, "request_headers"), name)
    for index, consumer in enumerate(point.rest_consumers):
        if is_reserved(consumer.authentication_http_header_name):
            place = ("rest_consumers", index, "authentication_http_header_name")
            yield _reserved(place, consumer.authentication_http_header_name)


def refused_hosts(point: RestDeliveryPoint, targets: AllowedTargets) -> Iterator[Finding]:
    """Yield the hosts that messages may not be pushed to. Names of hosts are checked at each connection."""
    for index, consumer in enumerate(point.rest_consumers):
        refusal = targets.host_refusal(consumer.remote_host)
        if refusal:
            yield Finding(("rest_consumers", index, "remote_host"), refusal)


def _reserved(place: tuple[str | int, ...], name: str) -> Finding:
    return Finding(place, f"{name} is written by the gateway, and cannot be set", HEADERS_ALLOWED)
