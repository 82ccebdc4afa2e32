"""What a client and the broker say to each other, packet by packet."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

PAYLOAD_BYTES_MAX: Final = 4096  # that can be asked for, of each payload
Direction: TypeAlias = Literal["received", "sent", "connection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPacket:
    """One packet or frame; or the beginning or the end of a connection."""

    time_ms: int  # wall clock
    client: str  # its name
    address: str  # host and port of the client's end of the connection
    direction: Direction  # as the broker sees it
    kind: str  # as the standard calls it; of a connection: begun or ended
    size_bytes: int  # of all of it
    fields: dict[str, str | int | bool | None]  # long texts are cut, here and in what follows, and end with `…`
    properties: tuple[tuple[str, str | int], ...] = ()  # of MQTT 5, of a message, or of the ends of an AMQP link
    reason_code: int | None = None
    reason: str | None = None  # in AMQP the error, without a code
    payload: str | None = None  # its beginning, where it was asked for
    payload_encoding: Literal["text", "base64"] | None = None
    left_out_count: int = 0  # packets before this one that nobody has read in time
