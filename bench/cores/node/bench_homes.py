"""The cost of serving MQTT clients at their homes, with the brokers of one machine in one process.

Run with `python -m bench.cores.node.bench_homes [connections] [messages]`. Clients in a process of their own connect to
the first of two brokers. It is the home of some of them; others are passed to the second one, or relayed if they are in
TLS. They also connect to a broker that is alone on its machine. It prints the processor time of all brokers together:
per connection from CONNECT to its end, and per message of 100 bytes that a client sends to itself, one at a time or
many in a row.
"""

import asyncio
import datetime
import ipaddress
import random
import socket
import ssl
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.gateway.config.load import load
from sluicegate.gateway.node.environment import Environment
from sluicegate.gateway.node.node import Node, open_store
from sluicegate.gateway.node.siblings import Siblings
from sluicegate.messaging.clients.homes import home_of
from sluicegate.protocols.transport.loop import event_loop as socket_loop
from sluicegate.protocols.transport.passing.passage import make_pair

NAMES: Final = ("machine-1", "machine-2")
LISTENERS: Final = ("mqtt", "mqtt_websocket", "amqp", "flow", "http")
TOPIC: Final = b"bench/t"
CONNACK_BYTES: Final = 4
SUBACK_BYTES: Final = 5
IN_A_ROW: Final = 200  # messages of one write


def _field(raw: bytes) -> bytes:
    return len(raw).to_bytes(2, "big") + raw


def _packet(first: int, body: bytes) -> bytes:
    return bytes([first, len(body)]) + body


PUBLISH: Final = _packet(0x30, _field(TOPIC) + bytes(100))


class Client:
    """A client that blocks."""

    def __init__(self, port: int, name: str, authority: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if authority:
            context = ssl.create_default_context(cafile=authority)
            self._socket = context.wrap_socket(self._socket, server_hostname="localhost")
        self._says(_packet(0x10, b"\x00\x04MQTT\x04\x02\x00\x00" + _field(name.encode())), CONNACK_BYTES)

    def subscribe(self) -> None:
        """Subscribe to what it publishes."""
        self._says(_packet(0x82, b"\x00\x01" + _field(TOPIC) + b"\x00"), SUBACK_BYTES)

    def exchange(self, messages: int) -> None:
        """Send messages together, and wait until all are back."""
        self._says(PUBLISH * messages, messages * len(PUBLISH))

    def leave(self) -> None:
        """Disconnect, and wait for the broker to close."""
        self._says(b"\xe0\x00", 0)
        while self._socket.recv(65_536):
            pass
        self._socket.close()

    def _says(self, data: bytes, answer_bytes: int) -> None:
        self._socket.sendall(data)
        while answer_bytes > 0:
            answer_bytes -= len(self._socket.recv(65_536))


def run_client(port: int, home: int, work: str, count: int, authority: str) -> None:
    """Do the work of the clients' process."""
    names = [name for name in map("client-{}".format, range(1000)) if home_of(name, 2) == home]
    if work == "connections":
        for number in range(count):
            Client(port, names[number % len(names)], authority).leave()
        return
    client = Client(port, names[0], authority)
    client.subscribe()
    together = IN_A_ROW if work == "in a row" else 1
    for _ in range(count // together):
        client.exchange(together)
    client.leave()


def _write_certificate(folder: Path) -> None:
    """Write a certificate for localhost that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


async def _start(folder: Path, name: str, siblings: Siblings | None) -> Node:
    """Start a broker."""
    settings = [
        f"data.path={folder / name}",
        f"node.name={name}",
        "admin.enabled=false",
        *[f"listeners.{name}.port=0" for name in LISTENERS],
        *[f"listeners.mqtt_tls.{key}" for key in ("enabled=true", "port=0")],
        f"listeners.mqtt_tls.certificate={folder / 'certificate'}",
        f"listeners.mqtt_tls.key={folder / 'key'}",
    ]
    config = load(None, environment={}, settings=settings)
    around = Environment(siblings=siblings)
    node = Node(config, store=open_store(config), clock=SystemClock(), rng=random.Random(1), environment=around)
    await node.start()
    return node


async def _start_two(folder: Path) -> list[Node]:
    """Start two brokers of one machine."""
    siblings = [Siblings(number, NAMES, len(NAMES)) for number in (1, 2)]
    for each, end, other in zip(siblings, make_pair(), (2, 1), strict=True):
        each.met(other, end)
    return [await _start(folder, each.name, each) for each in siblings]


async def measure(node: Node, listener: str, home: int, work: str, count: int, authority: str) -> float:
    """Return microseconds of processor time of both brokers for each connection or message."""
    port = node.mqtt.listeners[listener].port
    arguments = [str(port), str(home), work, str(count), authority]
    started_ns = time.process_time_ns()
    clients = await asyncio.create_subprocess_exec(sys.executable, "-m", __spec__.name, "clients", *arguments)
    if await clients.wait() != 0:
        raise SystemExit("the clients have failed")
    return (time.process_time_ns() - started_ns) / 1000 / count


async def run(connections: int, messages: int) -> None:
    """Measure all, and print it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_certificate(folder)
        alone = await _start(folder, "alone", None)
        nodes = await _start_two(folder)
        print(f"{'':24} {'alone':>9} {'at home':>9} {'elsewhere':>9}  microseconds")
        for listener, authority in (("mqtt", ""), ("mqtt_tls", str(folder / "certificate"))):
            for work, count in (("connections", connections), ("one at a time", messages), ("in a row", 10 * messages)):
                found = [
                    await measure(node, listener, home, work, count, authority)
                    for node, home in ((alone, 1), (nodes[0], 1), (nodes[0], 2))
                ]
                print(f"{listener + ', ' + work:24}" + "".join([f" {each:9.1f}" for each in found]), flush=True)
        for node in (alone, *nodes):
            await node.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["clients"]:
        run_client(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]), sys.argv[6])
    else:
        given = [int(each) for each in sys.argv[1:]]
        socket_loop.run(run(*(given + [2_000, 5_000][len(given) :])))
