"""Cases that measure what waits: idle connections, a backlog in memory and on disk, and a restart with a backlog.

Each of these cases drains its backlog afterwards, and counts the messages.
"""

import time
from typing import Final

from bench.brokers import measure
from bench.brokers.broker import Broker
from bench.brokers.gateway import Sluicegate
from bench.cases.load_processes import LoadError, run_load
from bench.load.amqp import open_connection
from bench.load.mqtt import open_session, subscribe
from bench.load.outcome import Figure, LoadReport, Outcome
from bench.load.plan import AMQP, MQTT, LoadPlan
from bench.wire import mqtt as wire
from bench.wire.connections import Connection

CONNECTIONS_FIRST: Final = 10  # opened before the first look, so that what a broker makes once is not counted
WINDOW: Final = 2000
SETTLE_TIMEOUT_S: Final = 15.0
SETTLE_STEP_S: Final = 1.0
SETTLED_GROWTH_MAX: Final = 0.005  # of the resident memory, within a step
QUEUE: Final = "backlog"
TOPIC: Final = "backlog/0"
PAYLOAD_BYTES: Final = 100
USED_WINDOW: Final = 2000  # of messages that come and go before a case


def run_idle_connections(broker: Broker, *, connections: int, protocol: str = MQTT) -> Outcome:
    """Open idle connections, and measure the growth of the broker's memory."""
    idle = [_open_idle(broker, protocol, number) for number in range(CONNECTIONS_FIRST)]
    try:
        before = _settled_memory(broker)
        cpu_before_s, begun_s = measure.cpu_seconds(broker.pid), time.monotonic()
        for number in range(CONNECTIONS_FIRST, CONNECTIONS_FIRST + connections):
            idle.append(_open_idle(broker, protocol, number))
        connect_s = time.monotonic() - begun_s
        connect_cpu_s = measure.cpu_seconds(broker.pid) - cpu_before_s
        grown = _settled_memory(broker).minus(before)
    finally:
        for connection in idle:
            connection.close()
    return Outcome(
        headline=Figure("RSS per connection", grown.rss_bytes / connections, "B"),
        higher_is_better=False,
        figures=(
            Figure("anonymous per connection", grown.anonymous_bytes / connections, "B"),
            Figure("broker CPU per connect", 1e6 * connect_cpu_s / connections, "us"),
            Figure("connects", connections / connect_s, "1/s"),
        ),
    )


def run_waiting(broker: Broker, *, messages: int, timeout_s: float) -> Outcome:
    """Store messages in a durable queue or, at a peer without queues, in the session of an absent subscriber."""
    before = _settled_memory(broker)
    prepare_backlog(broker)
    filled, fill_s = fill(broker, messages, timeout_s)
    grown = _settled_memory(broker)
    drained, drain_s = drain(broker, messages, timeout_s)
    return Outcome(
        headline=Figure("RSS", grown.rss_bytes / measure.MIB, "MiB"),
        higher_is_better=False,
        figures=(
            Figure("RssAnon", grown.anonymous_bytes / measure.MIB, "MiB"),
            Figure("RSS when empty", before.rss_bytes / measure.MIB, "MiB"),
            Figure("confirmed", filled.confirmed / fill_s, "msg/s"),
            Figure("drained", drained.received / drain_s, "msg/s"),
        ),
        faults=drained.faults,
    )


def run_recovery(broker: Broker, *, messages: int, timeout_s: float) -> Outcome:
    """Kill a broker with a backlog, and measure how long a new one takes to be ready. No message may be missing."""
    broker.kill()
    empty_s = broker.restart()
    prepare_backlog(broker)
    fill(broker, messages, timeout_s)
    broker.kill_when_saved()
    recovery_s = broker.restart()
    drained, _ = drain(broker, messages, timeout_s)
    return Outcome(
        headline=Figure("restart until ready", recovery_s, "s"),
        higher_is_better=False,
        figures=(Figure("restart when empty", empty_s, "s"),),
        faults=drained.faults,
    )


def run_writes(
    broker: Broker, *, window: int, messages: int, payload_bytes: int, used_by: int, timeout_s: float
) -> Outcome:
    """Fill and drain a queue, after `used_by` other messages came and went; count the bytes that are written.

    The bytes are those of /proc/PID/io: what the processes of the broker have handed to disks, in pages of 4 KiB.
    """
    prepare_backlog(broker)
    if used_by:
        fill(broker, used_by, timeout_s, window=USED_WINDOW)
        drain(broker, used_by, timeout_s, window=USED_WINDOW)
    payload = messages * payload_bytes
    began = measure.written_bytes(broker.pid)
    _, fill_s = fill(broker, messages, timeout_s, window=window, payload_bytes=payload_bytes)
    filled = measure.written_bytes(broker.pid)
    drained, _ = drain(broker, messages, timeout_s, window=window, payload_bytes=payload_bytes)
    ended = measure.written_bytes(broker.pid)
    return Outcome(
        headline=Figure("bytes written per byte of payload, filled and drained", (ended - began) / payload, "B/B"),
        higher_is_better=False,
        figures=(
            Figure("to fill", (filled - began) / payload, "B/B"),
            Figure("per window that was filled", (filled - began) / messages * window / 1024, "KiB"),
            Figure("confirmed", messages / fill_s, "msg/s"),
        ),
        faults=drained.faults,
    )


def prepare_backlog(broker: Broker) -> None:
    """Make what keeps messages: a durable queue, or at a peer without queues the session of an absent subscriber."""
    if isinstance(broker, Sluicegate):
        broker.create_queue(QUEUE, TOPIC)
        return
    packet = wire.connect(QUEUE, version=wire.MQTT_3_1_1, clean=False)
    with open_session(broker.address_of(MQTT), packet) as connection:
        subscribe(connection, TOPIC, qos=1, version=wire.MQTT_3_1_1)


def fill(
    broker: Broker,
    messages: int,
    timeout_s: float,
    *,
    topic: str = TOPIC,
    payload_bytes: int = PAYLOAD_BYTES,
    window: int = WINDOW,
) -> tuple[LoadReport, float]:
    """Publish so many messages; return the report and the seconds. Raises LoadError unless all are confirmed."""
    plan = LoadPlan(
        subscribers_per_lane=0,
        qos=1,
        window=window,
        messages_per_lane=messages,
        topic=topic,
        payload_sizes=(payload_bytes,),
    )
    report, taken_s = run_to_end(plan, broker, timeout_s)
    if report.confirmed != messages:
        raise LoadError(f"{report.confirmed} of {messages} messages were confirmed")
    return report, taken_s


def drain(
    broker: Broker, messages: int, timeout_s: float, *, window: int = WINDOW, payload_bytes: int = PAYLOAD_BYTES
) -> tuple[LoadReport, float]:
    """Consume so many messages, which `fill` published with this window; return what came of it, and the seconds."""
    queue = isinstance(broker, Sluicegate)
    plan = LoadPlan(
        publishers_per_lane=0,
        qos=1,
        window=window,  # makes the same cycle of sequences as `fill`
        payload_sizes=(payload_bytes,),
        messages_per_lane=messages,
        topic_filter=f"$queue/{QUEUE}" if queue else None,
        subscriber_version=wire.MQTT_5 if queue else wire.MQTT_3_1_1,
        subscriber_id=None if queue else QUEUE,
    )
    return run_to_end(plan, broker, timeout_s)


def run_to_end(plan: LoadPlan, broker: Broker, timeout_s: float) -> tuple[LoadReport, float]:
    """Run a plan that ends by itself; return its report and the seconds it took."""
    begun_s = time.monotonic()
    with run_load(plan, broker, workers=1) as load:
        report = load.report(timeout_s)
    return report, time.monotonic() - begun_s


def _open_idle(broker: Broker, protocol: str, number: int) -> Connection:
    if protocol == AMQP:
        return open_connection(broker.address_of(protocol), f"bench-idle-{number}")
    return open_session(broker.address_of(MQTT), wire.connect(f"bench-idle-{number}", version=wire.MQTT_3_1_1))


def _settled_memory(broker: Broker) -> measure.Memory:
    """Return the memory once it no longer changes, or after a limit of time."""
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    former = measure.memory(broker.pid)
    while time.monotonic() < deadline_s:
        time.sleep(SETTLE_STEP_S)
        now = measure.memory(broker.pid)
        if abs(now.rss_bytes - former.rss_bytes) <= SETTLED_GROWTH_MAX * former.rss_bytes:
            return now
        former = now
    return former
