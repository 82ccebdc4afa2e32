"""Messages to the coordinator of transactions: declare and discharge, each the amqp-value of a message (4.5)."""

from typing import Final, final

from sluicegate.protocols.amqp.codec.sections import VALUE, find_sections
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.fields import Fields
from sluicegate.protocols.amqp.types.values import AmqpValue, Described, Scalar, Symbol

DECLARE: Final = 0x31
DISCHARGE: Final = 0x32

_BY_SYMBOL: Final[dict[str, int]] = {"amqp:declare:list": DECLARE, "amqp:discharge:list": DISCHARGE}


@final
class Declare:
    """Begin a transaction (4.5.2)."""

    def __init__(self, *, has_global_id: bool) -> None:
        self.has_global_id = has_global_id  # it is to be part of a distributed one


@final
class Discharge:
    """End a transaction (4.5.3)."""

    def __init__(self, txn_id: bytes, *, fail: bool) -> None:
        self.txn_id = txn_id
        self.fail = fail  # roll back


def read_control(payload: bytes) -> Declare | Discharge:
    """Return what a message to the coordinator asks for. Raises DecodeError."""
    sections = find_sections(payload)
    if sections.body_code != VALUE:
        raise DecodeError("a message to the coordinator has an amqp-value as its body")
    value, _ = decode(payload, sections.body_value_at, len(payload))
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError(f"neither a declare nor a discharge: {value!r:.80}")
    code = _code(value.descriptor)
    if code == DECLARE:
        return Declare(has_global_id=Fields("declare", value.value).value(0) is not None)
    if code == DISCHARGE:
        fields = Fields("discharge", value.value)
        return Discharge(fields.binary_required(0, "txn-id"), fail=fields.flag(1, "fail", default=False))
    raise DecodeError(f"neither a declare nor a discharge: {value!r:.80}")


def _code(descriptor: AmqpValue) -> int:
    if isinstance(descriptor, Scalar) and isinstance(descriptor.value, int):
        return descriptor.value
    return _BY_SYMBOL.get(descriptor.text, 0) if isinstance(descriptor, Symbol) else 0
