"""Selectors: compile the text of a selector into a condition over messages.

The language is that of JMS, as in `docs/concepts/selectors.md`. `Selectors` compiles a text once and caches recent
results. It knows nothing of queues and subscriptions.
"""

from collections.abc import Mapping
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import NativeFields
from sluicegate.messaging.selectors.conditions import TRUE, Condition
from sluicegate.messaging.selectors.dialects import ACTIVEMQ, STANDARD, Dialect
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.parser import parse_condition

DIALECTS: Final[dict[str, Dialect]] = {"none": STANDARD, "activemq": ACTIVEMQ}  # by the value of `compat`

REMEMBERED_CHARS_MAX: Final = 100_000  # of the texts of selectors; with their compiled forms, at most some 5 MB

BYTES_PER_WEIGHT: Final = 1024  # of properties: texts that are searched, and names that are compared


@final
class Selector:
    """A compiled selector. Two are equal when their normal forms are; immutable."""

    __slots__ = ("_condition", "_weight", "normal_text", "text")

    def __init__(self, text: str, condition: Condition, prefix: str, weight: int) -> None:
        self.text = text  # as written
        self._condition = condition
        self._weight = weight  # cost for a message that has little beside its payload
        self.normal_text = prefix + condition.text()  # the normal form, however it was written

    def matches(self, batch: MessageBatch, row: int) -> bool:
        """Return whether the message in a row matches: whether the condition is true, not false or unknown."""
        return self._condition.truth(batch, row, batch.headers_of(row)) == TRUE

    def weight(self, batch: MessageBatch, row: int) -> int:
        """Return the cost of evaluating the message in a row: 1 where both are small, some 0.4 us."""
        headers = batch.headers_of(row)
        return self._weight if headers is None else self._weight * (1 + headers.memory_bytes() // BYTES_PER_WEIGHT)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and other.normal_text == self.normal_text

    def __hash__(self) -> int:
        return hash(self.normal_text)

    def __repr__(self) -> str:
        return f"Selector({self.normal_text!r})"


@final
class Selectors:
    """Compiles and caches selectors. `natives`: readers of native forms, by `Headers.native_format`."""

    def __init__(self, natives: Mapping[int, NativeFields], dialect: Dialect = STANDARD) -> None:
        self._natives = natives
        self._dialect = dialect
        self._remembered: dict[str, Selector] = {}
        self._remembered_chars = 0

    def compile(self, text: str) -> Selector:
        """Compile a selector. Raises SelectorError, which says where the text is wrong."""
        selector = self._remembered.get(text)
        if selector is None:
            selector = self._made(text, self._dialect)
            self._remember(text, selector)
        return selector

    def compile_accepted(self, text: str) -> Selector:
        """Compile a selector that was accepted once, possibly in another dialect than this one.

        A text that only the other dialect accepts has its meaning there. Raises SelectorError if neither accepts it.
        """
        try:
            return self.compile(text)
        except SelectorError:
            return self._made(text, ACTIVEMQ if self._dialect is STANDARD else STANDARD)

    def _made(self, text: str, dialect: Dialect) -> Selector:
        condition, prefix, weight = parse_condition(text, self._natives, dialect)
        return Selector(text, condition, prefix, weight)

    def _remember(self, text: str, selector: Selector) -> None:
        self._remembered_chars += len(text)
        while self._remembered_chars > REMEMBERED_CHARS_MAX:
            oldest = next(iter(self._remembered))
            self._remembered_chars -= len(oldest)
            del self._remembered[oldest]
        self._remembered[text] = selector
