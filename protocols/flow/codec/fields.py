"""The fields of control frames: `u16 id | u16 length | value`, in any order.

Flow: fields. An unknown field is ignored, unless bit 15 of its id marks it as critical. Ids from 0x4000 on are for
private use. Texts are UTF-8.
"""

from typing import Final, final

from sluicegate.protocols.flow.codec.codes import CRITICAL_UNKNOWN, MALFORMED, LocalMisuse, PeerViolation
from sluicegate.protocols.flow.codec.frame import NAMES, Frame
from sluicegate.protocols.flow.codec.limits import FIELDS_MAX

CRITICAL_BIT: Final = 0x8000

REQUEST_ID: Final = 0x0001  # u32; of a request, and of its answer
CODE: Final = 0x0002  # u16
TEXT: Final = 0x0003  # text, for people
RETRY_AFTER_MS: Final = 0x0004  # u32; there when it makes sense to try again

CLIENT_NAME: Final = 0x0010  # text
PRODUCT: Final = 0x0011  # text
KEEP_ALIVE_MS: Final = 0x0012  # u32
FRAME_BYTES_MAX: Final = 0x0013  # u32
FLOWS_MAX: Final = 0x0014  # u32
FEATURE: Final = 0x0015  # text; one field for each
MECHANISM: Final = 0x0016  # text; one field for each
SASL_DATA: Final = 0x0017  # bytes
AUTH_STATE: Final = 0x0018  # u8
DRAIN_MS: Final = 0x0019  # u32
MESSAGE_VPN: Final = 0x001A  # text

NAME: Final = 0x0020  # text
WINDOW: Final = 0x0021  # u32
PUBLISHER_EPOCH: Final = 0x0022  # u32
STORED_THROUGH: Final = 0x0023  # u64
SEQUENCE_MAX: Final = 0x0024  # u64
STORED_HIGHEST: Final = 0x0025  # u64

UNSETTLED_MAX: Final = 0x0030  # u32
DELIVERY_ID_MAX: Final = 0x0031  # u64
STATE: Final = 0x0032  # u8
STATE_NUMBER: Final = 0x0033  # u32
ACKNOWLEDGES: Final = 0x0034  # u8

TOPIC_FILTER: Final = 0x0038  # text
PRIORITY: Final = 0x0039  # text; one field for each
SELECTOR: Final = 0x003A  # text
BROWSES: Final = 0x003B  # u8
DURABILITY: Final = 0x003C  # u8

PARTITION: Final = 0x0040  # u32
FIRST: Final = 0x0041  # u64
END: Final = 0x0042  # u64
COLUMNS: Final = 0x0043  # u32, bits
CHUNK_BYTES: Final = 0x0044  # u32
INCARNATION: Final = 0x0045  # u64
CURSOR: Final = 0x0046  # text
CURSOR_EPOCH: Final = 0x0047  # u64
MODE: Final = 0x0048  # text
INSTANCE: Final = 0x0049  # text
START: Final = 0x004A  # text
LAG_BYTES_MAX: Final = 0x004B  # u64
LAG_TIME_MS_MAX: Final = 0x004C  # u64
HEARTBEAT_MS: Final = 0x004D  # u32
BATCH_REF: Final = 0x004E  # text
WAIT_MS: Final = 0x004F  # u32
TRANSACTION: Final = 0x0050  # text
PART: Final = 0x0051  # u64
ATTEMPT: Final = 0x0052  # u64
MESSAGES_COUNT: Final = 0x0053  # u64
ALREADY: Final = 0x0054  # u8
USAGE_BYTES: Final = 0x0055  # u64
PARTITION_IDS: Final = 0x0056  # u64 each, in the order in which the body speaks of the partitions

BROKER: Final = 0x0060  # text
NETWORK: Final = 0x0061  # text
LINK_VERSION: Final = 0x0062  # u16
DEAD_TIME_MS: Final = 0x0063  # u32
LINK_GROUP: Final = 0x0064  # u8 syntax, u16 length of the share name, share name, topic filter; one field for each

KNOWN: Final = frozenset(
    {
        REQUEST_ID, CODE, TEXT, RETRY_AFTER_MS, CLIENT_NAME, PRODUCT, KEEP_ALIVE_MS, FRAME_BYTES_MAX, FLOWS_MAX,
        FEATURE, MECHANISM, SASL_DATA, AUTH_STATE, DRAIN_MS, MESSAGE_VPN, NAME, WINDOW, PUBLISHER_EPOCH, STORED_THROUGH,
        SEQUENCE_MAX, STORED_HIGHEST, UNSETTLED_MAX, DELIVERY_ID_MAX, STATE, STATE_NUMBER, ACKNOWLEDGES,
        TOPIC_FILTER, PRIORITY, SELECTOR, BROWSES, DURABILITY, PARTITION, FIRST, END, COLUMNS, CHUNK_BYTES,
        INCARNATION, CURSOR, CURSOR_EPOCH, MODE, INSTANCE, START, LAG_BYTES_MAX, LAG_TIME_MS_MAX, HEARTBEAT_MS,
        BATCH_REF, WAIT_MS, TRANSACTION, PART, ATTEMPT, MESSAGES_COUNT, ALREADY, USAGE_BYTES, PARTITION_IDS, BROKER,
        NETWORK, LINK_VERSION, DEAD_TIME_MS, LINK_GROUP,
    }
)  # fmt: skip


@final
class FieldReader:
    """The fields of one frame, by id. Raises PeerViolation for a missing field or a malformed value."""

    def __init__(self, frame_name: str, data: bytes, start: int, end: int) -> None:
        self._frame_name = frame_name
        self._values: dict[int, list[bytes]] = {}
        pos = start
        for _ in range(FIELDS_MAX):
            if pos == end:
                return
            if pos + 4 > end:
                raise PeerViolation(MALFORMED, f"{frame_name}: {end - pos} bytes behind its last field")
            field_id = data[pos] << 8 | data[pos + 1]
            value_at = pos + 4
            pos = value_at + (data[pos + 2] << 8 | data[pos + 3])
            if pos > end:
                raise PeerViolation(MALFORMED, f"{frame_name}: field {field_id:#06x} reaches beyond its frame")
            known = field_id & ~CRITICAL_BIT
            if known in KNOWN:
                self._values.setdefault(known, []).append(data[value_at:pos])
            elif field_id & CRITICAL_BIT:
                raise PeerViolation(CRITICAL_UNKNOWN, f"{frame_name}: unknown critical field {field_id:#06x}")
        if pos != end:
            raise PeerViolation(MALFORMED, f"{frame_name}: more than {FIELDS_MAX} fields")

    def number(self, field_id: int, size: int, default: int) -> int:
        """Return an unsigned number of `size` bytes."""
        value = self._only(field_id)
        if value is None:
            return default
        if len(value) != size:
            raise self._wrong(field_id, f"{len(value)} bytes where {size} are required")
        return int.from_bytes(value, "big")

    def number_required(self, field_id: int, size: int) -> int:
        """Return an unsigned number of `size` bytes that has to be there."""
        if field_id not in self._values:
            raise self._wrong(field_id, "missing")
        return self.number(field_id, size, 0)

    def number_or_none(self, field_id: int, size: int) -> int | None:
        """Return an unsigned number of `size` bytes, or None when it is not there."""
        return self.number(field_id, size, 0) if field_id in self._values else None

    def text(self, field_id: int, bytes_max: int, default: str = "") -> str:
        """Return a text."""
        value = self._only(field_id)
        return default if value is None else self._decoded(field_id, value, bytes_max)

    def texts(self, field_id: int, bytes_max: int) -> tuple[str, ...]:
        """Return the texts of all fields of that id, in order."""
        return tuple([self._decoded(field_id, each, bytes_max) for each in self._values.get(field_id, [])])

    def all_data(self, field_id: int) -> list[bytes]:
        """Return the bytes of all fields of that id, in order."""
        return self._values.get(field_id, [])

    def data(self, field_id: int) -> bytes | None:
        """Return bytes, or None when they are not there."""
        return self._only(field_id)

    def _only(self, field_id: int) -> bytes | None:
        values = self._values.get(field_id)
        if values is None:
            return None
        if len(values) > 1:
            raise self._wrong(field_id, f"there {len(values)} times")
        return values[0]

    def _decoded(self, field_id: int, value: bytes, bytes_max: int) -> str:
        if len(value) > bytes_max:
            raise self._wrong(field_id, f"{len(value)} bytes; at most {bytes_max} are taken")
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise self._wrong(field_id, "not UTF-8") from None

    def _wrong(self, field_id: int, what: str) -> PeerViolation:
        return PeerViolation(MALFORMED, f"{self._frame_name}: field {field_id:#06x} is {what}")


def control_fields(frame: Frame, data: bytes) -> FieldReader:
    """Return the fields of a frame that has no body. Raises PeerViolation."""
    name = NAMES[frame.kind]
    if frame.body_at != frame.end:
        raise PeerViolation(MALFORMED, f"{name} with a body of {frame.end - frame.body_at} bytes; it has none")
    return FieldReader(name, data, frame.fields_at, frame.body_at)


@final
class FieldWriter:
    """Fields of one frame, in the order written. Raises LocalMisuse for what does not fit."""

    def __init__(self) -> None:
        self._out: list[bytes] = []

    def number(self, field_id: int, value: int, size: int) -> None:
        """Put an unsigned number of `size` bytes."""
        self.data(field_id, value.to_bytes(size, "big"))

    def text(self, field_id: int, value: str) -> None:
        """Put a text; an empty one is not put."""
        if value:
            self.data(field_id, value.encode("utf-8"))

    def data(self, field_id: int, value: bytes) -> None:
        """Put bytes."""
        if len(value) > 0xFFFF:
            raise LocalMisuse(f"field {field_id:#06x} of {len(value)} bytes; at most 65535 fit")
        self._out.append(field_id.to_bytes(2, "big"))
        self._out.append(len(value).to_bytes(2, "big"))
        self._out.append(value)

    def encoded(self) -> bytes:
        """Return the bytes of all fields."""
        return b"".join(self._out)
