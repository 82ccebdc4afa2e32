"""A run of QoS 0 messages that keeps the bytes it arrived in.

Between clients of the same dialect these bytes are forwarded as they are: QoS 0 packets without RETAIN, DUP and
properties are the same in both directions. The run is split into messages only when a consumer needs them.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch, UnequalColumns
from sluicegate.protocols.mqtt.codec.wire import read_length

# Keys of `MessageBatch.encodings`: 3.1 and 3.1.1 do not differ in PUBLISH.
DIALECT_3X: Final = 3
DIALECT_5: Final = 5

_NOT_CUT: Final[list[bytes]] = []


def dialect_of(level: int) -> int:
    """Return the dialect of a protocol level."""
    return DIALECT_5 if level == 5 else DIALECT_3X


@final
@mypyc_attr(free_list_len=1)
class WireBatch(MessageBatch):
    """QoS 0 messages without headers, kept as their PUBLISH packets.

    Invariant: `wire` is `count` whole, valid packets with first byte 0x30; those of 5.0 have an empty property section.
    """

    def __init__(
        self,
        *,
        wire: bytes,
        dialect: int,
        count: int,
        topic: str,
        topics: list[str] | None,
        publisher: str,
        received_ms: int,
        payload_bytes: int,
    ) -> None:
        super().__init__(
            topic=topic,
            topics=None,
            payloads=_NOT_CUT,
            headers=None,
            qos=AT_MOST_ONCE,
            retain=False,
            publisher=publisher,
            received_ms=received_ms,
            payload_bytes=payload_bytes,
        )
        if topics is not None and len(topics) != count:
            raise UnequalColumns(f"{count} packets with {len(topics)} topics")
        self.count = count
        self.topics = topics
        self.wire = wire
        self.dialect = dialect
        self._after_topic = 1 if dialect == DIALECT_5 else 0  # the empty property section

    def payloads(self) -> list[bytes]:
        """Split out the payloads, on first use."""
        if not self._payloads:
            self._payloads = _cut(self.wire, self._after_topic)
        return self._payloads


def _cut(wire: bytes, after_topic: int) -> list[bytes]:
    """Return the payloads of whole packets."""
    payloads: list[bytes] = []
    pos = 0
    end = len(wire)
    while pos < end:
        length, body = read_length(wire, pos + 1, end)
        stop = body + length
        start = body + 2 + (wire[body] << 8 | wire[body + 1]) + after_topic
        size = stop - pos
        # Packets of equal length and topic length follow each other: these bytes tell. 47 ns a packet, compiled.
        header = wire[pos : body + 2]
        header_bytes = body + 2 - pos
        payload_at = start - pos
        while True:
            payloads.append(wire[pos + payload_at : pos + size])
            pos += size
            if pos + size > end or wire[pos : pos + header_bytes] != header:
                break
    return payloads
