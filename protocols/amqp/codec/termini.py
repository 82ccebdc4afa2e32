"""The two ends of a link: source, target, and the coordinator of transactions (3.5, 4.5.1)."""

from typing import Final, final

from sluicegate.protocols.amqp.codec.delivery_states import DeliveryState, read_state
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.fields import Fields
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Scalar, Symbol, symbols, uint

SOURCE: Final = 0x28
TARGET: Final = 0x29
COORDINATOR: Final = 0x30

DURABLE_NONE: Final = 0
DURABLE_CONFIGURATION: Final = 1
DURABLE_UNSETTLED_STATE: Final = 2

LINK_DETACH: Final = "link-detach"
SESSION_END: Final = "session-end"
CONNECTION_CLOSE: Final = "connection-close"
NEVER: Final = "never"

MOVE: Final = "move"
COPY: Final = "copy"

_BY_SYMBOL: Final[dict[str, int]] = {
    "amqp:source:list": SOURCE,
    "amqp:target:list": TARGET,
    "amqp:coordinator:list": COORDINATOR,
}


class Terminus:
    """What both ends of a link say of their node (3.5.3, 3.5.4)."""

    __slots__ = ("address", "capabilities", "durable", "dynamic", "dynamic_properties", "expiry_policy", "timeout_s")

    def __init__(
        self,
        address: str | None,
        *,
        durable: int = DURABLE_NONE,
        expiry_policy: str = SESSION_END,
        timeout_s: int = 0,
        dynamic: bool = False,
        dynamic_properties: AmqpMap | None = None,
        capabilities: list[str] | None = None,
    ) -> None:
        self.address = address
        self.durable = durable
        self.expiry_policy = expiry_policy
        self.timeout_s = timeout_s
        self.dynamic = dynamic
        self.dynamic_properties = dynamic_properties
        self.capabilities: list[str] = capabilities or []

    def first_fields(self) -> list[AmqpValue]:
        """Return the fields that both ends begin with, for the wire."""
        return [
            self.address,
            uint(self.durable),
            Symbol(self.expiry_policy),
            uint(self.timeout_s),
            self.dynamic,
            self.dynamic_properties,
        ]


@final
class Source(Terminus):
    """Where messages come from."""

    __slots__ = ("default_outcome", "distribution_mode", "filters", "outcomes")

    def __init__(
        self,
        address: str | None,
        *,
        durable: int = DURABLE_NONE,
        expiry_policy: str = SESSION_END,
        timeout_s: int = 0,
        dynamic: bool = False,
        dynamic_properties: AmqpMap | None = None,
        distribution_mode: str | None = None,
        filters: AmqpMap | None = None,
        default_outcome: DeliveryState | None = None,
        outcomes: list[str] | None = None,
        capabilities: list[str] | None = None,
    ) -> None:
        super().__init__(
            address,
            durable=durable,
            expiry_policy=expiry_policy,
            timeout_s=timeout_s,
            dynamic=dynamic,
            dynamic_properties=dynamic_properties,
            capabilities=capabilities,
        )
        self.distribution_mode = distribution_mode
        self.filters = filters
        self.default_outcome = default_outcome
        self.outcomes: list[str] = outcomes or []

    def encoded(self) -> AmqpValue:
        """Return the described list."""
        default = self.default_outcome
        own: list[AmqpValue] = [
            None if self.distribution_mode is None else Symbol(self.distribution_mode),
            self.filters,
            None if default is None else default.described(),
            symbols(self.outcomes),
            symbols(self.capabilities),
        ]
        return Described(Scalar(0x80, SOURCE), self.first_fields() + own)


@final
class Target(Terminus):
    """Where messages go."""

    __slots__ = ()

    def encoded(self) -> AmqpValue:
        """Return the described list."""
        return Described(Scalar(0x80, TARGET), [*self.first_fields(), symbols(self.capabilities)])


@final
class Coordinator:
    """The target of a link that declares and discharges transactions."""

    __slots__ = ("capabilities",)

    def __init__(self, capabilities: list[str]) -> None:
        self.capabilities = capabilities

    def encoded(self) -> AmqpValue:
        """Return the described list."""
        return Described(Scalar(0x80, COORDINATOR), [symbols(self.capabilities)])


def read_source(value: AmqpValue) -> Source | None:
    """Return the source field of an attach."""
    if value is None:
        return None
    code, items = _terminus(value)
    if code != SOURCE:
        raise DecodeError(f"descriptor {code:#x} where a source is required")
    fields = Fields("source", items)
    return Source(
        fields.text(0, "address"),
        durable=fields.uint(1, "durable", DURABLE_NONE),
        expiry_policy=fields.symbol(2, "expiry-policy") or SESSION_END,
        timeout_s=fields.uint(3, "timeout", 0),
        dynamic=fields.flag(4, "dynamic", default=False),
        dynamic_properties=fields.map(5, "dynamic-node-properties"),
        distribution_mode=fields.symbol(6, "distribution-mode"),
        filters=fields.map(7, "filter"),
        default_outcome=read_state(fields.value(8)),
        outcomes=fields.symbols(9, "outcomes"),
        capabilities=fields.symbols(10, "capabilities"),
    )


def read_target(value: AmqpValue) -> Target | Coordinator | None:
    """Return the target field of an attach."""
    if value is None:
        return None
    code, items = _terminus(value)
    if code == COORDINATOR:
        return Coordinator(Fields("coordinator", items).symbols(0, "capabilities"))
    if code != TARGET:
        raise DecodeError(f"descriptor {code:#x} where a target is required")
    fields = Fields("target", items)
    return Target(
        fields.text(0, "address"),
        durable=fields.uint(1, "durable", DURABLE_NONE),
        expiry_policy=fields.symbol(2, "expiry-policy") or SESSION_END,
        timeout_s=fields.uint(3, "timeout", 0),
        dynamic=fields.flag(4, "dynamic", default=False),
        dynamic_properties=fields.map(5, "dynamic-node-properties"),
        capabilities=fields.symbols(6, "capabilities"),
    )


def _terminus(value: AmqpValue) -> tuple[int, list[AmqpValue]]:
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError(f"a terminus is not a composite: {value!r:.80}")
    descriptor = value.descriptor
    if isinstance(descriptor, Symbol) and descriptor.text in _BY_SYMBOL:
        return _BY_SYMBOL[descriptor.text], value.value
    if isinstance(descriptor, Scalar) and descriptor.kind == 0x80 and isinstance(descriptor.value, int):
        return descriptor.value, value.value
    raise DecodeError(f"a terminus has the unknown descriptor {descriptor!r:.80}")
