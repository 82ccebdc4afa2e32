"""The performatives of a connection and of SASL, from and to their fields (2.7, 5.3).

Transfer and disposition are on the hot path: `transfers` and `dispositions` read and write them without making a value
of every field.
"""

from collections.abc import Sequence
from typing import Final, final

from sluicegate.protocols.amqp.codec.delivery_states import AmqpError, read_error
from sluicegate.protocols.amqp.codec.termini import Coordinator, Source, Target, read_source, read_target
from sluicegate.protocols.amqp.types.encoding import encode_composite, encode_performative
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.fields import Fields
from sluicegate.protocols.amqp.types.values import (
    AmqpArray,
    AmqpMap,
    AmqpValue,
    Scalar,
    Symbol,
    symbols,
    ubyte,
    uint,
    ulong,
    ushort,
)

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18

PERFORMATIVES: Final[dict[int, str]] = {
    OPEN: "open",
    BEGIN: "begin",
    ATTACH: "attach",
    FLOW: "flow",
    TRANSFER: "transfer",
    DISPOSITION: "disposition",
    DETACH: "detach",
    END: "end",
    CLOSE: "close",
}
PERFORMATIVE_BY_SYMBOL: Final[dict[str, int]] = {f"amqp:{name}:list": code for code, name in PERFORMATIVES.items()}

FRAME_SIZE_UNLIMITED: Final = 0xFFFF_FFFF
CHANNEL_MAX_DEFAULT: Final = 65_535
ABSENT: Final = -1  # a number that is not there, and has no default

SENDER_UNSETTLED: Final = 0  # snd-settle-mode (2.8.2)
SENDER_SETTLED: Final = 1
SENDER_MIXED: Final = 2
RECEIVER_FIRST: Final = 0  # rcv-settle-mode (2.8.3)
RECEIVER_SECOND: Final = 1


@final
class Open:
    """open (2.7.1)."""

    def __init__(
        self,
        container_id: str,
        *,
        hostname: str | None = None,
        max_frame_size: int = FRAME_SIZE_UNLIMITED,
        channel_max: int = CHANNEL_MAX_DEFAULT,
        idle_timeout_ms: int = 0,
        offered: list[str] | None = None,
        desired: list[str] | None = None,
        properties: AmqpMap | None = None,
    ) -> None:
        self.container_id = container_id
        self.hostname = hostname
        self.max_frame_size = max_frame_size
        self.channel_max = channel_max
        self.idle_timeout_ms = idle_timeout_ms  # 0: none
        self.offered: list[str] = offered or []  # capabilities
        self.desired: list[str] = desired or []
        self.properties = properties

    def encode(self) -> bytes:
        """Return the performative."""
        return encode_performative(
            OPEN,
            [
                self.container_id,
                self.hostname,
                uint(self.max_frame_size),
                ushort(self.channel_max),
                uint(self.idle_timeout_ms) if self.idle_timeout_ms else None,
                None,
                None,
                symbols(self.offered),
                symbols(self.desired),
                self.properties,
            ],
        )


def read_open(items: list[AmqpValue]) -> Open:
    """Return an open. Raises DecodeError."""
    fields = Fields("open", items)
    return Open(
        fields.text_required(0, "container-id"),
        hostname=fields.text(1, "hostname"),
        max_frame_size=fields.uint(2, "max-frame-size", FRAME_SIZE_UNLIMITED),
        channel_max=fields.ushort(3, "channel-max", CHANNEL_MAX_DEFAULT),
        idle_timeout_ms=fields.uint(4, "idle-time-out", 0),
        offered=fields.symbols(7, "offered-capabilities"),
        desired=fields.symbols(8, "desired-capabilities"),
        properties=fields.map(9, "properties"),
    )


@final
class Begin:
    """begin (2.7.2)."""

    def __init__(
        self,
        *,
        remote_channel: int = ABSENT,
        next_outgoing_id: int,
        incoming_window: int,
        outgoing_window: int,
        handle_max: int = 0xFFFF_FFFF,
    ) -> None:
        self.remote_channel = remote_channel
        self.next_outgoing_id = next_outgoing_id
        self.incoming_window = incoming_window
        self.outgoing_window = outgoing_window
        self.handle_max = handle_max

    def encode(self) -> bytes:
        """Return the performative."""
        return encode_performative(
            BEGIN,
            [
                None if self.remote_channel == ABSENT else ushort(self.remote_channel),
                uint(self.next_outgoing_id),
                uint(self.incoming_window),
                uint(self.outgoing_window),
                uint(self.handle_max),
                None,
                None,
                None,
            ],
        )


def read_begin(items: list[AmqpValue]) -> Begin:
    """Return a begin. Raises DecodeError."""
    fields = Fields("begin", items)
    return Begin(
        remote_channel=fields.ushort(0, "remote-channel", ABSENT),
        next_outgoing_id=fields.uint_required(1, "next-outgoing-id"),
        incoming_window=fields.uint_required(2, "incoming-window"),
        outgoing_window=fields.uint_required(3, "outgoing-window"),
        handle_max=fields.uint(4, "handle-max", 0xFFFF_FFFF),
    )


@final
class Attach:
    """attach (2.7.3). The unsettled map says whether there is one, and its tags."""

    def __init__(
        self,
        name: str,
        *,
        handle: int,
        is_receiver: bool,
        source: Source | None,
        target: Target | Coordinator | None,
        sender_settle_mode: int = SENDER_MIXED,
        receiver_settle_mode: int = RECEIVER_FIRST,
        unsettled: AmqpMap | None = None,
        incomplete_unsettled: bool = False,
        initial_delivery_count: int = ABSENT,
        max_message_size: int = 0,
        offered: list[str] | None = None,
        desired: list[str] | None = None,
        properties: AmqpMap | None = None,
    ) -> None:
        self.name = name
        self.handle = handle
        self.is_receiver = is_receiver  # the sender's role
        self.source = source
        self.target = target
        self.sender_settle_mode = sender_settle_mode
        self.receiver_settle_mode = receiver_settle_mode
        self.unsettled = unsettled
        self.incomplete_unsettled = incomplete_unsettled
        self.initial_delivery_count = initial_delivery_count
        self.max_message_size = max_message_size  # 0: no limit
        self.offered: list[str] = offered or []
        self.desired: list[str] = desired or []
        self.properties = properties

    def encode(self) -> bytes:
        """Return the performative."""
        source = self.source
        target = self.target
        return encode_performative(
            ATTACH,
            [
                self.name,
                uint(self.handle),
                self.is_receiver,
                ubyte(self.sender_settle_mode),
                ubyte(self.receiver_settle_mode),
                None if source is None else source.encoded(),
                None if target is None else target.encoded(),
                self.unsettled,
                True if self.incomplete_unsettled else None,
                None if self.initial_delivery_count == ABSENT else uint(self.initial_delivery_count),
                ulong(self.max_message_size) if self.max_message_size else None,
                symbols(self.offered),
                symbols(self.desired),
                self.properties,
            ],
        )


def read_attach(items: list[AmqpValue]) -> Attach:
    """Return an attach. Raises DecodeError."""
    fields = Fields("attach", items)
    is_receiver = fields.flag_required(2, "role")
    initial = fields.uint(9, "initial-delivery-count", ABSENT)
    if initial == ABSENT and not is_receiver:
        raise DecodeError("attach of a sender without initial-delivery-count")
    sender_settle_mode = fields.ubyte(3, "snd-settle-mode", SENDER_MIXED)
    receiver_settle_mode = fields.ubyte(4, "rcv-settle-mode", RECEIVER_FIRST)
    if sender_settle_mode > SENDER_MIXED or receiver_settle_mode > RECEIVER_SECOND:
        raise DecodeError(f"attach with settle modes {sender_settle_mode} and {receiver_settle_mode}")
    return Attach(
        fields.text_required(0, "name"),
        handle=fields.uint_required(1, "handle"),
        is_receiver=is_receiver,
        sender_settle_mode=sender_settle_mode,
        receiver_settle_mode=receiver_settle_mode,
        source=read_source(fields.value(5)),
        target=read_target(fields.value(6)),
        unsettled=fields.map(7, "unsettled"),
        incomplete_unsettled=fields.flag(8, "incomplete-unsettled", default=False),
        initial_delivery_count=initial,
        max_message_size=fields.ulong(10, "max-message-size", 0),
        offered=fields.symbols(11, "offered-capabilities"),
        desired=fields.symbols(12, "desired-capabilities"),
        properties=fields.map(13, "properties"),
    )


@final
class Flow:
    """flow (2.7.4). The link's fields mean something only with a handle."""

    def __init__(
        self,
        *,
        next_incoming_id: int = ABSENT,
        incoming_window: int,
        next_outgoing_id: int,
        outgoing_window: int,
        handle: int = ABSENT,
        delivery_count: int = ABSENT,
        link_credit: int = ABSENT,
        available: int = ABSENT,
        drain: bool = False,
        echo: bool = False,
        properties: AmqpMap | None = None,
    ) -> None:
        self.next_incoming_id = next_incoming_id
        self.incoming_window = incoming_window
        self.next_outgoing_id = next_outgoing_id
        self.outgoing_window = outgoing_window
        self.handle = handle
        self.delivery_count = delivery_count
        self.link_credit = link_credit
        self.available = available
        self.drain = drain
        self.echo = echo
        self.properties = properties

    def encode(self) -> bytes:
        """Return the performative."""
        return encode_performative(
            FLOW,
            [
                _uint_or_null(self.next_incoming_id),
                uint(self.incoming_window),
                uint(self.next_outgoing_id),
                uint(self.outgoing_window),
                _uint_or_null(self.handle),
                _uint_or_null(self.delivery_count),
                _uint_or_null(self.link_credit),
                _uint_or_null(self.available),
                True if self.drain else None,
                True if self.echo else None,
                self.properties,
            ],
        )


def read_flow(items: list[AmqpValue]) -> Flow:
    """Return a flow. Raises DecodeError."""
    fields = Fields("flow", items)
    return Flow(
        next_incoming_id=fields.uint(0, "next-incoming-id", ABSENT),
        incoming_window=fields.uint_required(1, "incoming-window"),
        next_outgoing_id=fields.uint_required(2, "next-outgoing-id"),
        outgoing_window=fields.uint_required(3, "outgoing-window"),
        handle=fields.uint(4, "handle", ABSENT),
        delivery_count=fields.uint(5, "delivery-count", ABSENT),
        link_credit=fields.uint(6, "link-credit", ABSENT),
        available=fields.uint(7, "available", ABSENT),
        drain=fields.flag(8, "drain", default=False),
        echo=fields.flag(9, "echo", default=False),
        properties=fields.map(10, "properties"),
    )


@final
class Detach:
    """detach (2.7.7)."""

    def __init__(self, handle: int, *, closed: bool, error: AmqpError | None = None) -> None:
        self.handle = handle
        self.closed = closed
        self.error = error

    def encode(self) -> bytes:
        """Return the performative."""
        error = self.error
        return encode_performative(
            DETACH, [uint(self.handle), True if self.closed else None, None if error is None else error.encoded()]
        )


def read_detach(items: list[AmqpValue]) -> Detach:
    """Return a detach. Raises DecodeError."""
    fields = Fields("detach", items)
    return Detach(
        fields.uint_required(0, "handle"),
        closed=fields.flag(1, "closed", default=False),
        error=read_error(fields.value(2)),
    )


def encode_ending(code: int, error: AmqpError | None) -> bytes:
    """Return an end or a close (2.7.8, 2.7.9)."""
    return encode_performative(code, [None if error is None else error.encoded()])


def read_ending(items: list[AmqpValue]) -> AmqpError | None:
    """Return the error of an end or a close. Raises DecodeError."""
    return read_error(Fields("end or close", items).value(0))


def performative_code(descriptor: AmqpValue) -> int:
    """Return the number of a performative, whichever form its descriptor has; -1 for anything else."""
    if isinstance(descriptor, Scalar) and descriptor.kind == 0x80 and isinstance(descriptor.value, int):
        return descriptor.value
    return PERFORMATIVE_BY_SYMBOL.get(descriptor.text, -1) if isinstance(descriptor, Symbol) else -1


def _uint_or_null(value: int) -> AmqpValue:
    return None if value == ABSENT else uint(value)


# The performatives of the SASL layer (5.3.3).


MECHANISMS: Final = 0x40
INIT: Final = 0x41
CHALLENGE: Final = 0x42
RESPONSE: Final = 0x43
OUTCOME: Final = 0x44

SASL_OK: Final = 0
SASL_AUTH: Final = 1  # wrong credentials
SASL_SYS: Final = 2
SASL_SYS_PERM: Final = 3
SASL_SYS_TEMP: Final = 4

_BY_SYMBOL: Final[dict[str, int]] = {
    "amqp:sasl-mechanisms:list": MECHANISMS,
    "amqp:sasl-init:list": INIT,
    "amqp:sasl-challenge:list": CHALLENGE,
    "amqp:sasl-response:list": RESPONSE,
    "amqp:sasl-outcome:list": OUTCOME,
}


@final
class SaslInit:
    """sasl-init: the mechanism the client chose, and its first words."""

    def __init__(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        self.mechanism = mechanism
        self.initial_response = initial_response
        self.hostname = hostname


def read_init(items: list[AmqpValue]) -> SaslInit:
    """Return a sasl-init. Raises DecodeError."""
    fields = Fields("sasl-init", items)
    return SaslInit(
        fields.symbol_required(0, "mechanism"), fields.binary(1, "initial-response"), fields.text(2, "hostname")
    )


def read_response(items: list[AmqpValue]) -> bytes:
    """Return the bytes of a sasl-response. Raises DecodeError."""
    return Fields("sasl-response", items).binary_required(0, "response")


def sasl_code(descriptor: AmqpValue) -> int:
    """Return the number of a SASL performative. Raises DecodeError."""
    if isinstance(descriptor, Scalar) and descriptor.kind == 0x80 and isinstance(descriptor.value, int):
        return descriptor.value
    if isinstance(descriptor, Symbol) and descriptor.text in _BY_SYMBOL:
        return _BY_SYMBOL[descriptor.text]
    raise DecodeError(f"unknown descriptor {descriptor!r:.80} in a SASL frame")


def mechanisms(names: Sequence[str]) -> bytes:
    """Return a sasl-mechanisms; always an array, as not every client takes a bare symbol."""
    return encode_composite(MECHANISMS, [AmqpArray(0xA3, [Symbol(name) for name in names])])


def challenge(data: bytes) -> bytes:
    """Return a sasl-challenge."""
    return encode_composite(CHALLENGE, [data])


def outcome(code: int, additional_data: bytes | None = None) -> bytes:
    """Return a sasl-outcome."""
    return encode_composite(OUTCOME, [ubyte(code), additional_data])
