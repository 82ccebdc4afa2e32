"""The cost of the broker's own code for one message from an AMQP sender to an AMQP receiver, without sockets.

Run with `python -m bench.cores.node.bench_amqp_relay [queue|topic] [batch] [messages]`, or by its path. The whole path
is real, from the transfers of the sender to the transfers and dispositions of the receiver; only the transports are
lists. The program prints microseconds per message.
"""

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":  # called by its path: at the end, so that the installed gateway is imported
    sys.path.append(str(Path(__file__).resolve().parents[3]))

from bench.cores.node.bench_unbatched import ListTransport
from bench.wire import amqp as wire
from sluicegate.actors.messages.directory import NAMED, CreateQueue
from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.gateway.config.load import load
from sluicegate.gateway.node.node import Node, open_store
from sluicegate.messaging.queues.definition import definition_from_dict
from sluicegate.protocols.amqp.connection import AmqpConnection
from sluicegate.protocols.transport.interface import Connection, PeerRecord
from sluicegate.protocols.transport.loop import event_loop as socket_loop

QUEUE = "relay"
TOPIC = "topic://relay/t"
PAYLOAD_BYTES = 100
CREDIT = 100_000  # granted anew when half of it is used
ROUNDS = 3


class Relay:
    """A node with a sender and a receiver."""

    def __init__(self, node: Node, address: str) -> None:
        self.node = node
        self.direct = address == TOPIC
        self.sender, self.receiver = node.amqp._connect(), node.amqp._connect()
        self.out: dict[Connection, ListTransport] = {self.sender: ListTransport(), self.receiver: ListTransport()}
        self.sent = 0
        self.granted = CREDIT
        self._address = address

    async def open(self) -> None:
        """Attach both ends."""
        for connection, name in ((self.receiver, "r"), (self.sender, "s")):
            connection.opened(self.out[connection], PeerRecord(listener="amqp", host="test", port=1))
            attach = wire.attach(name, self._address, is_receiver=name == "r", settled=self.direct)
            connection.received(wire.opening(name) + attach)
            for _ in range(20):  # the turns of the loop that attaching takes
                await asyncio.sleep(0.01)
        self.receiver.received(wire.flow(0, CREDIT))
        await asyncio.sleep(0.05)
        assert isinstance(self.sender, AmqpConnection)
        (self.link,) = self.sender.engine.sessions.by_channel[0].incoming.values()

    def frames(self, count: int) -> bytes:
        """Return the transfers of the next messages."""
        template, id_at, tag_at, _ = wire.transfer_template(PAYLOAD_BYTES, settled=self.direct)
        frames = bytearray(template * count)
        for row in range(count):
            number = (self.sent + row).to_bytes(4, "big")
            at = row * len(template)
            frames[at + id_at : at + id_at + 4] = number
            frames[at + tag_at : at + tag_at + 4] = number
        return bytes(frames)

    async def relay(self, frames: bytes, count: int) -> None:
        """Relay `count` messages."""
        receiver = self.receiver
        while self.link.credit < count:
            await asyncio.sleep(0)
        written = self.out[receiver]
        written.written = []
        self.sender.received(frames)
        while not written.written:  # once, unless the turn was cut short
            await asyncio.sleep(0)
        first, self.sent = self.sent, self.sent + count
        if not self.direct:
            receiver.received(wire.accepted(first, self.sent - 1))
        if self.granted - self.sent <= CREDIT // 2:
            receiver.received(wire.flow(self.sent, CREDIT))
            self.granted = self.sent + CREDIT


async def measure(address: str, batch: int, messages: int) -> float:
    """Return microseconds per message."""
    with tempfile.TemporaryDirectory() as folder:
        # With this credit nobody waits for the disk, which would be counted: the loop turns meanwhile.
        settings = [f"data.path={folder}", "admin.enabled=false", "amqp.link_credit=20000"]
        config = load(None, environment={}, settings=settings)
        node = Node(config, store=open_store(config), clock=SystemClock(), rng=random.Random(1))
        await node.default.queues.ask(CreateQueue(definition_from_dict({"name": QUEUE}), NAMED, durable=True))
        relay = Relay(node, address)
        await relay.open()
        taken_ns = 0
        for _ in range(messages // batch):
            frames = relay.frames(batch)
            started_ns = time.process_time_ns()
            await relay.relay(frames, batch)
            taken_ns += time.process_time_ns() - started_ns
        node.services.store.close()
        return taken_ns / (messages // batch * batch) / 1000


def main() -> None:
    """Measure both cases, or the requested one."""
    ways = {"queue": QUEUE, "topic": TOPIC}
    chosen = [sys.argv[1]] if len(sys.argv) > 1 else list(ways)
    batch = int(sys.argv[2]) if len(sys.argv) > 2 else 250
    messages = int(sys.argv[3]) if len(sys.argv) > 3 else 200_000
    for name in chosen:
        taken_us = min(socket_loop.run(measure(ways[name], batch, messages)) for _ in range(ROUNDS))
        print(f"{name}, {batch} in a read: {taken_us:.2f} us per message")


if __name__ == "__main__":
    main()
