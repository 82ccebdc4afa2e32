"""A row of the retained messages: a message, or its deletion, with the version that wins over older ones.

    offset  type    field
    0       u8      format version: 129
    1       u8      1 a message, 2 a deletion
    2       u16     bytes of the broker's name
    4       u32     counter of the version
    8       u64     time of the version, in milliseconds since the epoch
    16              name of the broker that gave the version, UTF-8
                    the message as a batch of one row, see `batch`; nothing for a deletion

Integers are little-endian. Rows of earlier releases are the batch alone, whose format versions are small numbers.
"""

import struct
from typing import Final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.network.retained.versions import Version
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.records.batch import BATCH_FORMAT, decode_batch, encode_batch

RETAINED_FORMAT: Final = 129
MESSAGE: Final = 1
DELETION: Final = 2

_HEAD: Final = struct.Struct("<BBHIQ")
_HEAD_BYTES: Final = 16
_WHERE: Final = "retained message"


def encode_retained(version: Version, batch: MessageBatch | None) -> bytes:
    """Return the value of the row of a message, or of a deletion."""
    name = version.broker.encode("utf-8", "surrogatepass")
    kind = DELETION if batch is None else MESSAGE
    head = _HEAD.pack(RETAINED_FORMAT, kind, len(name), version.counter, version.wall_ms)
    return head + name if batch is None else b"".join([head, name, encode_batch(batch)])


def decode_retained(value: bytes, broker: str) -> tuple[Version, MessageBatch | None]:
    """Return the version and the message of a row; None: it is deleted.

    `broker` is the name of this broker: it has written the rows of earlier releases, which have no version. Raises
    DamagedRecord and UnsupportedFormat.
    """
    if value and value[0] <= BATCH_FORMAT:
        batch, _ = decode_batch(value, 0, _WHERE)
        return Version(max(0, batch.received_ms), 0, broker), batch
    if value and value[0] != RETAINED_FORMAT:
        raise UnsupportedFormat(value[0], RETAINED_FORMAT, _WHERE)
    try:
        head: tuple[int, int, int, int, int] = _HEAD.unpack_from(value)
        _, kind, name_bytes, counter, wall_ms = head
        end = _HEAD_BYTES + name_bytes
        name = value[_HEAD_BYTES:end].decode("utf-8", "surrogatepass")
    except (struct.error, UnicodeDecodeError) as error:
        raise DamagedRecord(_WHERE, f"its version cannot be read: {error}") from error
    if kind not in (MESSAGE, DELETION) or end > len(value) or (kind == DELETION and end != len(value)):
        raise DamagedRecord(_WHERE, f"a row of kind {kind} and {len(value)} bytes, with a name of {name_bytes}")
    version = Version(wall_ms, counter, name)
    if kind == DELETION:
        return version, None
    batch, _ = decode_batch(value, end, _WHERE)
    return version, batch
