"""The HTTP publisher of a lane: a POST for each message on a persistent connection, one after the other."""

import select
from typing import Final, final

from bench.load.lanes import Lane
from bench.load.plan import LoadPlan
from bench.wire.connections import Address, Connection

_END_OF_HEAD: Final = b"\r\n\r\n"
_OK: Final = b"HTTP/1.1 200 "


class HttpError(Exception):
    """An answer other than 200 with an empty body."""


@final
class HttpPublisher:
    """The sending end of a lane.

    It sends one message at a time. An answer of 200 confirms the message, and then the next one is sent.
    """

    def __init__(self, connection: Connection, plan: LoadPlan, lane: Lane) -> None:
        self.connection = connection
        self.lane = lane
        self.published = 0
        self.confirmed = 0
        self._modulus = plan.sequence_modulus
        self._padding = b"." * (plan.payload_bytes - 8)
        self._head = (
            f"POST /TOPIC/{plan.topic.format(lane=lane.number)} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Length: {plan.payload_bytes}\r\n\r\n"
        ).encode() + bytes(4)
        self._rest = b""

    def publish(self, count: int) -> int:
        """Publish a message, unless one waits for its answer; return how many."""
        if count <= 0 or self.confirmed < self.published or self.connection.unsent:
            return 0
        sequence = self.published % self._modulus
        self.connection.write(self._head + sequence.to_bytes(4, "big") + self._padding)
        self.published += 1
        return 1

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Read answers. Raises HttpError for a refusal."""
        data = self._rest + bytes(view[: self.connection.read_into(view)])
        *heads, self._rest = data.split(_END_OF_HEAD)
        for head in heads:
            if not head.startswith(_OK) or b"content-length: 0" not in head.lower():
                raise HttpError(f"a publisher got {head[:200]!r}")
        self.confirmed += len(heads)
        return 0


def connect_publisher(plan: LoadPlan, lane: Lane, number: int, address: Address, poll: select.epoll) -> HttpPublisher:
    """Return a publisher of a lane, ready to run."""
    connection = Connection(address)
    connection.join(poll)
    return HttpPublisher(connection, plan, lane)
