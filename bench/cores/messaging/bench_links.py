"""Micro-benchmark of routing over links: what neighbor brokers add to a publish, and what their interests cost.

Run with `python bench/cores/messaging/bench_links.py`, the repository's root on PYTHONPATH; for the compiled figures,
after a compiled build. A publish goes from the batch to the inbox of its receiver and to the output of a link, which
drop it here. Each figure is the best of several rounds, for the machine's other work only ever adds time.
"""

import gc
import random
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns
from typing import Final

from sluicegate.actors.publishing import publisher as publishing
from sluicegate.actors.publishing.link_publisher import LinkPublisher
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.inbox import Dispatcher, Inbox
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.network.interest import Change, Interest, subscribers
from sluicegate.messaging.network.link import SUBSCRIBERS, LinkOutput, LinkTargets
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import PartitionTarget, QueueTarget, Subscriber, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import Syntax, parse_filter

INTERESTS: Final = 100_000
CHANGE_INTERESTS: Final = 1_000  # of one message of a link
PUBLISHES: Final = 5_000
ROUNDS: Final = 9
UNBOUNDED: Final = 1 << 60
TOPIC: Final = "site/1/device/2"


class Nowhere(LinkOutput):
    """A link that drops what it is given."""

    def send(self, batch: MessageBatch, targets: LinkTargets) -> None:
        """Drop it."""


def sink() -> Inbox:
    """Return the inbox of a stopped actor, which drops messages with the code of a node."""
    inbox = Inbox(Dispatcher(call_soon=lambda _: None, clock=SystemClock(), on_fatal=lambda _: None))
    inbox.closed = True
    return inbox


def wanted(text: str) -> Interest:
    """Return the interest in a filter."""
    found = subscribers(parse_filter(text, Syntax.MQTT), 1)
    assert found is not None, "a filter of MQTT"
    return found


def space_with(*, neighbors: int, text: str = TOPIC) -> TopicSpace:
    """Return a space with one local client and one local queue, and neighbors that want a filter."""
    space = TopicSpace()
    client = Subscriber("c")
    client.address = sink()
    space.subscribe(parse_filter(TOPIC, Syntax.MQTT), client.key, Subscription(client, AT_MOST_ONCE))
    gate = QueueGate(None, usage_bytes_max=UNBOUNDED, message_bytes_max=UNBOUNDED)
    queue = QueueTarget("q", gate, Pressure(high_bytes=UNBOUNDED, low_bytes=0), durable=False)
    queue.partitions.append(PartitionTarget(1, sink()))
    space.subscribe(parse_filter("queue/1", Syntax.MQTT), queue, queue)
    for number in range(neighbors):
        space.change_neighbor(Nowhere(f"n{number}"), Change([wanted(text)], []))
    return space


def message(topic: str, qos: int) -> MessageBatch:
    """Return a batch of one row."""
    return MessageBatch(
        topic=topic,
        topics=None,
        payloads=[b"payload"],
        headers=None,
        qos=qos,
        retain=False,
        publisher="p",
        received_ms=1,
        payload_bytes=7,
    )


def publishing_to(space: TopicSpace, batch: MessageBatch) -> Callable[[], object]:
    """Return a publish."""
    publisher = Publisher(space=space, spool=sink(), address=sink(), rng=random.Random(1))
    return lambda: publisher.publish(batch, 1)


def arriving_at(space: TopicSpace, batch: MessageBatch) -> Callable[[], object]:
    """Return the delivery of a batch that came over a link."""
    publisher = LinkPublisher(space=space, spool=sink(), address=sink(), rng=random.Random(1), targets={})
    return lambda: publisher.deliver(batch, SUBSCRIBERS, "neighbor")


def cases() -> dict[str, Callable[[], object]]:
    """Return what is measured."""
    direct, guaranteed = message(TOPIC, AT_MOST_ONCE), message("queue/1", AT_LEAST_ONCE)
    alone, elsewhere = space_with(neighbors=0), space_with(neighbors=2, text="other/#")
    return {
        "direct, no neighbor": publishing_to(alone, direct),
        "direct, neighbors want other topics": publishing_to(elsewhere, direct),
        "direct, one neighbor": publishing_to(space_with(neighbors=1), direct),
        "direct, two neighbors": publishing_to(space_with(neighbors=2), direct),
        "one queue, no neighbor": publishing_to(alone, guaranteed),
        "one queue, neighbors want other topics": publishing_to(elsewhere, guaranteed),
        "direct, arriving": arriving_at(alone, direct),
    }


def main() -> None:
    """Print the table."""
    form = "interpreted" if publishing.__file__.endswith(".py") else "compiled"
    print(f"Publishing with links, {form}")
    best: dict[str, float] = {}
    measured = cases()
    gc.collect()
    gc.freeze()  # as the node does at its start
    for _ in range(ROUNDS):  # in turn: what else the machine does meets all
        for name, run in measured.items():
            started_ns = perf_counter_ns()
            for _ in range(PUBLISHES):
                run()
            taken = (perf_counter_ns() - started_ns) / PUBLISHES
            best[name] = min(best.get(name, taken), taken)
    for name, taken in best.items():
        print(f"{name:<42}{taken:>8.0f} ns")
    interests = [wanted(f"site/{number % 100}/device/{number}/#") for number in range(INTERESTS)]
    space, output = TopicSpace(), Nowhere("n")
    started_ns = process_time_ns()
    for at in range(0, INTERESTS, CHANGE_INTERESTS):
        space.change_neighbor(output, Change(interests[at : at + CHANGE_INTERESTS], []))
    added = (process_time_ns() - started_ns) / INTERESTS
    started_ns = process_time_ns()
    space.forget_neighbor(output)
    removed = (process_time_ns() - started_ns) / INTERESTS
    print(f"{INTERESTS:,} interests: {added:.0f} ns to add each, {removed:.0f} ns to forget each")


if __name__ == "__main__":
    main()
