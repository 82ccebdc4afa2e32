"""The table of cases. A case is data: what it asks, and which run with which plan answers it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench import mqtt_wire as wire
from bench.brokers import Broker, Mosquitto, RabbitMq, Sluicegate, Traffic
from bench.footprint import run_idle_connections, run_recovery, run_waiting
from bench.load_plan import AMQP, FLOW, LoadPlan
from bench.outcome import Outcome
from bench.spark_load import run_in_bulk, run_micro_batches
from bench.throughput import run_throughput

BOTH: Final = frozenset((Sluicegate.kind, Mosquitto.kind))
AMQP_BROKERS: Final = frozenset((Sluicegate.kind, RabbitMq.kind))
QUEUE_LANES: Final = 10
AMQP_WINDOW: Final = 500  # ahead of the receiver and of the outcomes: less than either broker's credit


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much of everything, from the command line."""

    seconds: float = 5.0  # measured, after the warm-up
    workers: int = 1  # generator processes
    connections: int = 10_000
    waiting_messages: int = 5_000_000
    recovery_messages: int = 1_000_000
    spark_rows: int = 1_000_000  # in bulk
    timeout_s: float = 300.0  # for filling or draining a backlog


@dataclass(frozen=True, slots=True)
class Case:
    """One question to a broker."""

    name: str
    question: str
    run: Callable[[Broker, Effort], Outcome]
    kinds: frozenset[str] = BOTH
    traffic: Traffic = Traffic.BULK


def _throughput(name: str, question: str, plan: LoadPlan) -> Case:
    def run(broker: Broker, effort: Effort) -> Outcome:
        return run_throughput(plan, broker, seconds=effort.seconds, workers=effort.workers)

    traffic = Traffic.SINGLE if plan.window == 1 else Traffic.BULK
    return Case(name, question, run, traffic=traffic)


def _through_queues(broker: Broker, effort: Effort) -> Outcome:
    if not isinstance(broker, Sluicegate):
        raise TypeError(f"{broker.kind} has no queues")
    for lane in range(QUEUE_LANES):
        broker.create_queue(f"bench-{lane}", f"t/{lane}")
    plan = LoadPlan(
        lanes=QUEUE_LANES,
        qos=1,
        window=2000,
        topic="t/{lane}",
        topic_filter="$queue/bench-{lane}",
        subscriber_version=wire.MQTT_5,
    )
    return run_throughput(plan, broker, seconds=effort.seconds, workers=effort.workers)


def _flow(publisher_name: str) -> Callable[[Broker, Effort], Outcome]:
    """Return the run of the flow protocol through the queues of `_through_queues`."""

    def run(broker: Broker, effort: Effort) -> Outcome:
        if not isinstance(broker, Sluicegate):
            raise TypeError(f"{broker.kind} does not speak the flow protocol")
        for lane in range(QUEUE_LANES):
            broker.create_queue(f"bench-{lane}", f"t/{lane}")
        plan = LoadPlan(
            protocol=FLOW,
            lanes=QUEUE_LANES,
            qos=1,
            window=2000,
            topic="t/{lane}",
            topic_filter="bench-{lane}",
            publisher_name=publisher_name,
        )
        return run_throughput(plan, broker, seconds=effort.seconds, workers=effort.workers)

    return run


def _amqp(lanes: int, payload_bytes: int) -> Case:
    """Return the case of so many senders, queues and receivers of AMQP."""

    def run(broker: Broker, effort: Effort) -> Outcome:
        address = "/queue/bench-{lane}"  # of RabbitMQ, which makes the queue when it is attached to
        if isinstance(broker, Sluicegate):
            address = "bench-{lane}"
            for lane in range(lanes):
                broker.create_queue(f"bench-{lane}", None)
        plan = LoadPlan(
            protocol=AMQP, lanes=lanes, qos=1, window=AMQP_WINDOW, payload_bytes=payload_bytes, topic=address
        )
        return run_throughput(plan, broker, seconds=effort.seconds, workers=effort.workers)

    name = f"amqp-{lanes}-{lanes}" + ("" if payload_bytes == 100 else f"-{payload_bytes}")
    question = f"AMQP 1.0, {lanes} senders to {lanes} receivers by durable queues, unsettled, {payload_bytes} bytes"
    return Case(name, question, run, AMQP_BROKERS)


def _amqp_in_memory(broker: Broker, effort: Effort) -> Outcome:
    address = "topic://bench/{lane}" if isinstance(broker, Sluicegate) else "/topic/bench.{lane}"
    return run_throughput(
        LoadPlan(protocol=AMQP, window=AMQP_WINDOW, topic=address),
        broker,
        seconds=effort.seconds,
        workers=effort.workers,
    )


def _idle_amqp(broker: Broker, effort: Effort) -> Outcome:
    return run_idle_connections(broker, connections=effort.connections, protocol=AMQP)


def _idle(broker: Broker, effort: Effort) -> Outcome:
    return run_idle_connections(broker, connections=effort.connections)


def _waiting(broker: Broker, effort: Effort) -> Outcome:
    return run_waiting(broker, messages=effort.waiting_messages, timeout_s=effort.timeout_s)


def _recovery(broker: Broker, effort: Effort) -> Outcome:
    return run_recovery(broker, messages=effort.recovery_messages, timeout_s=effort.timeout_s)


def _spark_in_bulk(name: str, question: str) -> Case:
    def run(broker: Broker, effort: Effort) -> Outcome:
        return run_in_bulk(name, broker, rows=effort.spark_rows, timeout_s=effort.timeout_s)

    return Case(name, question, run, frozenset((Sluicegate.kind,)))


def _spark_batches(broker: Broker, effort: Effort) -> Outcome:
    return run_micro_batches("spark-batches", broker, timeout_s=effort.timeout_s)


CASES: Final = (
    _throughput("qos0-1-1", "QoS 0, one publisher to one subscriber, saturated", LoadPlan(window=4000)),
    _throughput("qos0-10-10", "QoS 0, ten pairs, saturated", LoadPlan(lanes=10, window=2000)),
    _throughput("qos1-10-10", "QoS 1, ten pairs, saturated", LoadPlan(lanes=10, qos=1, window=1000)),
    _throughput("fanout-1-50", "QoS 0, each message to 50 subscribers", LoadPlan(subscribers_per_lane=50, window=1000)),
    _throughput("wakeup-qos0", "QoS 0, 50 pairs, one message in flight each", LoadPlan(lanes=50)),
    _throughput("wakeup-qos1", "QoS 1, 50 pairs, one message in flight each", LoadPlan(lanes=50, qos=1)),
    Case("queue-10-10", "QoS 1 into ten durable queues and out", _through_queues, frozenset((Sluicegate.kind,))),
    Case("flow-10-10", "flow protocol into ten durable queues and out", _flow(""), frozenset((Sluicegate.kind,))),
    Case(
        "flow-named-10-10",
        "the same, with named publishers: each message stored, once",
        _flow("bench-{lane}"),
        frozenset((Sluicegate.kind,)),
    ),
    _amqp(1, 100),
    _amqp(8, 100),
    _amqp(1, 1024),
    _amqp(8, 1024),
    Case(
        "amqp-memory",
        "AMQP 1.0, 1 sender to 1 receiver by a topic, settled, in memory",
        _amqp_in_memory,
        AMQP_BROKERS,
    ),
    Case(
        "idle-amqp",
        "memory of an AMQP connection that does nothing",
        _idle_amqp,
        AMQP_BROKERS,
    ),
    Case("idle", "memory of a connection that does nothing", _idle),
    Case("waiting", "memory of messages that wait", _waiting),
    _spark_in_bulk("spark-parquet", "Spark reads a queue of messages of 200 bytes, and writes Parquet files"),
    _spark_in_bulk("spark-queue", "Spark publishes what one queue holds to another, in one transaction"),
    Case(
        "spark-batches",
        "Spark archives 500 messages a second, batch after batch: how long one takes",
        _spark_batches,
        frozenset((Sluicegate.kind,)),
    ),
    Case("recovery", "restart after kill -9 with messages waiting", _recovery, frozenset((Sluicegate.kind,))),
)
