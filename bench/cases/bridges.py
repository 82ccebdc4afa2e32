"""The case of a bridge between two brokers: what a message costs the one that has the bridge, in both directions.

A backlog of that broker crosses, and then one of the other broker, which shares the core of the generator. Both are
read and checked behind the bridge.
"""

import time
from typing import Any, Final

from bench.brokers import measure
from bench.brokers.broker import Broker, BrokerError
from bench.brokers.gateway import Sluicegate
from bench.cases.footprint import QUEUE, drain, fill, prepare_backlog
from bench.cases.load_processes import LoadError
from bench.load.outcome import Faults, Figure, Outcome
from bench.load.plan import AMQP, FLOW, MQTT

SCHEMES: Final = (MQTT, AMQP, FLOW)
WINDOW_MESSAGES: Final = 2000  # unconfirmed ones of the bridge
LOOK_S: Final = 0.1  # between two looks at what the bridge has carried
NAME: Final = "bench"


def run_bridge(broker: Broker, *, scheme: str, messages: int, timeout_s: float) -> Outcome:
    """Have a bridge carry so many messages to another Sluicegate, and so many from there."""
    if not isinstance(broker, Sluicegate):
        raise BrokerError(f"{broker.kind} has no bridges")
    other = broker.another("other")
    try:
        prepare_backlog(broker)
        prepare_backlog(other)
        host, port = other.address_of(scheme)
        bridge = {"name": NAME, "remote_url": f"{scheme}://{host}:{port}", "window_messages": WINDOW_MESSAGES}
        # MQTT has no queues: messages keep the topic that the other broker's queue collects.
        target = {} if scheme == MQTT else {"remote_queue": QUEUE}
        source = {"remote_topic": f"$queue/{QUEUE}"} if scheme == MQTT else {"remote_queue": QUEUE}
        fill(broker, messages, timeout_s)
        there = _carry(broker, {**bridge, "outgoing": [{"queue": QUEUE, **target}]}, messages, timeout_s)
        drained, _ = drain(other, messages, timeout_s)
        faults = drained.faults
        fill(other, messages, timeout_s)
        here = _carry(broker, {**bridge, "incoming": [{**source, "queue": QUEUE}]}, messages, timeout_s)
        drained, _ = drain(broker, messages, timeout_s)
    finally:
        other.stop()
    return Outcome(
        headline=Figure("sent per broker CPU-second", messages / there[0], "msg/CPU-s"),
        higher_is_better=True,
        figures=(
            Figure("received", messages / here[0], "msg/CPU-s"),
            Figure("sent", messages / there[1], "msg/s"),
            Figure("received", messages / here[1], "msg/s"),
        ),
        faults=Faults(
            faults.lost + drained.faults.lost,
            faults.duplicated + drained.faults.duplicated,
            faults.disordered + drained.faults.disordered,
        ),
    )


def _carry(broker: Sluicegate, bridge: dict[str, Any], messages: int, timeout_s: float) -> tuple[float, float]:
    """Make a bridge, wait until it has carried all, and delete it; return seconds of the processor and of the wall."""
    cpu_s, begun_s = measure.cpu_seconds(broker.pid), time.monotonic()
    broker.admin("POST", "/bridges", bridge)
    while (carried := (view := broker.admin("GET", f"/bridges/{NAME}"))["rules"][0]["messages"]) < messages:
        if time.monotonic() > begun_s + timeout_s:
            raise LoadError(f"the bridge has carried {carried} of {messages} messages; {view['reason']}")
        time.sleep(LOOK_S)
    taken = measure.cpu_seconds(broker.pid) - cpu_s, time.monotonic() - begun_s
    broker.admin("DELETE", f"/bridges/{NAME}")
    return taken
