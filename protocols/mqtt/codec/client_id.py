"""The client identifier in the first bytes of a connection, for who has to know the client before it is served.

CONNECT is read only as far as the identifier, and checked only where that is needed to find it: whoever serves the
client reads all of it. So bytes in which none is found are served where they came, and refused there in the right form.
"""

from typing import Final, final

from sluicegate.protocols.mqtt.codec.fixed_header import CONNECT
from sluicegate.protocols.mqtt.codec.packets.connect import read_protocol
from sluicegate.protocols.mqtt.codec.reason_codes import PeerViolation
from sluicegate.protocols.mqtt.codec.wire import INCOMPLETE, decode_string, read_length

FIRST_BYTES_MIN: Final = 2  # before these have come there is nothing to be read

_FIRST_BYTE: Final = CONNECT << 4
_FLAGS_AND_KEEP_ALIVE_BYTES: Final = 3
_NAME_BYTES_MAX: Final = len(b"MQIsdp")


@final
class FirstBytes:
    """What the first bytes of a connection say."""

    __slots__ = ("client_id", "level", "needed_bytes")

    def __init__(self, level: int, client_id: str, needed_bytes: int) -> None:
        self.level: Final = level  # 3, 4 or 5, once the identifier is known; else 0
        self.client_id: Final = client_id  # empty if the client brings none
        self.needed_bytes: Final = needed_bytes  # of the connection, before they can say more; 0: they say no more


_NOTHING: Final = FirstBytes(0, "", 0)  # it is no CONNECT, or one that nobody can serve


def read_client_id(data: bytes, connect_bytes_max: int) -> FirstBytes:
    """Read the client identifier of a CONNECT of `connect_bytes_max` at most; raises nothing."""
    try:
        return _read(data, connect_bytes_max)
    except _MoreNeeded as more:
        return FirstBytes(0, "", more.needed_bytes)
    except (PeerViolation, _NoRoom):
        return _NOTHING


class _MoreNeeded(Exception):
    """The bytes end before the identifier does."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.needed_bytes = count


class _NoRoom(Exception):
    """A field runs past the end of its packet."""


def _read(data: bytes, connect_bytes_max: int) -> FirstBytes:
    if len(data) > 0 and data[0] != _FIRST_BYTE:
        return _NOTHING
    length, pos = read_length(data, 1, len(data))
    if length == INCOMPLETE:
        raise _MoreNeeded(max(FIRST_BYTES_MIN, len(data) + 1))
    end = pos + length
    if end > connect_bytes_max:
        return _NOTHING
    name_end = _end_of_field(data, pos, end)
    if name_end - pos - 2 > _NAME_BYTES_MAX:
        return _NOTHING
    _check_room(data, name_end + 1, end)
    protocol = read_protocol(data, pos, end)
    if not protocol.supported:
        return _NOTHING
    pos = protocol.flags_at + _FLAGS_AND_KEEP_ALIVE_BYTES
    if protocol.level == 5:
        pos = _end_of_properties(data, pos, end)
    id_end = _end_of_field(data, pos, end)
    _check_room(data, id_end, end)
    return FirstBytes(protocol.level, decode_string(data[pos + 2 : id_end]), 0)


def _check_room(data: bytes, needed: int, end: int) -> None:
    """Raise _NoRoom unless a field that ends at `needed` is within the packet; _MoreNeeded unless it has come."""
    if needed > end:
        raise _NoRoom
    if needed > len(data):
        raise _MoreNeeded(needed)


def _end_of_field(data: bytes, pos: int, end: int) -> int:
    """Return where a field ends that begins with its length."""
    _check_room(data, pos + 2, end)
    return pos + 2 + (data[pos] << 8 | data[pos + 1])


def _end_of_properties(data: bytes, pos: int, end: int) -> int:
    _check_room(data, pos + 1, end)
    length, start = read_length(data, pos, min(len(data), end))
    if length == INCOMPLETE:
        _check_room(data, len(data) + 1, end)
    return start + length
