"""Delivery states and outcomes (3.4), and their transactional form (4.5)."""

from typing import Final, final

from sluicegate.protocols.amqp.types.encoding import encode, encode_composite
from sluicegate.protocols.amqp.types.errors import DESCRIPTION_CHARS_MAX, DecodeError
from sluicegate.protocols.amqp.types.fields import Fields
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Scalar, Symbol

ERROR: Final = 0x1D
RECEIVED: Final = 0x23
ACCEPTED: Final = 0x24
REJECTED: Final = 0x25
RELEASED: Final = 0x26
MODIFIED: Final = 0x27
DECLARED: Final = 0x33
TRANSACTIONAL: Final = 0x34

OUTCOMES: Final = (ACCEPTED, REJECTED, RELEASED, MODIFIED)  # the terminal states of 3.4

STATE_NAMES: Final[dict[int, str]] = {
    RECEIVED: "received",
    ACCEPTED: "accepted",
    REJECTED: "rejected",
    RELEASED: "released",
    MODIFIED: "modified",
    DECLARED: "declared",
    TRANSACTIONAL: "transactional-state",
}
_CODE_BY_SYMBOL: Final[dict[str, int]] = {f"amqp:{name}:list": code for code, name in STATE_NAMES.items()}
_CODE_BY_SYMBOL["amqp:error:list"] = ERROR


@final
class AmqpError:
    """An error as it travels in close, end, detach and rejected (2.8.14).

    Descriptions have a bound: they repeat what clients sent, are kept with links, and go out in frames that have one.
    """

    __slots__ = ("condition", "description", "info")

    def __init__(self, condition: str, description: str = "", info: AmqpMap | None = None) -> None:
        self.condition = condition
        self.description = description[:DESCRIPTION_CHARS_MAX]
        self.info = info

    def encoded(self) -> AmqpValue:
        """Return the described list."""
        return Described(Scalar(0x80, ERROR), [Symbol(self.condition), self.description or None, self.info])

    def __repr__(self) -> str:
        return f"AmqpError({self.condition}: {self.description})"


@final
class DeliveryState:
    """A delivery state. Which fields mean anything depends on its code; the rest keep their defaults."""

    __slots__ = ("annotations", "code", "delivery_failed", "error", "outcome", "txn_id", "undeliverable_here")

    def __init__(
        self,
        code: int,
        *,
        error: AmqpError | None = None,
        delivery_failed: bool = False,
        undeliverable_here: bool = False,
        annotations: AmqpMap | None = None,
        txn_id: bytes = b"",
        outcome: "DeliveryState | None" = None,
    ) -> None:
        self.code = code
        self.error = error  # REJECTED
        self.delivery_failed = delivery_failed  # MODIFIED
        self.undeliverable_here = undeliverable_here  # MODIFIED
        self.annotations = annotations  # MODIFIED: to be merged into the message's
        self.txn_id = txn_id  # DECLARED, TRANSACTIONAL
        self.outcome = outcome  # TRANSACTIONAL: what takes effect with the commit

    def encode(self) -> bytes:
        """Return the described list."""
        code = self.code
        if code in (ACCEPTED, RELEASED):
            return bytes((0x00, 0x53, code, 0x45))
        if code == REJECTED:
            return encode_composite(code, [None if self.error is None else self.error.encoded()])
        if code == MODIFIED:
            return encode_composite(code, [self.delivery_failed, self.undeliverable_here, self.annotations])
        if code == DECLARED:
            return encode_composite(code, [self.txn_id])
        assert code == TRANSACTIONAL, "nobody sends a received state from here"
        outcome = self.outcome
        head = encode(self.txn_id)
        body = head if outcome is None else head + outcome.encode()
        count = 1 if outcome is None else 2
        return bytes((0x00, 0x53, code, 0xC0, len(body) + 1, count)) + body

    def described(self) -> AmqpValue:
        """Return an outcome as a value, to stand within another one."""
        fields: list[AmqpValue] = []
        if self.code == REJECTED and self.error is not None:
            fields = [self.error.encoded()]
        elif self.delivery_failed or self.undeliverable_here:
            fields = [self.delivery_failed, self.undeliverable_here]
        return Described(Scalar(0x80, self.code), fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeliveryState) and other.encode() == self.encode()

    __hash__ = None  # type: ignore[assignment]  # compared in tests only

    def __repr__(self) -> str:
        return f"DeliveryState({STATE_NAMES[self.code]}{'' if self.error is None else f', {self.error!r}'})"


ACCEPTED_STATE: Final = DeliveryState(ACCEPTED)
RELEASED_STATE: Final = DeliveryState(RELEASED)


def rejected(condition: str, description: str, info: AmqpMap | None = None) -> DeliveryState:
    """Return a rejected outcome."""
    return DeliveryState(REJECTED, error=AmqpError(condition, description, info))


def described_list(value: AmqpValue, what: str) -> tuple[int, list[AmqpValue]]:
    """Return code and fields of a composite. Raises DecodeError for anything else."""
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError(f"{what} is not a composite: {value!r:.80}")
    return descriptor_code(value.descriptor, what), value.value


def descriptor_code(descriptor: AmqpValue, what: str) -> int:
    """Return the number of a state's descriptor, whichever of its two forms was used."""
    if isinstance(descriptor, Scalar) and descriptor.kind == 0x80 and isinstance(descriptor.value, int):
        return descriptor.value
    if isinstance(descriptor, Symbol) and descriptor.text in _CODE_BY_SYMBOL:
        return _CODE_BY_SYMBOL[descriptor.text]
    raise DecodeError(f"{what} has the unknown descriptor {descriptor!r:.80}")


def read_error(value: AmqpValue) -> AmqpError | None:
    """Return an error field."""
    if value is None:
        return None
    code, items = described_list(value, "error")
    if code != ERROR:
        raise DecodeError(f"descriptor {code:#x} where an error is required")
    fields = Fields("error", items)
    return AmqpError(fields.symbol_required(0, "condition"), fields.text(1, "description") or "", fields.map(2, "info"))


def read_state(value: AmqpValue) -> DeliveryState | None:
    """Return a delivery state."""
    if value is None:
        return None
    code, items = described_list(value, "delivery state")
    fields = Fields(STATE_NAMES.get(code, "delivery state"), items)
    if code in (ACCEPTED, RELEASED, RECEIVED):
        return DeliveryState(code)
    if code == REJECTED:
        return DeliveryState(code, error=read_error(fields.value(0)))
    if code == MODIFIED:
        return DeliveryState(
            code,
            delivery_failed=fields.flag(0, "delivery-failed", default=False),
            undeliverable_here=fields.flag(1, "undeliverable-here", default=False),
            annotations=fields.map(2, "message-annotations"),
        )
    if code == DECLARED:
        return DeliveryState(code, txn_id=fields.binary_required(0, "txn-id"))
    if code == TRANSACTIONAL:
        outcome = read_state(fields.value(1))
        if outcome is not None and outcome.code not in OUTCOMES:
            raise DecodeError(f"a transactional-state with {STATE_NAMES[outcome.code]}, which is not an outcome")
        return DeliveryState(code, txn_id=fields.binary_required(0, "txn-id"), outcome=outcome)
    raise DecodeError(f"delivery state with the unknown descriptor {code:#x}")
