"""Single fields of variable length, for headers, cursors and table rows.

A `put_` appends pieces to a list that is joined at the end. A `take_` returns the value and the offset behind it; on
bytes that cannot be right it raises IndexError or ValueError, which the decoder of the whole record turns into
DamagedRecord.

    varint  seven bits to a byte, the lowest first, the high bit set on all but the last byte
    bytes   varint length, then the bytes
    text    bytes, UTF-8. Lone surrogates pass: should a protocol let one in, no commit may fail for it
    number  u8 length, then a signed integer of so many bytes, little-endian
"""

from typing import Final

NUMBER_BYTES_MAX: Final = 255

# Every byte as a piece. Compiled, appending to a list is native, and to a bytearray a call through Python: a row with a
# key and a user property takes 360 ns against 570 (`bench/cores/bench_storage.py`).
BYTES: Final = [bytes((value,)) for value in range(256)]

_VARINT_SHIFT_MAX: Final = 63  # ten bytes: every u64


def put_varint(out: list[bytes], value: int) -> None:
    """Append an unsigned integer below 2**64. Raises ValueError for others."""
    if value < 0 or value >> 64:
        raise ValueError(f"{value} is not an unsigned 64-bit integer")
    while value > 0x7F:
        out.append(BYTES[value & 0x7F | 0x80])
        value >>= 7
    out.append(BYTES[value])


def take_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return an unsigned integer of at most ten bytes and the offset behind it."""
    value = 0
    shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise ValueError("a varint of more than ten bytes")


def put_u8(out: list[bytes], value: int) -> None:
    """Append an unsigned integer below 256. Raises ValueError for others."""
    if not 0 <= value <= 0xFF:
        raise ValueError(f"{value} is not an unsigned 8-bit integer")
    out.append(BYTES[value])


def put_bytes(out: list[bytes], value: bytes) -> None:
    """Append bytes behind their length."""
    put_varint(out, len(value))
    out.append(value)


def take_bytes(data: bytes, offset: int) -> tuple[bytes, int]:
    """Return bytes and the offset behind them."""
    length, start = take_varint(data, offset)
    end = start + length
    if end > len(data):
        raise ValueError(f"a field of {length} bytes where {len(data) - start} are left")
    return data[start:end], end


def put_text(out: list[bytes], value: str) -> None:
    """Append a string as UTF-8 behind its length in bytes."""
    put_bytes(out, encode_text(value))


def take_text(data: bytes, offset: int) -> tuple[str, int]:
    """Return a string and the offset behind it."""
    raw, end = take_bytes(data, offset)
    return decode_text(raw), end


def put_number(out: list[bytes], value: int) -> None:
    """Append an integer of any sign. Raises ValueError beyond 255 bytes."""
    length = (value.bit_length() >> 3) + 1
    if length > NUMBER_BYTES_MAX:
        raise ValueError(f"an integer of {value.bit_length()} bits; {NUMBER_BYTES_MAX * 8 - 1} are possible")
    out.append(BYTES[length])
    out.append(value.to_bytes(length, "little", signed=True))


def take_number(data: bytes, offset: int) -> tuple[int, int]:
    """Return an integer of any sign and the offset behind it."""
    start = offset + 1
    end = start + data[offset]
    if end > len(data):
        raise ValueError(f"an integer of {data[offset]} bytes where {len(data) - start} are left")
    return int.from_bytes(data[start:end], "little", signed=True), end


def encode_text(value: str) -> bytes:
    """Return the UTF-8 form used at rest."""
    try:
        return value.encode("utf-8")  # mypyc knows this call, but not the one with an error handler
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def decode_text(raw: bytes) -> str:
    """Return the string of its UTF-8 form at rest."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogatepass")
