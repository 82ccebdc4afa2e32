"""Micro-benchmark of publishing to virtual destinations: what one definition costs, and what many do.

Run with `python bench/cores/bench_virtual_routes.py`, the repository's root on PYTHONPATH; for the compiled figures,
after a compiled build. A publish goes from the batch to the inboxes of partitions, which drop it here. Each row is the
best of several rounds, for the machine's other work only ever adds time.
"""

import gc
import random
from time import perf_counter_ns
from typing import Final, NamedTuple

from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.inbox import Dispatcher, Inbox
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import PartitionTarget, QueueTarget, Subscriber, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.routing.virtual import resolver as virtual_routes
from sluicegate.messaging.routing.virtual.definitions import (
    QUEUE,
    TOPIC,
    CompositeDestination,
    ForwardTarget,
    VirtualDestinations,
    VirtualTopic,
)
from sluicegate.messaging.routing.virtual.names import ConsumerNames, NamePattern
from sluicegate.messaging.routing.virtual.resolver import VirtualRoutes
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, parse_filter, queue_topic_filter

DEFINITIONS_MANY: Final = 1_000
SUBSCRIPTIONS_MANY: Final = 100_000
PUBLISHED_TO: Final = "vt.0.x"  # the same in both spaces, so that what is around it makes the difference
PUBLISHES: Final = 5_000
RESOLVES: Final = 100
ROUNDS: Final = 9
UNBOUNDED: Final = 1 << 60


def sink() -> Inbox:
    """Return the inbox of a stopped actor, which drops messages with the code of a node."""
    inbox = Inbox(Dispatcher(call_soon=lambda _: None, clock=SystemClock(), on_fatal=lambda _: None))
    inbox.closed = True
    return inbox


class Space(NamedTuple):
    """A topic space to publish to."""

    definitions: int
    subscriptions: int


def queue(space: TopicSpace, routes: VirtualRoutes, name: str) -> None:
    """Add a non-durable queue with one partition: another benchmark measures the store."""
    gate = QueueGate(None, usage_bytes_max=UNBOUNDED, message_bytes_max=UNBOUNDED)
    target = QueueTarget(name, gate, Pressure(high_bytes=UNBOUNDED, low_bytes=0), durable=False)
    target.partitions.append(PartitionTarget(1, sink()))
    space.subscribe(queue_topic_filter(name), target, target)
    routes.add_queue(target)


def filled(plan: Space, kind: str) -> TopicSpace:
    """Return a space in which the topics `vt.N.x` go to two queues each, and others to many."""
    space = TopicSpace()
    numbers = range(plan.definitions)
    if kind == "virtual topic":
        names = ConsumerNames("Consumer.*.", "")
        definitions = VirtualDestinations(
            virtual_topics=tuple(VirtualTopic((), NamePattern(f"vt.{number}.>"), names) for number in numbers)
        )
        queues = [f"Consumer.{name}.vt.{number}.x" for number in numbers for name in "AB"]
    else:
        selector = "color = 'red'" if kind == "filtered" else ""
        definitions = VirtualDestinations(
            composites=tuple(
                CompositeDestination(
                    (),
                    TOPIC,
                    NamePattern(f"vt.{number}.x"),
                    (ForwardTarget(QUEUE, f"a{number}", selector), ForwardTarget(QUEUE, f"b{number}", selector)),
                )
                for number in numbers
            )
        )
        queues = [f"{name}{number}" for number in numbers for name in "ab"]
    routes = VirtualRoutes(space, definitions, Selectors({}))
    for name in queues:
        queue(space, routes, name)
    for number in range(plan.subscriptions):
        subscriber = Subscriber(f"c{number}")
        text = f"site/{number % 100}/device/{number}/#"
        space.subscribe(parse_filter(text, Syntax.MQTT), subscriber.client, Subscription(subscriber, 0))
    space.expand_with(routes)
    return space


def message(topic: str) -> MessageBatch:
    """Return a batch of one row."""
    return MessageBatch(
        topic=topic,
        topics=None,
        payloads=[b"payload"],
        headers=[Headers(user_properties=[("color", "red")])],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="p",
        received_ms=1,
        payload_bytes=7,
    )


class Course:
    """A topic space, and its best rounds so far."""

    def __init__(self, plan: Space, kind: str) -> None:
        self.plan = plan
        self.publish_ns = 0.0
        self.resolve_ns = 0.0
        self._space = filled(plan, kind)
        self._publisher = Publisher(space=self._space, spool=sink(), address=sink(), rng=random.Random(1))
        self._batch = message(PUBLISHED_TO)
        assert len(self._space.route_of_row(self._batch, 0).all_queues()) == 2, "it goes where it should"

    def round(self) -> None:
        """Publish with cached routes, then resolve routes."""
        publisher, batch = self._publisher, self._batch
        started_ns = perf_counter_ns()
        for number in range(PUBLISHES):
            publisher.publish(batch, number)
        self.publish_ns = _better(self.publish_ns, (perf_counter_ns() - started_ns) / PUBLISHES)
        space = self._space
        started_ns = perf_counter_ns()
        for _ in range(RESOLVES):
            space.expand_with(space.expander)  # forgets all routes
            space.route(PUBLISHED_TO)
        self.resolve_ns = _better(self.resolve_ns, (perf_counter_ns() - started_ns) / RESOLVES)


def _better(before: float, now: float) -> float:
    return now if before == 0.0 else min(before, now)


def main() -> None:
    """Print the table."""
    form = "interpreted" if virtual_routes.__file__.endswith(".py") else "compiled"
    print(f"Publishing to virtual destinations, {form}; two queues get each message")
    print(f"{'kind':<16}{'definitions':>12}{'subscriptions':>15}{'publish ns':>12}{'ratio':>8}{'resolve ns':>12}")
    for kind in ("virtual topic", "composite", "filtered"):
        courses = [Course(Space(1, 1), kind), Course(Space(DEFINITIONS_MANY, SUBSCRIPTIONS_MANY), kind)]
        gc.collect()
        gc.freeze()  # as the node does at its start
        for _ in range(ROUNDS):  # in turn: what else the machine does meets both
            for course in courses:
                course.round()
        for course in courses:
            ratio = course.publish_ns / courses[0].publish_ns
            row = f"{kind:<16}{course.plan.definitions:>12}{course.plan.subscriptions:>15}{course.publish_ns:>12.0f}"
            print(f"{row}{ratio:>8.2f}{course.resolve_ns:>12.0f}")


if __name__ == "__main__":
    main()
