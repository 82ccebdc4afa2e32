"""The table of cases. A case is data: its question, its kind of run and load plan, and its brokers."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from bench.brokers.broker import Broker, Conditions, Traffic
from bench.brokers.gateway import Sluicegate, SluicegateOfFour, SluicegateOfTwo
from bench.brokers.known import ActiveMq, Amqtt, Mosquitto, Nats, RabbitMq
from bench.brokers.replicated import ArtemisReplicated, NatsReplicated, RabbitMqReplicated, SluicegateReplicated
from bench.cases.bridges import SCHEMES, run_bridge
from bench.cases.durable import run_alone, run_checkpoints, run_kept, run_most
from bench.cases.footprint import run_idle_connections, run_recovery, run_waiting, run_writes
from bench.cases.links import run_idle_link, run_link
from bench.cases.rebalance import run_rebalance
from bench.cases.spark import run_in_bulk, run_micro_batches
from bench.cases.storms import run_connection_storm, run_reconnect_storm, run_retained_storm
from bench.cases.throughput import run_beside_slow, run_latency, run_throughput
from bench.load.outcome import Outcome
from bench.load.plan import AMQP, FLOW, HTTP, MQTT, MQTT_TLS, MQTT_WEBSOCKET, LoadPlan
from bench.wire import mqtt as wire

OURS: Final = frozenset((Sluicegate.kind,))
MQTT_BROKERS: Final = OURS | {
    *(SluicegateOfTwo.kind, SluicegateOfFour.kind, Mosquitto.kind, RabbitMq.kind, ActiveMq.kind, Nats.kind, Amqtt.kind)
}
QOS2_BROKERS: Final = MQTT_BROKERS - {RabbitMq.kind}  # RabbitMQ 3 makes QoS 1 of it
AMQP_BROKERS: Final = OURS | {RabbitMq.kind}
TLS_BROKERS: Final = OURS | {Mosquitto.kind, RabbitMq.kind}
WEBSOCKET_BROKERS: Final = OURS | {RabbitMq.kind, Nats.kind}
SHARED_BROKERS: Final = OURS | {Mosquitto.kind}
BACKLOG_BROKERS: Final = OURS | {Mosquitto.kind}  # the others were not made for millions in a session
QUEUE_BROKERS: Final = OURS | {Mosquitto.kind}  # which has no queues: what one without them and without a disk does

DURABLE_BROKERS: Final = OURS | {Mosquitto.kind, RabbitMq.kind, Nats.kind}
REPLICATED_BROKERS: Final = frozenset(
    each.kind for each in (SluicegateReplicated, NatsReplicated, RabbitMqReplicated, ArtemisReplicated)
)
PERSISTENT: Final = Conditions(traffic=Traffic.SINGLE, persistent=True)

QUEUE: Final = "bench-{lane}"
PARTITIONS: Final = 16
MANY_TOPICS: Final = LoadPlan(
    lanes=10, window=2000, streams=1000, topic="bench/{lane}/{stream}", topic_filter="bench/{lane}/+"
)
WRITES_BYTES: Final = 100_000_000  # of payload
WRITES_WINDOWS_MAX: Final = 10_000
BRIDGED_MAX: Final = 200_000  # messages in each direction
USED_BY: Final = 3_000_000  # messages that came and went before
RECOVERED_BY_ALL: Final = 100_000  # messages that the session of any peer takes in a reasonable time
LOW_RATE: Final = 1000
AMQP_WINDOW: Final = 500  # ahead of the receiver and of the outcomes: less than either broker's credit


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The sizes and times of cases, from the command line."""

    seconds: float = 5.0  # measured, after the warm-up
    workers: int = 1  # generator processes
    connections: int = 10_000
    waiting_messages: int = 5_000_000
    retained_messages: int = 10_000
    spark_rows: int = 1_000_000  # in bulk
    timeout_s: float = 300.0  # for filling or draining a backlog


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a question, and the brokers it is for."""

    name: str
    question: str
    kinds: frozenset[str]
    run: Callable[[Broker, Effort], Outcome]
    conditions: Conditions = field(default_factory=Conditions)


def _writes(window: int, *, payload_bytes: int = 100, used_by: int = 0) -> Callable[[Broker, Effort], Outcome]:
    """Return the run of a case of bytes written, with fewer messages where each window is a commit."""

    def run(broker: Broker, effort: Effort) -> Outcome:
        return run_writes(
            broker,
            window=window,
            messages=min(effort.waiting_messages, WRITES_BYTES // payload_bytes, WRITES_WINDOWS_MAX * window),
            payload_bytes=payload_bytes,
            used_by=min(effort.waiting_messages, used_by),
            timeout_s=effort.timeout_s,
        )

    return run


def _saturated(name: str, question: str, plan: LoadPlan, kinds: frozenset[str] = MQTT_BROKERS) -> Case:
    """Return a case with as much load as the broker takes."""

    def run(broker: Broker, effort: Effort) -> Outcome:
        return run_throughput(plan, broker, seconds=effort.seconds, workers=effort.workers)

    return Case(name, question, kinds, run, _conditions(plan))


def _on_time(name: str, question: str, plan: LoadPlan, kinds: frozenset[str] = MQTT_BROKERS) -> Case:
    """Return a case with a rate."""

    def run(broker: Broker, effort: Effort) -> Outcome:
        return run_latency(plan, broker, seconds=effort.seconds, workers=effort.workers)

    return Case(name, question, kinds, run, _conditions(plan))


def _conditions(plan: LoadPlan) -> Conditions:
    single = plan.window == 1 or plan.rate is not None
    return Conditions(traffic=Traffic.SINGLE if single else Traffic.BULK, tls=plan.protocol == MQTT_TLS)


def _amqp(lanes: int, payload_bytes: int) -> Case:
    """Return a case with AMQP senders, queues and receivers."""
    name = f"amqp-{lanes}-{lanes}" + ("" if payload_bytes == 100 else f"-{payload_bytes}")
    question = f"AMQP 1.0, {lanes} senders to {lanes} receivers by durable queues, unsettled, {payload_bytes} bytes"
    plan = LoadPlan(protocol=AMQP, lanes=lanes, qos=1, window=AMQP_WINDOW, payload_sizes=(payload_bytes,), queue=QUEUE)
    return _saturated(name, question, plan, AMQP_BROKERS)


def _flow(publisher_name: str) -> LoadPlan:
    return LoadPlan(protocol=FLOW, lanes=10, qos=1, window=2000, queue=QUEUE, publisher_name=publisher_name)


def _idle_amqp(broker: Broker, effort: Effort) -> Outcome:
    return run_idle_connections(broker, connections=effort.connections, protocol=AMQP)


def _idle(broker: Broker, effort: Effort) -> Outcome:
    return run_idle_connections(broker, connections=effort.connections)


def _waiting(broker: Broker, effort: Effort) -> Outcome:
    return run_waiting(broker, messages=effort.waiting_messages, timeout_s=effort.timeout_s)


def _recovery(messages: int) -> Case:
    def run(broker: Broker, effort: Effort) -> Outcome:
        return run_recovery(broker, messages=messages, timeout_s=effort.timeout_s)

    question = f"restart after kill -9 with {messages:,} messages waiting"
    kinds = DURABLE_BROKERS if messages <= RECOVERED_BY_ALL else BACKLOG_BROKERS
    return Case(f"recovery-{messages}", question, kinds, run, Conditions(persistent=True))


def _alone(broker: Broker, effort: Effort) -> Outcome:
    return run_alone(broker, seconds=effort.seconds, payload_bytes=100, timeout_s=effort.timeout_s)


def _most(broker: Broker, effort: Effort) -> Outcome:
    return run_most(broker, seconds=effort.seconds, payload_bytes=100, timeout_s=effort.timeout_s)


def _kept(rate: float) -> Callable[[Broker, Effort], Outcome]:
    """Return the run of a case of kept messages at a rate."""

    def run(broker: Broker, effort: Effort) -> Outcome:
        return run_kept(broker, rate=rate, seconds=effort.seconds, payload_bytes=100, timeout_s=effort.timeout_s)

    return run


def _checkpoints(broker: Broker, effort: Effort) -> Outcome:
    return run_checkpoints(
        broker, rate=LOW_RATE, seconds=effort.seconds, payload_bytes=10_240, timeout_s=effort.timeout_s
    )


def _connection_storm(broker: Broker, effort: Effort) -> Outcome:
    return run_connection_storm(broker, connections=effort.connections)


def _connection_storm_of_topics(broker: Broker, effort: Effort) -> Outcome:
    return run_connection_storm(broker, connections=effort.connections, own_topics=True)


def _reconnect_storm(broker: Broker, effort: Effort) -> Outcome:
    return run_reconnect_storm(broker, connections=effort.connections)


def _retained_storm(broker: Broker, effort: Effort) -> Outcome:
    return run_retained_storm(broker, messages=effort.retained_messages, timeout_s=effort.timeout_s)


def _beside_slow(broker: Broker, effort: Effort) -> Outcome:
    plan = LoadPlan(subscribers_per_lane=10, window=1000)
    return run_beside_slow(plan, broker, seconds=effort.seconds, workers=effort.workers)


def _partitioned(consumers: int, *, partitions: int = PARTITIONS) -> LoadPlan:
    """Return the plan of a partitioned queue: publishers with keys, and consumers."""
    return LoadPlan(
        publishers_per_lane=4,
        subscribers_per_lane=consumers,
        competing=True,
        qos=1,
        window=4000,
        streams=100,
        key="key-{publisher}-{stream}",
        queue=QUEUE,
        queue_attributes=(
            ("access_type", "non-exclusive"),
            ("partition_count", partitions),
            ("partition_rebalance_delay_s", 0),
        ),
    )


def _rebalance(broker: Broker, effort: Effort) -> Outcome:
    plan = replace(_partitioned(4), publishers_per_lane=1, streams=400, rate=10_000)
    return run_rebalance(plan, broker, seconds=effort.seconds)


def _spark_in_bulk(name: str, question: str) -> Case:
    def run(broker: Broker, effort: Effort) -> Outcome:
        return run_in_bulk(name, broker, rows=effort.spark_rows, timeout_s=effort.timeout_s)

    return Case(name, question, OURS, run)


def _spark_batches(broker: Broker, effort: Effort) -> Outcome:
    return run_micro_batches("spark-batches", broker, timeout_s=effort.timeout_s)


def _bridge(scheme: str) -> Case:
    def run(broker: Broker, effort: Effort) -> Outcome:
        messages = min(effort.waiting_messages, BRIDGED_MAX)
        return run_bridge(broker, scheme=scheme, messages=messages, timeout_s=effort.timeout_s)

    return Case(f"bridge-{scheme}", f"durable messages over a bridge by {scheme}, there and back", OURS, run)


def _link(name: str, question: str, plan: LoadPlan) -> Case:
    """Return a case with publishers at one broker and subscribers at another."""

    def run(broker: Broker, effort: Effort) -> Outcome:
        return run_link(plan, broker, seconds=effort.seconds, workers=effort.workers)

    return Case(name, f"over a link and locally: {question}", OURS, run, _conditions(plan))


def _idle_link(broker: Broker, effort: Effort) -> Outcome:
    return run_idle_link(broker, seconds=effort.seconds)


_PAIRS: Final = (
    _saturated("qos0-1-1", "QoS 0, one publisher to one subscriber, saturated", LoadPlan(window=4000)),
    _saturated("qos0-10-10", "QoS 0, ten pairs, saturated", LoadPlan(lanes=10, window=2000)),
    _saturated("qos1-10-10", "QoS 1, ten pairs, saturated", LoadPlan(lanes=10, qos=1, window=1000)),
    _saturated("qos2-10-10", "QoS 2, ten pairs, saturated", LoadPlan(lanes=10, qos=2, window=1000), QOS2_BROKERS),
    _saturated("wakeup-qos0", "QoS 0, 50 pairs, one message in flight each", LoadPlan(lanes=50)),
    _saturated("wakeup-qos1", "QoS 1, 50 pairs, one message in flight each", LoadPlan(lanes=50, qos=1)),
    _saturated("wakeup-qos2", "QoS 2, 50 pairs, one message in flight each", LoadPlan(lanes=50, qos=2), QOS2_BROKERS),
    _saturated(
        "payload-1mib",
        "QoS 1, two pairs, payloads of 1 MiB",
        LoadPlan(lanes=2, qos=1, window=8, payload_sizes=(1 << 20,)),
    ),
    _saturated("tls-10-10", "QoS 0, ten pairs by TLS", LoadPlan(protocol=MQTT_TLS, lanes=10, window=2000), TLS_BROKERS),
    _saturated(
        "websocket-10-10",
        "QoS 0, ten pairs by WebSocket",
        LoadPlan(protocol=MQTT_WEBSOCKET, lanes=10, window=2000),
        WEBSOCKET_BROKERS,
    ),
)
_FANS: Final = (
    _saturated("fanout-1-50", "QoS 0, each message to 50 subscribers", LoadPlan(subscribers_per_lane=50, window=1000)),
    _saturated(
        "fanin-50-1",
        "QoS 0, 50 publishers to one subscriber",
        LoadPlan(publishers_per_lane=50, window=4000, topic="bench/{lane}/{publisher}", topic_filter="bench/{lane}/#"),
    ),
    _saturated(
        "topics-mixed",
        "QoS 0, ten pairs, 1,000 topics of each publisher, payloads of 20 bytes to 4 KiB",
        replace(MANY_TOPICS, payload_sizes=(20, 100, 100, 500, 4096)),
    ),
    _saturated(
        "shared-2-10",
        "QoS 1, two publishers to five members of a shared subscription each",
        LoadPlan(
            lanes=2,
            subscribers_per_lane=5,
            competing=True,
            qos=1,
            window=1000,
            topic_filter="$share/bench/bench/{lane}",
            subscriber_version=wire.MQTT_5,
        ),
        SHARED_BROKERS,
    ),
    Case(
        "slow-consumers",
        "QoS 0, each message to ten subscribers, and to five that read next to nothing",
        MQTT_BROKERS,
        _beside_slow,
    ),
)
_QUEUES: Final = (
    _saturated(
        "queue-10-10",
        "QoS 1 into ten durable queues and out",
        LoadPlan(lanes=10, qos=1, window=2000, queue=QUEUE),
        OURS,
    ),
    _saturated(
        "queue-qos2-10-10",
        "QoS 2 into ten durable queues and out, to sessions that are kept",
        LoadPlan(lanes=10, qos=2, window=2000, queue=QUEUE, subscriber_id="bench-kept-{lane}"),
        OURS,
    ),
    _saturated("flow-10-10", "flow protocol into ten durable queues and out", _flow(""), OURS),
    _saturated(
        "flow-named-10-10", "the same, with named publishers: each message stored, once", _flow("bench-{lane}"), OURS
    ),
    _amqp(1, 100),
    _amqp(8, 100),
    _amqp(1, 1024),
    _amqp(8, 1024),
    _saturated(
        "amqp-memory",
        "AMQP 1.0, 1 sender to 1 receiver by a topic, settled, in memory",
        LoadPlan(protocol=AMQP, window=AMQP_WINDOW),
        AMQP_BROKERS,
    ),
    _saturated(
        "mqtt-amqp-memory",
        "MQTT QoS 0 in, AMQP 1.0 out, 8 pairs by topics, settled, in memory",
        LoadPlan(protocol=AMQP, publisher_protocol=MQTT, lanes=8, window=AMQP_WINDOW),
        AMQP_BROKERS,
    ),
    _saturated(
        "mqtt-amqp-queue",
        "MQTT QoS 1 into 8 durable queues, AMQP 1.0 out",
        LoadPlan(protocol=AMQP, publisher_protocol=MQTT, lanes=8, qos=1, window=AMQP_WINDOW, queue=QUEUE),
        OURS,
    ),
    _saturated(
        "http-50",
        "50 connections that post a message after the other, to 50 MQTT subscribers with QoS 1",
        LoadPlan(publisher_protocol=HTTP, lanes=50, qos=1),
        OURS,
    ),
    Case(
        "rebalance",
        f"10,000 messages a second through {PARTITIONS} partitions: a fifth consumer comes, another goes",
        OURS,
        _rebalance,
    ),
)
_LATENCIES: Final = tuple(
    case
    for rate in (1_000, 10_000, 50_000)
    for case in (
        _on_time(
            f"latency-qos0-{rate}", f"QoS 0, ten pairs, {rate:,} messages a second", LoadPlan(lanes=10, rate=rate)
        ),
        _on_time(
            f"latency-qos1-{rate}",
            f"QoS 1, ten pairs, {rate:,} messages a second",
            LoadPlan(lanes=10, qos=1, rate=rate),
        ),
        _on_time(
            f"latency-queue-{rate}",
            f"QoS 1 through ten durable queues, {rate:,} messages a second; peers without queues do without",
            LoadPlan(lanes=10, qos=1, rate=rate, queue=QUEUE),
            QUEUE_BROKERS,
        ),
        _on_time(
            f"latency-amqp-{rate}",
            f"AMQP 1.0 through ten durable queues, {rate:,} messages a second",
            LoadPlan(protocol=AMQP, lanes=10, qos=1, rate=rate, queue=QUEUE),
            AMQP_BROKERS,
        ),
    )
)
_LOW_RATES: Final = (
    _on_time("latency-qos1-2000", "QoS 1, ten pairs, 2,000 messages a second", LoadPlan(lanes=10, qos=1, rate=2000)),
    Case(
        "durable-1000",
        "1,000 durable messages a second that are kept",
        DURABLE_BROKERS | REPLICATED_BROKERS,
        _kept(LOW_RATE),
        PERSISTENT,
    ),
    Case(
        "durable-10000",
        "10,000 durable messages a second that are kept",
        DURABLE_BROKERS | REPLICATED_BROKERS,
        _kept(10 * LOW_RATE),
        PERSISTENT,
    ),
    Case(
        "durable-most",
        "as many durable messages as one publisher gets confirmed with 2,000 in flight, all of them kept",
        DURABLE_BROKERS | REPLICATED_BROKERS,
        _most,
        PERSISTENT,
    ),
    Case(
        "durable-alone",
        "a durable message after the other, each confirmed before the next: how long beyond a bare fdatasync",
        DURABLE_BROKERS | REPLICATED_BROKERS,
        _alone,
        PERSISTENT,
    ),
    Case(
        "durable-checkpoints",
        "1,000 durable messages of 10 KiB a second: confirmations beside checkpoints, and before the first one",
        DURABLE_BROKERS,
        _checkpoints,
        PERSISTENT,
    ),
)
_FOOTPRINTS: Final = (
    Case("idle-amqp", "memory of an AMQP connection that does nothing", AMQP_BROKERS, _idle_amqp),
    Case("idle", "memory of a connection that does nothing", MQTT_BROKERS, _idle),
    Case("waiting", "memory of messages that wait", BACKLOG_BROKERS, _waiting),
    *[_recovery(messages) for messages in (10_000, 100_000, 1_000_000, 5_000_000)],
)
_STORMS: Final = (
    Case(
        "storm-connect", "clients that connect and subscribe at once: what one costs", MQTT_BROKERS, _connection_storm
    ),
    Case(
        "storm-topics",
        "the same, each with a subscription to a topic of its own: what one costs",
        MQTT_BROKERS,
        _connection_storm_of_topics,
    ),
    Case("storm-reconnect", "restart after kill -9: until all clients are back", MQTT_BROKERS, _reconnect_storm),
    Case(
        "storm-retained",
        "ten subscribers come for retained messages of as many topics",
        MQTT_BROKERS - {RabbitMq.kind},  # which keeps none for wildcards
        _retained_storm,
    ),
)
# Each a curve: what a message costs as there are more of something.
_CURVES: Final = (
    *[
        _saturated(
            f"partitioned-{consumers}",
            f"QoS 1, 400 keys into a queue of {PARTITIONS} partitions, out to {consumers} consumers",
            _partitioned(consumers),
            OURS,
        )
        for consumers in (1, 2, 4, 8, 16)
    ],
    *[
        _saturated(
            f"partitions-{partitions}",
            f"QoS 1, 400 keys into a queue of {partitions} partitions, out to 4 consumers",
            _partitioned(4, partitions=partitions),
            OURS,
        )
        for partitions in (4, 64, 256)
    ],
    *[
        _saturated(
            f"queues-{count}",
            f"QoS 1 into and out of so many durable queues: {count:,}",
            LoadPlan(lanes=count, qos=1, window=20_000 // count, queue=QUEUE),
            OURS,
        )
        for count in (1, 100, 1000)  # 10 are in queue-10-10
    ],
    *[
        _saturated(
            f"wildcards-{count}",
            f"QoS 0, ten pairs, 1,000 topics of each publisher, beside {count:,} subscriptions with wildcards",
            replace(MANY_TOPICS, unmatched_count=count),
        )
        for count in (0, 100, 1000, 10_000)
    ],
)
_SPARK: Final = (
    _spark_in_bulk("spark-parquet", "Spark reads a queue of messages of 200 bytes, and writes Parquet files"),
    _spark_in_bulk("spark-queue", "Spark publishes what one queue holds to another, in one transaction"),
    Case(
        "spark-batches",
        "Spark archives 500 messages a second, batch after batch: how long one takes",
        OURS,
        _spark_batches,
    ),
)
_WRITES: Final = (
    *[
        Case(
            f"writes-{window}{'-used' if used_by else ''}",
            f"bytes that a spool writes, {'once full' if used_by else 'new'}: 100-byte messages, {window} at a time",
            BACKLOG_BROKERS,
            _writes(window, used_by=used_by),
        )
        for used_by in (0, USED_BY)
        for window in (10, 100, 1000)
    ],
    Case(
        "writes-10kib",
        "bytes that a new spool writes: messages of 10 KiB, 100 at a time",
        BACKLOG_BROKERS,
        _writes(100, payload_bytes=10_240),
    ),
)
_LINKS: Final = (
    _link("link-qos0", "QoS 0, ten pairs, saturated", LoadPlan(lanes=10, window=2000)),
    _link(
        "link-durable",
        "QoS 1 into ten durable queues and out, saturated",
        LoadPlan(lanes=10, qos=1, window=2000, queue=QUEUE),
    ),
    _link("link-qos1", "QoS 1, ten pairs, saturated", LoadPlan(lanes=10, qos=1, window=1000)),
    _link("link-wakeup-qos0", "QoS 0, 50 pairs, one message in flight each", LoadPlan(lanes=50)),
    _link("link-wakeup-qos1", "QoS 1, 50 pairs, one message in flight each", LoadPlan(lanes=50, qos=1)),
    Case("link-idle", "what a link costs that nothing crosses", OURS, _idle_link),
)
_BRIDGES: Final = tuple(_bridge(scheme) for scheme in SCHEMES)

CASES: Final = (
    _PAIRS
    + _FANS
    + _QUEUES
    + _LINKS
    + _BRIDGES
    + _LATENCIES
    + _LOW_RATES
    + _CURVES
    + _STORMS
    + _FOOTPRINTS
    + _WRITES
    + _SPARK
)
