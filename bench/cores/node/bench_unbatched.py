"""The cost of the broker's own code for one publisher and one subscriber, one message per wake-up, without sockets.

Run with `python -m bench.cores.node.bench_unbatched [qos] [messages] [messages per read] [ready]`. Several messages per
read show the opposite extreme; the maximum is 256, the number of messages a 3.x client may hold unacknowledged. The
whole path is real: the bytes of the publisher, the engine, publisher, partition and delivery, the bytes for the
subscriber, and all acknowledgements. Only the transports are lists, and the program calls the turns of the loop itself.
It prints microseconds per message. With `ready` it tells `bench.instructions` when to count.
"""

import asyncio
import random
import sys
import tempfile
import time
from typing import Final

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.gateway.config.load import load
from sluicegate.gateway.node.node import Node, open_store
from sluicegate.protocols.transport.interface import ByteTransport, Connection, PeerRecord, ReadTarget
from sluicegate.protocols.transport.loop import event_loop as socket_loop

LISTENERS: Final = ("mqtt", "mqtt_websocket", "amqp", "flow", "http")
TOPIC: Final = b"bench/t"
ID_AT: Final = 4 + len(TOPIC)  # of a packet id, in a PUBLISH shorter than 128 bytes
PUBACK: Final = b"\x40\x02"
PUBREC: Final = b"\x50\x02"
PUBREL: Final = b"\x62\x02"
PUBCOMP: Final = b"\x70\x02"
READY: Final = "ready"  # as in `bench_scaling`, which a program that is called by its path cannot import
WARM_UP_READS: Final = 20  # which make what is made once


class ListTransport:
    """Receives the writes of a connection."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Keep the last write."""
        self.written = [data]

    def write_all(self, buffers: list[bytes]) -> None:
        """Keep the last write."""
        self.written = buffers

    def close(self) -> None:
        """Nothing to close."""

    def close_after_flush(self) -> None:
        """Nothing to close."""

    def abort(self) -> None:
        """Nothing to close."""

    def pause_reading(self) -> None:
        """Do nothing: no data comes from here."""

    def resume_reading(self) -> None:
        """Do nothing: no data comes from here."""

    def read_into(self, target: ReadTarget) -> None:
        """Ignore the buffer."""

    def buffered_bytes(self) -> int:
        """Return 0: all was written."""
        return 0

    def direct(self) -> ByteTransport:
        """Return this."""
        return self

    def hand_over(self, connection: Connection) -> None:
        """Do nothing: no data comes from here."""


def _connect(client_id: bytes) -> bytes:
    body = b"\x00\x04MQTT\x04\x02\x00\x00" + len(client_id).to_bytes(2, "big") + client_id
    return bytes([0x10, len(body)]) + body


def _subscribe(topic: bytes, qos: int) -> bytes:
    body = b"\x00\x01" + len(topic).to_bytes(2, "big") + topic + bytes([qos])
    return bytes([0x82, len(body)]) + body


def _publish(topic: bytes, qos: int, packet_id: int) -> bytes:
    ids = packet_id.to_bytes(2, "big") if qos else b""
    body = len(topic).to_bytes(2, "big") + topic + ids + bytes(64)
    return bytes([0x30 | qos << 1, len(body)]) + body


def _table(head: bytes) -> bytes:
    """Return the acknowledgements of all packet ids, with this beginning."""
    return b"".join([head + packet_id.to_bytes(2, "big") for packet_id in range(65_536)])


def _acknowledge(written: bytes, count: int, table: bytes) -> bytes:
    """Return the acknowledgements of PUBLISH packets of equal length, whose ids ascend and may wrap to 1 once."""
    at = len(written) // count * (count - 1) + ID_AT
    first, last = int.from_bytes(written[ID_AT : ID_AT + 2], "big"), int.from_bytes(written[at : at + 2], "big")
    return table[4 * first : 4 * (last + 1)] if first <= last else table[4 * first :] + table[4 : 4 * (last + 1)]


async def _answered(transport: ListTransport) -> None:
    """Wait for the broker's next answer."""
    transport.written = []
    while not transport.written:
        await asyncio.sleep(0.01)


def _tell(line: str) -> None:
    """Tell a counting program, and wait until it has begun or ended."""
    print(line, flush=True)
    sys.stdin.readline()


async def measure(qos: int, messages: int, in_a_read: int = 1, *, told: bool = False) -> float:
    """Return microseconds per message; `told` tells a counting program when to count."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"data.path={folder}", "admin.enabled=false", *[f"listeners.{name}.port=0" for name in LISTENERS]]
        config = load(None, environment={}, settings=settings)
        node = Node(config, store=open_store(config), clock=SystemClock(), rng=random.Random(1))
        await node.start()
        turn = node.services.runtime.dispatcher._turn
        publisher, subscriber = node.mqtt._connect(), node.mqtt._connect()
        out: dict[Connection, ListTransport] = {publisher: ListTransport(), subscriber: ListTransport()}
        for connection, name in ((publisher, b"p"), (subscriber, b"s")):
            connection.opened(out[connection], PeerRecord(listener="mqtt", host="test", port=1))
            connection.received(_connect(name))
            await _answered(out[connection])
        subscriber.received(_subscribe(TOPIC, qos))
        await _answered(out[subscriber])
        # From here on nobody runs the loop: turns are called by hand, and the loop must not gather them.
        node.services.runtime.dispatcher._call_soon = lambda _: None
        packets = [_publish(TOPIC, qos, packet_id) for packet_id in range(1, 65_536)]
        reads = [b"".join(packets[at : at + in_a_read]) for at in range(0, 65_536 - in_a_read, in_a_read)]
        pubacks, pubrecs, pubrels, pubcomps = (_table(head) for head in (PUBACK, PUBREC, PUBREL, PUBCOMP))
        started = 0
        for number in range(WARM_UP_READS + messages // in_a_read):
            if number == WARM_UP_READS:
                if told:
                    _tell(READY)
                started = time.process_time_ns()
            read = reads[number % len(reads)]
            publisher.received(read)
            out[subscriber].written = []
            while not out[subscriber].written:  # once, unless the turn was cut short
                turn()
            got = out[subscriber].written[0]
            if qos == 1:
                subscriber.received(_acknowledge(got, in_a_read, pubacks))
                turn()
            elif qos == 2:
                subscriber.received(_acknowledge(got, in_a_read, pubrecs))
                turn()
                subscriber.received(_acknowledge(got, in_a_read, pubcomps))
                turn()
                publisher.received(_acknowledge(read, in_a_read, pubrels))
                turn()
        elapsed = time.process_time_ns() - started
        if told:
            _tell(str(messages))
        node.services.store.close()
        return elapsed / messages / 1000


def main() -> None:
    """Measure all cases, or the requested ones."""
    levels = [int(sys.argv[1])] if len(sys.argv) > 1 else [0, 1, 2]
    messages = int(sys.argv[2]) if len(sys.argv) > 2 else 200_000
    in_a_read = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if READY in sys.argv[4:]:
        socket_loop.run(measure(levels[0], messages, in_a_read, told=True))
        return
    for qos in levels:
        best = min(socket_loop.run(measure(qos, messages, in_a_read)) for _ in range(3))
        print(f"QoS {qos}: {best:.2f} us per message")


if __name__ == "__main__":
    main()
