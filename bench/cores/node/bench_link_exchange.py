"""Benchmark of a link: what subscriptions, changes of them and direct messages cost that cross it.

Both ends are in this process, joined in memory: topic space, exchange of interests, frames, decoding, the neighbor's
index. Sockets, which every connection has, are left out. Times are processor time of this thread, the best of several
rounds, for both brokers together where nothing else is said.

Run with `python bench/cores/node/bench_link_exchange.py`, the repository's root on PYTHONPATH; for the compiled
figures, after a compiled build.
"""

import gc
from collections.abc import Callable
from functools import partial
from time import thread_time_ns
from typing import Final

from sluicegate.actors.network.link_batches import link_batch_at, link_body
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.network.exchange import InterestReceiver, InterestSender
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.network.neighbors import NeighborInterest
from sluicegate.messaging.network.times import arriving, leaving
from sluicegate.messaging.routing.destinations import Subscriber, Subscription
from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.flow.codec.frame import cut_frame
from sluicegate.protocols.flow.codec.frames.link import LinkMessages, read_link_frame
from sluicegate.protocols.network.exchange.interest_frames import notice_body, notice_in

SUBSCRIPTIONS: Final = 100_000
CHANGES: Final = 2_000
MESSAGES: Final = 100_000
ROUNDS: Final = 3
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024


class TwoBrokers:
    """A broker with subscriptions, and its neighbor."""

    def __init__(self) -> None:
        self.space = TopicSpace()
        self.client = Subscriber("client")
        self.sender = InterestSender()
        self.receiver = InterestReceiver()
        self.neighbor = NeighborInterest()
        self.output = LinkOutput("b")
        self.sender.change(self.space.exported().export_to(self.output, self.sender.change, ExportRules()))

    def subscribes(self, first: int, count: int) -> None:
        """Subscribe a client to filters of four levels."""
        for number in range(first, first + count):
            text = f"plant/{number % 50}/machine/{number}/+"
            self.space.subscribe(parse_filter(text, Syntax.MQTT), self.client.key, Subscription(self.client, 1))

    def exchanges(self) -> None:
        """Send what is to be sent."""
        for notice in self.sender.notices():
            received = notice_in(notice_body(notice))
            self.neighbor.change(self.output, self.receiver.take(received))
            self.sender.acknowledged(notice.number)

    def connects(self) -> None:
        """Begin with a connection."""
        self.sender.connected(self.receiver.connected(), 1 << 20, 1 << 20)
        self.exchanges()


def best_ns(make: Callable[[], Callable[[], object]]) -> float:
    """Return the least time that an action took; `make` prepares it anew for each round."""
    found = float("inf")
    for _ in range(ROUNDS):
        action = make()
        gc.collect()
        gc.disable()
        began = thread_time_ns()
        action()
        found = min(found, thread_time_ns() - began)
        gc.enable()
    return found


def first_connection() -> Callable[[], object]:
    """Prepare a connection to a neighbor that knows nothing."""
    brokers = TwoBrokers()
    brokers.subscribes(0, SUBSCRIPTIONS)
    return brokers.connects


def connection_after_a_break() -> Callable[[], object]:
    """Prepare a connection to a neighbor that knows all but one subscription."""
    brokers = TwoBrokers()
    brokers.subscribes(0, SUBSCRIPTIONS)
    brokers.connects()
    brokers.sender.disconnected()
    brokers.subscribes(SUBSCRIPTIONS, 1)
    return brokers.connects


def changes() -> Callable[[], object]:
    """Prepare single changes, each sent at once, beside many subscriptions."""
    brokers = TwoBrokers()
    brokers.subscribes(0, SUBSCRIPTIONS)
    brokers.connects()

    def change() -> None:
        for number in range(CHANGES):
            brokers.subscribes(SUBSCRIPTIONS + number, 1)
            brokers.exchanges()

    return change


def batch_of(count: int) -> MessageBatch:
    """Return messages of 100 bytes on one topic."""
    payloads = [b"x" * 100] * count
    return MessageBatch(
        topic="plant/7/machine/12/temperature",
        topics=None,
        payloads=payloads,
        headers=None,
        qos=AT_MOST_ONCE,
        retain=False,
        publisher="meter-17",
        received_ms=0,
        payload_bytes=100 * count,
    )


def sending(rows: int) -> Callable[[], object]:
    """Prepare the sender's part of messages in batches of so many: body and frame."""
    batches = [batch_of(rows) for _ in range(MESSAGES // rows)]

    def send() -> None:
        for batch in batches:
            alive = leaving(batch, 1)
            assert alive is not None
            LinkMessages(1, 1, 1, (), link_body(alive)).encode()

    return send


def receiving(rows: int) -> Callable[[], object]:
    """Prepare the receiver's part: frame, batch, times of this broker."""
    data = LinkMessages(1, 1, 1, (), link_body(batch_of(rows))).encode()

    def receive() -> None:
        for _ in range(MESSAGES // rows):
            frame = cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
            assert frame is not None
            messages = read_link_frame(frame, data)
            assert isinstance(messages, LinkMessages)
            arriving(link_batch_at(messages.batch, messages.batch_at, messages.batch_end), messages.sent_ms, 2)

    return receive


def main() -> None:
    """Print the figures."""
    print(f"{SUBSCRIPTIONS:,} subscriptions, to a neighbor that knows none: {best_ns(first_connection) / 1e9:.2f} s")
    print(f"the same after a break, one is new: {best_ns(connection_after_a_break) / 1e6:.1f} ms")
    print(f"a change: {best_ns(changes) / CHANGES / 1e3:.1f} us")
    for rows in (1, 10, 300):
        send, receive = best_ns(partial(sending, rows)), best_ns(partial(receiving, rows))
        each = f"sending {send / MESSAGES:.0f} ns, receiving {receive / MESSAGES:.0f} ns"
        print(f"direct messages of 100 bytes in batches of {rows}: {each} each")


if __name__ == "__main__":
    main()
