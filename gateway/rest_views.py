"""What operators see of REST delivery points: their state, what holds them up, and what became of messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.views import Sample
from messaging.settlement import OUTCOMES
from protocols.rest.point import RestDeliveryPoint


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
    up: bool
    rest_consumers: Sequence[RestConsumerView]
    queue_bindings: Sequence[QueueBindingView]


@dataclass(frozen=True, slots=True)
class RestDeliveryPointsView:
    """Those that are enabled, by name."""

    rest_delivery_points: Sequence[RestDeliveryPointView]


def point_view(point: RestDeliveryPoint) -> RestDeliveryPointView:
    """Return what is to be seen of a point now."""
    return RestDeliveryPointView(
        name=point.name,
        up=point.is_up,
        rest_consumers=[
            RestConsumerView(
                name=each.settings.name,
                url=each.settings.url(),
                up=each.is_up,
                reason=each.reason,
                connections_in_use=each.in_use_count,
                connections_max=each.settings.outgoing_connection_count,
                requests=dict(each.statuses),
            )
            for each in point.consumers
        ],
        queue_bindings=[
            QueueBindingView(
                queue=each.settings.queue,
                post_request_target=each.settings.post_request_target.text,
                up=each.is_up,
                reason=each.reason,
                messages={OUTCOMES[outcome]: count for outcome, count in each.outcomes.items()},
            )
            for each in point.bindings
        ],
    )


def point_samples(points: Sequence[RestDeliveryPoint]) -> Iterator[Sample]:
    """Return the samples of all points."""
    for point in points:
        yield Sample("sluicegate_rest_delivery_point_up", int(point.is_up), (point.name,))
        for consumer in point.consumers:
            labels = (point.name, consumer.settings.name)
            yield Sample("sluicegate_rest_consumer_up", int(consumer.is_up), labels)
            for status, count in consumer.statuses.items():
                yield Sample("sluicegate_rest_consumer_requests_total", count, (*labels, status))
        for binding in point.bindings:
            for outcome, count in binding.outcomes.items():
                labels = (binding.settings.queue, point.name)
                yield Sample("sluicegate_rest_delivery_point_messages_total", count, (*labels, OUTCOMES[outcome]))
