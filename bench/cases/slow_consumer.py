"""The case of slow consumers beside fast ones: the fast ones must not be affected."""

import select
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from bench.brokers.broker import Broker
from bench.cases.throughput import run_throughput
from bench.load.mqtt import open_session, subscribe
from bench.load.outcome import Outcome
from bench.load.plan import LoadPlan
from bench.wire import mqtt as wire
from bench.wire.connections import Connection

SLOW_COUNT: Final = 5
READ_BYTES: Final = 4096
READ_EACH_S: Final = 0.1  # so 40 kB a second


def run_beside_slow(plan: LoadPlan, broker: Broker, *, seconds: float, workers: int) -> Outcome:
    """Run a plan while some more subscribers of its first lane read next to nothing. What those miss is their loss."""
    with _slow_readers(plan, broker):
        return run_throughput(plan, broker, seconds=seconds, workers=workers)


@contextmanager
def _slow_readers(plan: LoadPlan, broker: Broker) -> Iterator[None]:
    topic_filter = (plan.topic_filter or "").format(lane=0)
    ended = threading.Event()
    with ExitStack() as stack:
        readers: list[Connection] = []
        for number in range(SLOW_COUNT):
            packet = wire.connect(f"bench-slow-{number}", version=wire.MQTT_3_1_1)
            connection = stack.enter_context(open_session(broker.address_of(plan.protocol), packet))
            subscribe(connection, topic_filter, qos=plan.qos, version=wire.MQTT_3_1_1)
            readers.append(connection)
        thread = threading.Thread(target=_read_slowly, args=(readers, ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _read_slowly(readers: list[Connection], ended: threading.Event) -> None:
    while readers and not ended.wait(READ_EACH_S):
        for reader in select.select([each.socket for each in readers], [], [], 0)[0]:
            try:
                left = reader.recv(READ_BYTES)
            except OSError:
                left = b""
            if not left:  # a broker may send away who does not read
                readers[:] = [each for each in readers if each.socket is not reader]
