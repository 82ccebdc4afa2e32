"""The performatives of the SASL layer (5.3.3)."""

from collections.abc import Sequence
from typing import Final, final

from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.fields import Fields
from sluicegate.protocols.amqp.types.values import AmqpArray, AmqpValue, Scalar, Symbol, ubyte

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
