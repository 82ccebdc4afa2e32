"""The filters of a source (3.5.8), known by their descriptors: clients choose the keys under which they send them.

    apache.org:selector-filter:string    a selector (docs/concepts/selectors.md), for every link that receives
    apache.org:no-local-filter:list      no messages that the link's own container published, for subscriptions
    sluicegate:partition:uint            only this partition, for links that browse a queue
    sluicegate:start-sequence:ulong      only from this sequence on, in every partition, for links that browse a queue

A filter that is unknown, or has no meaning for the link, is not in force, and the answer leaves it out.
"""

from typing import Final, final

from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.protocols.amqp.codec.addresses import AddressRefused
from sluicegate.protocols.amqp.limits import MAP_ENTRIES_MAX
from sluicegate.protocols.amqp.types.errors import INVALID_FIELD
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Scalar, Symbol

SELECTOR: Final = "apache.org:selector-filter:string"
NO_LOCAL: Final = "apache.org:no-local-filter:list"
PARTITION: Final = "sluicegate:partition:uint"
START_SEQUENCE: Final = "sluicegate:start-sequence:ulong"

_BY_NUMBER: Final[dict[int, str]] = {0x0000468C_00000003: NO_LOCAL, 0x0000468C_00000004: SELECTOR}
_SELECTOR_KEY: Final = "jms-selector"  # some clients leave the descriptor out

CONSUMER_FILTERS: Final = (SELECTOR,)
BROWSER_FILTERS: Final = (SELECTOR, PARTITION, START_SEQUENCE)
SUBSCRIPTION_FILTERS: Final = (SELECTOR, NO_LOCAL)


@final
class Filters:
    """Those in force on one link."""

    def __init__(self) -> None:
        self.selector: Selector | None = None
        self.is_no_local = False
        self.partition: int | None = None
        self.start_sequence = 0
        self._pairs: list[tuple[AmqpValue, AmqpValue]] = []

    def in_force(self) -> AmqpMap | None:
        """Return them as the answer shows them: as they were asked for."""
        return AmqpMap(self._pairs) if self._pairs else None

    def take(self, key: AmqpValue, value: AmqpValue, known: tuple[str, ...], selectors: Selectors) -> None:
        """Put a filter in force, if it is one of those known here. Raises AddressRefused."""
        kind = _kind(key, value)
        if kind not in known:
            return
        said = value.value if isinstance(value, Described) else value
        if kind == NO_LOCAL:
            self.is_no_local = True
        elif kind == PARTITION:
            self.partition = _number(kind, said)
        elif kind == START_SEQUENCE:
            self.start_sequence = _number(kind, said)
        else:
            self.selector = _selector(said, selectors)
        self._pairs.append((key, value))


def read_filters(filters: AmqpMap | None, known: tuple[str, ...], selectors: Selectors) -> Filters:
    """Return the filters of a source that are known where it leads to. Raises AddressRefused."""
    found = Filters()
    if filters is None:
        return found
    if len(filters.pairs) > MAP_ENTRIES_MAX:
        raise AddressRefused(INVALID_FIELD, f"more than {MAP_ENTRIES_MAX} filters")
    for key, value in filters.pairs:
        found.take(key, value, known, selectors)
    return found


def selector_filter(text: str) -> AmqpMap | None:
    """Return the filters of a source whose only one is this selector; none where it is empty."""
    return AmqpMap([(Symbol(_SELECTOR_KEY), Described(Symbol(SELECTOR), text))]) if text else None


def _kind(key: AmqpValue, value: AmqpValue) -> str:
    """Return which filter it is, or nothing."""
    if not isinstance(value, Described):
        is_selector = isinstance(value, str) and isinstance(key, Symbol) and key.text == _SELECTOR_KEY
        return SELECTOR if is_selector else ""
    descriptor = value.descriptor
    if isinstance(descriptor, Symbol):
        return descriptor.text
    if isinstance(descriptor, Scalar) and isinstance(descriptor.value, int):
        return _BY_NUMBER.get(descriptor.value, "")
    return ""


def _number(kind: str, said: AmqpValue) -> int:
    value = said.value if isinstance(said, Scalar) else said
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise AddressRefused(INVALID_FIELD, f"the filter {kind} has the value {said!r:.80}; a number from 0 is allowed")
    return value


def _selector(said: AmqpValue, selectors: Selectors) -> Selector:
    if not isinstance(said, str):
        raise AddressRefused(INVALID_FIELD, f"a selector is a string, not {said!r:.80}")
    try:
        return selectors.compile(said)
    except SelectorError as error:
        raise AddressRefused(INVALID_FIELD, str(error)) from None
