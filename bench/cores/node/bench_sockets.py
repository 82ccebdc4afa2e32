"""The cost of a message that comes alone, over real sockets: the broker's own code, its loop, and Python's sockets.

Run with `python -m bench.cores.node.bench_sockets [qos] [messages] [ready]`; QoS 0 or 1. A publisher and a subscriber
in a process of their own send one message at a time, and wait until it has come and is confirmed. It prints
microseconds of processor time per message. With `ready` it tells `bench.instructions` when to count.
"""

import socket
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.cores.node.bench_scaling import READY
from bench.cores.node.bench_storm import start
from bench.cores.node.counted import measured, tell
from bench.wire import mqtt as wire
from sluicegate.protocols.transport.loop import event_loop as socket_loop

TOPIC: Final = "bench/t"
PAYLOAD_BYTES: Final = 64
WARM_UP: Final = 200
MESSAGES: Final = 3_000
IDS: Final = 60_000


async def measure(qos: int, messages: int, *, told: bool) -> float:
    """Return microseconds of processor time per message; `told` tells a counting program when to count."""
    with tempfile.TemporaryDirectory() as folder:
        node = await start(Path(folder), "alone", None)
        arguments = [str(node.mqtt.listeners["mqtt"].port), str(qos), str(messages)]
        taken_us = await measured(__spec__.name, arguments, messages, told=told)
        await node.stop()
        return taken_us


def run_clients(port: int, qos: int, messages: int) -> None:
    """Do the work of the clients' process."""
    publisher, subscriber = [_connected(port, name) for name in ("p", "s")]
    subscriber.sendall(wire.subscribe(TOPIC, qos=qos, version=wire.MQTT_3_1_1))
    subscriber.recv(4096)
    header = wire.publish_header(TOPIC, qos=qos, payload_bytes=PAYLOAD_BYTES)
    packets, ends = wire.publish_stream([header], cycle=IDS)
    acks = wire.ack_stream(wire.PUBACK, IDS)
    for number in range(WARM_UP + messages):
        if number == WARM_UP:
            tell(READY)
        place = number % IDS
        publisher.sendall(packets[ends[place] : ends[place + 1]])
        received = subscriber.recv(4096)
        if qos:
            at = header.packet_id_at
            assert at is not None
            packet_id = int.from_bytes(received[at : at + 2], "big")
            subscriber.sendall(acks[4 * packet_id - 4 : 4 * packet_id])
            publisher.recv(4096)
    tell("all have come")


def _connected(port: int, name: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(wire.connect(name, version=wire.MQTT_3_1_1))
    client.recv(4096)
    return client


async def _run(qos: int, messages: int, *, told: bool) -> None:
    taken_us = await measure(qos, messages, told=told)
    if not told:
        print(f"QoS {qos}: {taken_us:.2f} us per message")


def main() -> None:
    """Measure, and print it."""
    given = [int(each) for each in sys.argv[1:] if each != READY]
    qos, messages = given + [1, MESSAGES][len(given) :]
    socket_loop.run(_run(qos, messages, told=READY in sys.argv[1:]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["clients"]:
        run_clients(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
