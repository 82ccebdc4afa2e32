"""The golden bytes of AMQP in `tests/data/amqp`, and composites by the names of their fields.

Each line is a case with columns between bars; a new case is a new line. The table of composites was made from the XML
of the specification, so it is independent of the gateway's encoders.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.amqp.codec.frames import Frame, cut_frame
from sluicegate.protocols.amqp.messages.decode import read_message
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.values import ULONG, AmqpArray, AmqpMap, AmqpValue, Described, Scalar, Symbol

DATA: Final = Path(__file__).parents[2] / "data" / "amqp"
FRAME_BYTES_MAX: Final = 1 << 20
HEADER_BYTES: Final = 8
WALL_MS: Final = 1_000_000
SECTION_NAMES: Final = {
    0x71: "delivery-annotations",
    0x72: "message-annotations",
    0x74: "application-properties",
    0x75: "data",
    0x76: "amqp-sequence",
    0x77: "amqp-value",
    0x78: "footer",
}


class Field(NamedTuple):
    """One field of a composite."""

    name: str
    kind: str  # the specification's name of its type; `*` for several
    is_multiple: bool
    is_mandatory: bool


class Composite(NamedTuple):
    """A described list of the specification."""

    code: int
    symbol: str
    fields: list[Field]

    @property
    def name(self) -> str:
        return self.symbol.split(":")[1]


def cases(file: str) -> Iterator[list[str]]:
    """Return the columns of each case of a file."""
    for line in (DATA / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield [column.strip() for column in line.split(" | ")]


def golden(file: str) -> dict[str, bytes]:
    """Return the bytes of each case of a file, by name."""
    return {name: bytes.fromhex(data) for name, _, data, *_ in cases(file)}


def _composites() -> dict[int, Composite]:
    found: dict[int, Composite] = {}
    for code, symbol, *columns in cases("composites.txt"):
        fields = [_field(*text.split()) for text in (columns[0].split(", ") if columns else [])]
        found[int(code, 16)] = Composite(int(code, 16), symbol.removesuffix(" |"), fields)
    return found


def _field(name: str, said: str) -> Field:
    return Field(name, said.partition("=")[0].rstrip("[]!"), "[]" in said, "!" in said)


COMPOSITES: Final = _composites()
BY_SYMBOL: Final = {composite.symbol: composite for composite in COMPOSITES.values()}


def described(value: AmqpValue) -> str:
    """Return a value as text: composites by name with the fields that are not null, everything else as it is."""
    if isinstance(value, Described):
        composite = _composite(value.descriptor)
        section = value.descriptor.value if isinstance(value.descriptor, Scalar) else None
        if isinstance(section, int) and section in SECTION_NAMES:
            return f"{SECTION_NAMES[section]}({described(value.value)})"
        if composite is None or not isinstance(value.value, list):
            return f"Described({value.descriptor!r}, {described(value.value)})"
        assert len(value.value) <= len(composite.fields), f"{composite.name} has {len(composite.fields)} fields"
        given = [
            f"{field.name}={described(its)}"
            for field, its in zip(composite.fields, value.value, strict=False)
            if its is not None
        ]
        return f"{composite.name}({', '.join(given)})"
    if isinstance(value, AmqpMap):
        return "{" + ", ".join(f"{described(key)}: {described(its)}" for key, its in value.pairs) + "}"
    if isinstance(value, AmqpArray):
        return "array[" + ", ".join(described(item) for item in value.items) + "]"
    if isinstance(value, list):
        return "[" + ", ".join(described(item) for item in value) + "]"
    return repr(value)


def frames_of(stream: bytes) -> Iterator[tuple[Frame | None, bytes]]:
    """Cut what one side of a connection sent into its frames; a protocol header comes without one."""
    pos = 0
    while pos < len(stream):
        if stream[pos : pos + 4] == b"AMQP":
            yield None, stream[pos : pos + HEADER_BYTES]
            pos += HEADER_BYTES
            continue
        frame = cut_frame(stream, pos, len(stream), FRAME_BYTES_MAX)
        assert frame is not None, f"the stream ends within a frame, at byte {pos}"
        yield frame, stream[pos : frame.end]
        pos = frame.end


def described_frame(data: bytes) -> str:
    """Return one whole frame as text: its kind where it is SASL's, channel, performative, and the payload behind it."""
    frame = cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
    assert frame is not None
    assert frame.end == len(data), "a case is one frame"
    where = "sasl" if frame.kind else f"channel {frame.channel}"
    if frame.body_at == frame.end:
        return f"{where}: nothing"
    value, stop = decode(data, frame.body_at, frame.end)
    payload = f" payload {data[stop:].hex()}" if stop < frame.end else ""
    return f"{where}: {described(value)}{payload}"


def sections_text(message: bytes) -> str:
    """Return the sections of a message as text, one behind the other."""
    texts: list[str] = []
    pos = 0
    while pos < len(message):
        value, pos = decode(message, pos, len(message))
        texts.append(described(value))
    return " ".join(texts)


def normalised_text(message: bytes) -> str:
    """Return what the broker makes of a message that arrives at WALL_MS: what is at its default is left out."""
    read = read_message(message, WALL_MS)
    assert read.headers is not None
    plain = Headers()
    given = [f"durable={read.durable}", f"to={read.to!r}", f"payload={read.payload!r}"]
    for name in dir(plain):
        value = getattr(read.headers, name)
        if name.startswith("_") or callable(value) or name in ("key_hash", "native", "native_format", "dmq_eligible"):
            continue
        if value != getattr(plain, name):
            given.append(f"{name}={value!r}")
    return " ".join(given)


def _composite(descriptor: AmqpValue) -> Composite | None:
    if isinstance(descriptor, Symbol):
        return BY_SYMBOL.get(descriptor.text)
    if isinstance(descriptor, Scalar) and descriptor.kind == ULONG and isinstance(descriptor.value, int):
        return COMPOSITES.get(descriptor.value)
    return None
