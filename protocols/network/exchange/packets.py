"""Direct messages that cross a link as the MQTT packets in which their publisher sent them.

A client of MQTT is mostly sent the very bytes that a publisher has sent (`protocols.mqtt.codec.wire_batch`). So they
cross a link as they are too: neither side splits them into messages, unless another client there needs that. The
neighbor reads them as it reads those of a publisher, and finds what is wrong with them.

A body begins with a head of 12 bytes, `u8 form | u8 0 | u16 publisher bytes | u32 0 | u32 packets`, behind it the
publisher's client name and the packets. The form differs from the versions of the format at rest, with which other
bodies begin.
"""

import struct
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.mqtt.codec.events import PublishReceived, ReceivedEvents
from sluicegate.protocols.mqtt.codec.limits import PACKET_BYTES_CEILING, MqttLimits
from sluicegate.protocols.mqtt.codec.reason_codes import PeerViolation
from sluicegate.protocols.mqtt.codec.wire_batch import DIALECT_3X, DIALECT_5, WireBatch
from sluicegate.protocols.mqtt.engine.publish_reader import PublishReader

PACKETS_3X: Final = 0xF3  # forms
PACKETS_5: Final = 0xF5
_FORMS: Final = {DIALECT_3X: PACKETS_3X, DIALECT_5: PACKETS_5}
_LEVELS: Final = {PACKETS_3X: 4, PACKETS_5: 5}

_HEAD: Final = struct.Struct(">BBHII")
_PUBLISHER_BYTES_MAX: Final = 0xFFFF
# The publisher's broker has checked what its operator allows.
_LIMITS: Final = MqttLimits(packet_bytes_max=PACKET_BYTES_CEILING, topic_alias_maximum=0, maximum_qos=0)


def packets_of(batch: MessageBatch) -> tuple[bytes, bytes] | None:
    """Return the two pieces of a batch as packets; None: it is none of packets, or is sent in another form."""
    if not isinstance(batch, WireBatch):
        return None
    publisher = batch.publisher.encode("utf-8")
    if len(publisher) > _PUBLISHER_BYTES_MAX:
        return None
    return _HEAD.pack(_FORMS[batch.dialect], 0, len(publisher), 0, batch.count) + publisher, batch.wire


def has_packets(data: bytes, start: int, end: int) -> bool:
    """Return whether a body, which is a part of the data, is of packets, and not of the form at rest."""
    return start < end and data[start] in _LEVELS


@final
class PacketsReader:
    """Reads the packets of one link. It remembers topics, as that of a publisher does."""

    def __init__(self) -> None:
        self._readers: dict[int, PublishReader] = {}  # by form

    def read(self, data: bytes, start: int, end: int, wall_ms: int) -> MessageBatch:
        """Return the messages in a body, a part of the data, which arrive at this time. Raises ValueError."""
        if end - start < _HEAD.size:
            raise ValueError(f"packets of {end - start} bytes; their head has {_HEAD.size}")
        form, _, publisher_bytes, _, count = _HEAD.unpack_from(data, start)
        publisher_at = start + _HEAD.size
        packets_at = publisher_at + publisher_bytes
        if packets_at > end:
            raise ValueError(f"packets of {end - start} bytes, with a publisher of {publisher_bytes}")
        reader = self._readers.get(form)
        if reader is None:
            reader = self._readers[form] = PublishReader(_LEVELS[form], _LIMITS, "")
        reader.publisher = data[publisher_at:packets_at].decode("utf-8")
        received = ReceivedEvents()
        try:
            read_end = reader.read(data, packets_at, end, wall_ms, received)
        except PeerViolation as violation:
            raise ValueError(f"packets: {violation.text}") from None
        first = received.first
        if read_end != end or received.further or not isinstance(first, PublishReceived):
            raise ValueError(f"packets of {end - packets_at} bytes, of which {read_end - packets_at} are one run")
        if not isinstance(first.batch, WireBatch) or first.batch.count != count:
            raise ValueError(f"{first.batch.count} packets; {count} of QoS 0 were announced")
        return first.batch
