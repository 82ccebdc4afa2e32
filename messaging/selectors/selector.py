"""Selectors: a text that says which messages somebody wants, made into something that can be asked quickly.

The language is that of JMS, as `docs/selectors.md` has it. A selector is made once, by `Selectors`, which also
remembers those that were asked for lately. It knows nothing of queues and subscriptions; those who have them ask it.
"""

from collections.abc import Mapping
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import NativeFields
from sluicegate.messaging.selectors.conditions import TRUE, Condition
from sluicegate.messaging.selectors.dialects import ACTIVEMQ, STANDARD, Dialect
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.parser import parse_condition

DIALECTS: Final[dict[str, Dialect]] = {"none": STANDARD, "activemq": ACTIVEMQ}  # by what they are compatible with

REMEMBERED_CHARS_MAX: Final = 100_000  # of the texts of selectors; with what is made of them, at most some 5 MB

BYTES_PER_WEIGHT: Final = 1024  # of properties: texts that are looked into, and names that are looked through


@final
class Selector:
    """Which messages somebody wants. Two are equal when they mean the same by their form; it never changes."""

    __slots__ = ("_condition", "_weight", "normal_text", "text")

    def __init__(self, text: str, condition: Condition, prefix: str, weight: int) -> None:
        self.text = text  # as it was given
        self._condition = condition
        self._weight = weight  # of asking a message that has little beside its payload
        self.normal_text = prefix + condition.text()  # what it comes to, whatever way it was written

    def matches(self, batch: MessageBatch, row: int) -> bool:
        """Return whether the message in a row is wanted: whether the condition is true, not false or unknown."""
        return self._condition.truth(batch, row, batch.headers_of(row)) == TRUE

    def weight(self, batch: MessageBatch, row: int) -> int:
        """Return what asking the message in a row costs: 1 where both are small, some 0.4 us."""
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
    """Makes selectors. `natives`: readers of the forms that messages come in, by `Headers.native_format`."""

    def __init__(self, natives: Mapping[int, NativeFields], dialect: Dialect = STANDARD) -> None:
        self._natives = natives
        self._dialect = dialect
        self._remembered: dict[str, Selector] = {}
        self._remembered_chars = 0

    def compile(self, text: str) -> Selector:
        """Return the selector of a text. Raises SelectorError, which says where the text is wrong."""
        selector = self._remembered.get(text)
        if selector is None:
            selector = self._made(text, self._dialect)
            self._remember(text, selector)
        return selector

    def compile_accepted(self, text: str) -> Selector:
        """Return the selector of a text that was accepted once, though maybe in another dialect than this one.

        What only the other dialect takes means what it means there. Raises SelectorError for what neither takes.
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
