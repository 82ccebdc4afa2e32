"""The cost of one message on a whole node with growing numbers of queues, connections, subscriptions, backlog and more.

Run with `python -m bench.cores.node.bench_scaling FAMILY-NUMBER`, such as `queues-1000`. It prints microseconds per
message, and for the families `connects` and `returns` per connecting client. `python -m bench.instructions` counts
instructions instead: those counts repeat.

The traffic is the same at each number: ten batches of ten messages with QoS 1 in each round of two milliseconds. Each
batch goes to another lane, and the lanes take turns. So a larger number does not make the batches smaller, and only
code that scans all objects costs more. The path is real, from the bytes of the sending clients to the bytes for the
receiving clients. Time is that of `bench.cores.node.virtual_time`; only the node is compiled.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, final

from bench.cores.node.clients import WARM_UP, Arrivals, Client
from bench.cores.node.virtual_time import run_on_jumping_time, start_node
from bench.wire import mqtt as wire
from sluicegate.actors.messages.directory import NAMED, CreateQueue
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.process.run import GC_THRESHOLDS
from sluicegate.messaging.queues.definition import definition_from_dict

LANES_AT_ONCE: Final = 10
BATCH: Final = 10  # messages of a lane in a round
PAYLOAD_BYTES: Final = 100
HALF_ROUND_S: Final = 0.001
MESSAGES: Final = 5_000  # measured
TOPIC: Final = "bench/{:05}"  # all of one length: so are the packets, and their ids are found by slicing
QUEUE: Final = "bench-{:05}"
OTHER_FILTERS: Final = ("bench/+/{}/deeper/#", "bench/+/other-{}", "+/other-{}/#")  # that match no topic of ours
KEYS: Final = 1000
REBALANCED_S: Final = 5  # more than it takes until each consumer has its partitions
ALL_OF_IT: Final = 1 << 40
READY: Final = "ready"


@final
class Load:
    """Publishers, lanes and consumers on one node, and their rounds."""

    def __init__(
        self, node: Node, lanes: list[bytes], publishers: list[Client], consumers: list[Client], *, qos: int
    ) -> None:
        self.lanes = lanes  # the packets of one batch each
        self.answered_max = ALL_OF_IT  # messages of a consumer in a round: with fewer, a backlog stays one
        self.each_round: Callable[[int], None] | None = None  # something else that happens, by the round's number
        self._publishers = publishers
        self._rounds = 0
        self._received = 0
        header = wire.publish_header(TOPIC.format(0), qos=qos, payload_bytes=PAYLOAD_BYTES)
        self._packet_bytes = len(header.data) + PAYLOAD_BYTES
        self._id_at = header.packet_id_at
        self._to_answer: list[Client] = []
        for consumer in consumers:
            consumer.written.clear()  # the answers to CONNECT and SUBSCRIBE
            consumer.to_answer = self._to_answer  # the others are not looked at: what gets longer is not our own round

    async def run(self, messages: int) -> int:
        """Run rounds until so many messages are published and received; return their number. Asserts both."""
        published, received = 0, self._received
        while published < messages:
            await self._round()
            published += LANES_AT_ONCE * BATCH
        assert self._received - received == published, f"{self._received - received} of {published} messages came"
        return published

    async def warm_up(self) -> None:
        """Run all lanes once, so that work for the first message is not counted."""
        await self.run(max(len(self.lanes) * BATCH, MESSAGES // 5))

    async def pile_up(self, messages: int) -> None:
        """Publish a backlog of messages that are not settled; later, as many are settled as are published."""
        self.answered_max = 0
        for _ in range(messages // (LANES_AT_ONCE * BATCH)):
            await self._round()
        self.answered_max = LANES_AT_ONCE * BATCH

    async def _round(self) -> None:
        if self.each_round is not None:
            self.each_round(self._rounds)
        lanes = self.lanes
        first = self._rounds * LANES_AT_ONCE
        self._rounds += 1
        for place, publisher in enumerate(self._publishers):
            publisher.written.clear()
            publisher.send(lanes[(first + place) % len(lanes)])
        await asyncio.sleep(HALF_ROUND_S)
        to_answer = self._to_answer.copy()
        self._to_answer.clear()
        for consumer in to_answer:
            self._answer(consumer)
        await asyncio.sleep(HALF_ROUND_S)

    def _answer(self, consumer: Client) -> None:
        data = b"".join(consumer.written)
        consumer.written.clear()
        size = self._packet_bytes
        assert len(data) % size == 0, data[:200]
        if self._id_at is None:
            self._received += len(data) // size
            return
        acks = consumer.unanswered + wire.acks(wire.PUBACK, data[self._id_at :: size], data[self._id_at + 1 :: size])
        now = min(len(acks), self.answered_max * wire.ACK_BYTES)
        consumer.unanswered = acks[now:]
        if consumer.unanswered:
            self._to_answer.append(consumer)
        self._received += now // wire.ACK_BYTES
        consumer.send(acks[:now])


def _batch(topic: str, *, qos: int = 1, version: int = wire.MQTT_3_1_1, key: str = "") -> bytes:
    header = wire.publish_header(topic, qos=qos, payload_bytes=PAYLOAD_BYTES, version=version, key=key)
    return wire.publish_stream([header], cycle=BATCH)[0]


async def _load(
    node: Node, lanes: list[bytes], consumers: list[Client], *, qos: int = 1, version: int = wire.MQTT_3_1_1
) -> Load:
    publishers = [Client(node, 60_000 + each, version=version) for each in range(LANES_AT_ONCE)]
    await asyncio.sleep(HALF_ROUND_S)
    return Load(node, lanes, publishers, consumers, qos=qos)


async def _clients(node: Node, count: int) -> list[Client]:
    clients = [Client(node, number) for number in range(count)]
    await asyncio.sleep(HALF_ROUND_S)
    return clients


async def _make_queue(node: Node, name: str, topics: list[str], **attributes: str | int) -> None:
    definition = definition_from_dict({"name": name, "subscriptions": topics, **attributes})
    await node.default.queues.ask(CreateQueue(definition, NAMED, durable=True))


# --- the families ---


async def _queues(node: Node, number: int) -> Load:
    """Durable queues, each with a topic and a consumer; ten clients have all the consumers."""
    consumers = await _clients(node, LANES_AT_ONCE)
    for lane in range(number):
        await _make_queue(node, QUEUE.format(lane), [TOPIC.format(lane)])
        consumers[lane % len(consumers)].subscribe(f"$queue/{QUEUE.format(lane)}", qos=1)
    await asyncio.sleep(HALF_ROUND_S)
    return await _load(node, [_batch(TOPIC.format(lane)) for lane in range(number)], consumers)


async def _connections(node: Node, number: int) -> Load:
    """Clients, each subscribed to a topic of its own."""
    consumers = await _clients(node, number)
    for lane, consumer in enumerate(consumers):
        consumer.subscribe(TOPIC.format(lane), qos=1)
    await asyncio.sleep(HALF_ROUND_S)
    return await _load(node, [_batch(TOPIC.format(lane)) for lane in range(number)], consumers)


async def _wildcards(node: Node, number: int) -> Load:
    """Wildcard subscriptions that never match. Each round adds or removes one, so all routes are resolved again."""
    load = await _connections(node, 100)
    (other,) = [Client(node, 50_000)]
    await asyncio.sleep(HALF_ROUND_S)
    for each in range(number):
        other.subscribe(OTHER_FILTERS[each % len(OTHER_FILTERS)].format(each), qos=0)
    await asyncio.sleep(HALF_ROUND_S)
    load.each_round = lambda rounds: other.subscribe("bench/come-and-go", qos=rounds & 1)
    return load


async def _partitions(node: Node, number: int) -> Load:
    """A queue with a number of partitions and four consumers. A lane is a key."""
    return await _partitioned(node, number, consumers_count=4)


async def _saturated(node: Node, number: int) -> Load:
    """A queue with a number of partitions, all with messages that wait for credit of the only consumer."""
    load = await _partitioned(node, number, consumers_count=1)
    await load.pile_up(KEYS * BATCH)
    return load


async def _partitioned(node: Node, number: int, *, consumers_count: int) -> Load:
    name, topics = QUEUE.format(0), [TOPIC.format(0)]
    await _make_queue(
        node, name, topics, access_type="non-exclusive", partition_count=number, partition_rebalance_delay_s=0
    )
    consumers = await _clients(node, consumers_count)
    for consumer in consumers:
        consumer.subscribe(f"$queue/{name}", qos=1)
    await asyncio.sleep(REBALANCED_S)
    lanes = [_batch(TOPIC.format(0), version=wire.MQTT_5, key=f"key-{key}") for key in range(KEYS)]
    return await _load(node, lanes, consumers, version=wire.MQTT_5)


async def _consumers(node: Node, number: int) -> Load:
    """One queue with a number of competing consumers."""
    await _make_queue(node, QUEUE.format(0), [TOPIC.format(0)], access_type="non-exclusive")
    consumers = await _clients(node, number)
    for consumer in consumers:
        consumer.subscribe(f"$queue/{QUEUE.format(0)}", qos=1)
    await asyncio.sleep(HALF_ROUND_S)
    return await _load(node, [_batch(TOPIC.format(0))], consumers)


async def _members(node: Node, number: int) -> Load:
    """A shared subscription with a number of members, QoS 0."""
    consumers = await _clients(node, number)
    for consumer in consumers:
        consumer.subscribe(f"$share/bench/{TOPIC.format(0)}", qos=0)
    await asyncio.sleep(HALF_ROUND_S)
    return await _load(node, [_batch(TOPIC.format(0), qos=0)], consumers, qos=0)


async def _backlog(node: Node, number: int) -> Load:
    """A queue with a backlog; as many messages are consumed as are published."""
    load = await _queues(node, 1)
    await load.pile_up(number)
    return load


async def _virtual(node: Node, number: int) -> Load:
    """Composite topics, each of which forwards to one of ten queues."""
    consumers = await _clients(node, LANES_AT_ONCE)
    for queue, consumer in enumerate(consumers):
        consumer.subscribe(f"$queue/{QUEUE.format(queue)}", qos=1)
    await asyncio.sleep(HALF_ROUND_S)
    return await _load(node, [_batch(TOPIC.format(lane)) for lane in range(number)], consumers)


def _virtual_settings(number: int) -> list[str]:
    composites = [
        {"name": TOPIC.format(lane), "forward_to": [{"queue": QUEUE.format(lane % LANES_AT_ONCE)}]}
        for lane in range(number)
    ]
    return [f"virtual_destinations.composite_topics={json.dumps(composites)}"]


async def _connects(node: Node, number: int) -> Arrivals:
    """Clients that connect and subscribe, beside a number of connected ones."""
    await Arrivals(node, list(range(number)), clean=True).run(number)
    return Arrivals(node, list(range(number, number + MESSAGES + WARM_UP)), clean=True)


async def _returns(node: Node, number: int) -> Arrivals:
    """Clients that resume their sessions, and subscribe again."""
    first_time = Arrivals(node, list(range(number)), clean=False)
    await first_time.run(number)
    for client in first_time.come:
        client.leave()
    await asyncio.sleep(HALF_ROUND_S)
    return Arrivals(node, list(range(number)), clean=False)


FAMILIES: Final[dict[str, Callable[[Node, int], Awaitable[Load | Arrivals]]]] = {
    "queues": _queues,
    "connections": _connections,
    "wildcards": _wildcards,
    "partitions": _partitions,
    "saturated": _saturated,
    "consumers": _consumers,
    "members": _members,
    "backlog": _backlog,
    "virtual": _virtual,
    "connects": _connects,
    "returns": _returns,
}


def unit_of(case: str) -> str:
    """Return the unit of a case."""
    return "client" if case.startswith(("connects", "returns")) else "message"


async def measure(family: str, number: int, *, told: bool) -> None:
    """Set up one case, and run it; `told` tells a counting program when to count."""
    with tempfile.TemporaryDirectory() as folder:
        settings = _virtual_settings(number) if family == "virtual" else []
        node = await start_node(Path(folder), settings)
        load = await FAMILIES[family](node, number)
        await load.warm_up()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        if told:
            print(READY, flush=True)
            sys.stdin.readline()
        began_ns = time.process_time_ns()
        count = await load.run(MESSAGES)
        taken_ns = time.process_time_ns() - began_ns
        if told:
            print(count, flush=True)
            sys.stdin.readline()
        else:
            print(f"{family}-{number}: {taken_ns / count / 1000:.2f} us per {unit_of(family)}")
        node.services.store.close()


def main() -> None:
    """Measure the requested cases."""
    family, _, number = sys.argv[1].rpartition("-")
    run_on_jumping_time(measure(family, int(number), told=READY in sys.argv[2:]))


if __name__ == "__main__":
    main()
