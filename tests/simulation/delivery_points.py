"""The REST delivery points of a run: what they push, and to which of the simulated web servers."""

from random import Random
from typing import Any, Final, NamedTuple

from simulation.judge.targets import PARTITIONED
from simulation.scenario import QUEUES, SPARE
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoint
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE

PORTS: Final = (8001, 8002)
BINDING_HEADER: Final = "X-Binding"  # in each request: name and version of the point, and its queue
DECLINED: Final = "400-407,422"
ONE_AT_A_TIME, MANY_AT_A_TIME = "one", "many"
ORDERED: Final = ("first", "even", "small")  # queues of the point that has one connection
OTHERS: Final = ("keyed", "keyed", SPARE, DEAD_MESSAGE_QUEUE)


class PointPlan(NamedTuple):
    """A delivery point as it is configured. `version` is another one with each change."""

    name: str
    version: int
    queues: tuple[str, ...]
    connections: dict[int, int]  # by port of a server
    method: str
    max_post_wait_s: int
    retry_delay_s: int
    enabled: bool

    @property
    def label(self) -> str:
        """Return what its requests say of it."""
        return f"{self.name} {self.version}"

    def keeps_order(self, queue: str) -> bool:
        """Return whether it keeps the order of a queue."""
        return sum(self.connections.values()) == 1 or QUEUES[queue].kind == PARTITIONED

    def section(self) -> RestDeliveryPoint:
        """Return its section of the configuration."""
        bindings = [
            {
                "queue": queue,
                "post_request_target": "/in/${topic()}",
                "request_target_evaluation": "substitution-expressions",
                "request_headers": {BINDING_HEADER: f"{self.label} {queue}"},
            }
            for queue in self.queues
        ]
        consumers = [self._consumer(port, count) for port, count in self.connections.items()]
        asked = {"name": self.name, "enabled": self.enabled, "queue_bindings": bindings, "rest_consumers": consumers}
        return RestDeliveryPoint.model_validate(asked)

    def _consumer(self, port: int, count: int) -> dict[str, Any]:
        return {
            "name": f"web-{port}",
            "remote_host": "127.0.0.1",
            "remote_port": port,
            "http_method": self.method,
            "outgoing_connection_count": count,
            "max_post_wait_time_s": self.max_post_wait_s,
            "retry_delay_s": self.retry_delay_s,
            "rejected_status_codes": DECLINED,
        }


def draw_point(rng: Random, name: str, version: int) -> PointPlan:
    """Return a point as it may be."""
    if name == ONE_AT_A_TIME:
        queues, connections = _some(rng, ORDERED), {rng.choice(PORTS): 1}
    else:
        queues, connections = _some(rng, OTHERS), {PORTS[0]: 1 + rng.randrange(3), PORTS[1]: 1}
    return PointPlan(
        name,
        version,
        queues,
        connections,
        method=rng.choice(("post", "post", "put")),
        max_post_wait_s=rng.choice((1, 3, 5)),
        retry_delay_s=rng.choice((1, 1, 2)),
        enabled=True,
    )


def draw_points(seed: int) -> tuple[PointPlan, ...]:
    """Return the points that a seed begins with."""
    rng = Random(f"delivery points {seed}")
    return tuple(draw_point(rng, name, 1) for name in (ONE_AT_A_TIME, MANY_AT_A_TIME))


def _some(rng: Random, queues: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rng.choice(queues) for _ in range(1 + rng.randrange(2))))
