"""Views of REST delivery points: their state, why they are down, and the outcomes of their messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoint as Definition
from sluicegate.messaging.message.outcomes import OUTCOMES

if TYPE_CHECKING:
    from sluicegate.protocols.rest.consumer import RestConsumer
    from sluicegate.protocols.rest.point import QueueBinding, RestDeliveryPoint


@dataclass(frozen=True, slots=True)
class RestConsumerView:
    """A web server that messages are pushed to."""

    name: str
    url: str
    up: bool
    reason: str  # why it is not up
    connections_in_use: int
    connections_max: int
    requests: dict[str, int]  # by status, or `no-answer`
    targets_refused: int  # connections that were not made, because their address is not allowed


@dataclass(frozen=True, slots=True)
class QueueBindingView:
    """A queue whose messages are pushed."""

    queue: str
    post_request_target: str
    up: bool
    reason: str  # why it is not up
    messages: dict[str, int]  # by outcome


@dataclass(frozen=True, slots=True)
class RestDeliveryPointView:
    """A delivery point. It is up when a consumer and a binding are."""

    name: str
    origin: str  # one of gateway.provisioning.store
    enabled: bool
    up: bool
    reason: str  # why it does not run although it is enabled, or has nothing to do; its parts have reasons of their own
    definition: Definition
    rest_consumers: Sequence[RestConsumerView]
    queue_bindings: Sequence[QueueBindingView]


@dataclass(frozen=True, slots=True)
class RestDeliveryPointsView:
    """All delivery points, by name."""

    rest_delivery_points: Sequence[RestDeliveryPointView]


def point_view(
    definition: Definition, running: "RestDeliveryPoint | None", *, origin: str, reason: str
) -> RestDeliveryPointView:
    """Return the view of a point; one that does not run has no parts."""
    return RestDeliveryPointView(
        name=definition.name,
        origin=origin,
        enabled=definition.enabled,
        up=running is not None and running.is_up,
        reason=reason or _lacking(definition),
        definition=definition,
        rest_consumers=[_consumer_view(each) for each in ([] if running is None else running.consumers)],
        queue_bindings=[_binding_view(each) for each in ([] if running is None else running.bindings)],
    )


def _lacking(definition: Definition) -> str:
    """Return which kind of part an enabled point lacks; empty if it has both."""
    parts = {"queue binding": definition.queue_bindings, "REST consumer": definition.rest_consumers}
    lacking = [name for name, those in parts.items() if not those]
    return f"it has no {' and no '.join(lacking)}" if lacking and definition.enabled else ""


def _consumer_view(consumer: "RestConsumer") -> RestConsumerView:
    return RestConsumerView(
        name=consumer.settings.name,
        url=consumer.settings.url(),
        up=consumer.is_up,
        reason=consumer.reason,
        connections_in_use=consumer.in_use_count,
        connections_max=consumer.settings.outgoing_connection_count,
        requests=dict(consumer.statuses),
        targets_refused=consumer.refused_count,
    )


def _binding_view(binding: "QueueBinding") -> QueueBindingView:
    return QueueBindingView(
        queue=binding.settings.queue,
        post_request_target=binding.settings.post_request_target.text,
        up=binding.is_up,
        reason=binding.reason,
        messages={OUTCOMES[outcome]: count for outcome, count in binding.outcomes.items()},
    )
