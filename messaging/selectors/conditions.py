"""The conditions of a selector, in SQL's three-valued logic: true, false, and unknown.

A comparison with a missing value is unknown, NOT unknown is unknown, and a message is selected only where the whole is
true. Values of different types (text, number, truth value, bytes) are neither equal nor unequal nor ordered: every
comparison of them is false. The values compared are `messaging.selectors.operands`.
"""

import re
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers, UserPropertyValue
from sluicegate.messaging.selectors.lexer import quoted_text
from sluicegate.messaging.selectors.operands import BINDS_AND, BINDS_COMPARISON, BINDS_OR, BINDS_SUM, Operand

FALSE: Final = 0
TRUE: Final = 1
UNKNOWN: Final = 2

EQUAL: Final = 0
UNEQUAL: Final = 1
LESS: Final = 2
LESS_OR_EQUAL: Final = 3
GREATER: Final = 4
GREATER_OR_EQUAL: Final = 5
SIGNS: Final = ("=", "<>", "<", "<=", ">", ">=")

LIKE_CHARS_MAX: Final = 4096  # of a text that is matched against a pattern: with the longest ones 30 ms

_TEXT_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?")


class Condition:
    """A function of a message that is true, false or unknown. `depth` is the depth of nesting."""

    def __init__(self, depth: int, binds: int) -> None:
        self.depth = depth
        self.binds = binds  # BINDS_... of messaging.selectors.operands

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return TRUE, FALSE or UNKNOWN for a row of a batch with these headers."""
        raise AssertionError("Condition is abstract")

    def text(self) -> str:
        """Return the condition as written."""
        raise AssertionError("Condition is abstract")

    def text_in(self, binds: int) -> str:
        """Return the condition as written within a form that binds this strongly."""
        return self.text() if self.binds >= binds else f"({self.text()})"


@final
class AllOf(Condition):
    """Conditions joined by AND: false when one is false, else unknown when one is unknown, else true."""

    def __init__(self, conditions: list[Condition]) -> None:
        super().__init__(_depth_of(conditions), BINDS_AND)
        self._conditions = conditions

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return the conjunction; conditions after a false one are not evaluated."""
        result = TRUE
        for condition in self._conditions:
            found = condition.truth(batch, row, headers)
            if found == FALSE:
                return FALSE
            if found == UNKNOWN:
                result = UNKNOWN
        return result

    def text(self) -> str:
        """Return the conditions with AND between them."""
        return " AND ".join([each.text_in(BINDS_AND) for each in self._conditions])


@final
class AnyOf(Condition):
    """Conditions joined by OR: true when one is true, else unknown when one is unknown, else false."""

    def __init__(self, conditions: list[Condition]) -> None:
        super().__init__(_depth_of(conditions), BINDS_OR)
        self._conditions = conditions

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return the disjunction; conditions after a true one are not evaluated."""
        result = FALSE
        for condition in self._conditions:
            found = condition.truth(batch, row, headers)
            if found == TRUE:
                return TRUE
            if found == UNKNOWN:
                result = UNKNOWN
        return result

    def text(self) -> str:
        """Return the conditions with OR between them."""
        return " OR ".join([each.text_in(BINDS_OR) for each in self._conditions])


@final
class Not(Condition):
    """The negation of a condition. The dialect decides how strongly NOT binds."""

    def __init__(self, condition: Condition, binds: int) -> None:
        super().__init__(condition.depth + 1, binds)
        self._condition = condition

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return the negation; that of unknown is unknown."""
        return opposite(self._condition.truth(batch, row, headers))

    def text(self) -> str:
        """Return the condition with NOT before it."""
        return "NOT " + self._condition.text_in(self.binds)


class IsTrue(Condition):
    """A truth value that stands for itself: `TRUE`, or a property that is one."""

    def __init__(self, operand: Operand) -> None:
        super().__init__(operand.depth + 1, operand.binds)
        self._operand = operand

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return the value; unknown for a value that is no truth value."""
        value = self._operand.value(batch, row, headers)
        if isinstance(value, bool):
            return TRUE if value else FALSE
        return UNKNOWN

    def text(self) -> str:
        """Return the operand as written."""
        return self._operand.text()


class Comparison(Condition):
    """Two operands and one of `= <> < <= > >=`."""

    def __init__(self, operator: int, left: Operand, right: Operand, *, converts: bool) -> None:
        super().__init__(max(left.depth, right.depth) + 1, BINDS_COMPARISON)
        self._operator = operator
        self._left = left
        self._right = right
        self._converts = converts

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return the result of the comparison."""
        left = self._left.value(batch, row, headers)
        right = self._right.value(batch, row, headers)
        return compared(self._operator, left, right, self._converts)

    def text(self) -> str:
        """Return both with the sign between them."""
        return f"{self._left.text_in(BINDS_SUM)} {SIGNS[self._operator]} {self._right.text_in(BINDS_SUM)}"


class Between(Condition):
    """`operand [NOT] BETWEEN low AND high`, both bounds included."""

    def __init__(self, operand: Operand, low: Operand, high: Operand, *, negated: bool, converts: bool) -> None:
        super().__init__(max(operand.depth, low.depth, high.depth) + 1, BINDS_COMPARISON)
        self._operand = operand
        self._low = low
        self._high = high
        self._negated = negated
        self._converts = converts

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return `>= low AND <= high`, or when negated `< low OR > high`."""
        value = self._operand.value(batch, row, headers)
        low = self._low.value(batch, row, headers)
        high = self._high.value(batch, row, headers)
        if self._negated:
            return either(compared(LESS, value, low, self._converts), compared(GREATER, value, high, self._converts))
        above_low = compared(GREATER_OR_EQUAL, value, low, self._converts)
        return both(above_low, compared(LESS_OR_EQUAL, value, high, self._converts))

    def text(self) -> str:
        """Return the condition as written."""
        middle = "NOT BETWEEN" if self._negated else "BETWEEN"
        low = self._low.text_in(BINDS_SUM)
        return f"{self._operand.text_in(BINDS_SUM)} {middle} {low} AND {self._high.text_in(BINDS_SUM)}"


@final
class In(Condition):
    """`operand [NOT] IN ('a', 'b')`; unknown for a value that is no text."""

    def __init__(self, operand: Operand, texts: list[str], *, negated: bool) -> None:
        super().__init__(operand.depth + 1, BINDS_COMPARISON)
        self._operand = operand
        self._listed = texts
        self._texts = frozenset(texts)
        self._negated = negated

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return whether the value is one of the texts."""
        value = self._operand.value(batch, row, headers)
        if not isinstance(value, str):
            return UNKNOWN
        return TRUE if (value in self._texts) != self._negated else FALSE

    def text(self) -> str:
        """Return the condition as written."""
        listed = ", ".join([quoted_text(each) for each in self._listed])
        return f"{self._operand.text_in(BINDS_SUM)} {'NOT IN' if self._negated else 'IN'} ({listed})"


class Like(Condition):
    """`operand [NOT] LIKE 'pattern' [ESCAPE 'c']`: `%` is any text, `_` one character.

    Unknown for a value that is no text, and for a text of more than LIKE_CHARS_MAX characters.
    """

    def __init__(self, operand: Operand, pattern: str, escape: str, *, negated: bool) -> None:
        super().__init__(operand.depth + 1, BINDS_COMPARISON)
        self._operand = operand
        self._pattern = pattern
        self._escape = escape  # one character; empty: none
        self._expression = like_expression(pattern, escape)
        self._negated = negated

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return whether the whole value matches the pattern."""
        value = self._operand.value(batch, row, headers)
        if not isinstance(value, str) or len(value) > LIKE_CHARS_MAX:
            return UNKNOWN
        return TRUE if (self._expression.fullmatch(value) is not None) != self._negated else FALSE

    def text(self) -> str:
        """Return the condition as written."""
        escape = f" ESCAPE {quoted_text(self._escape)}" if self._escape else ""
        middle = "NOT LIKE" if self._negated else "LIKE"
        return f"{self._operand.text_in(BINDS_SUM)} {middle} {quoted_text(self._pattern)}{escape}"


@final
class IsNull(Condition):
    """`operand IS [NOT] NULL`, which is never unknown."""

    def __init__(self, operand: Operand, *, negated: bool) -> None:
        super().__init__(operand.depth + 1, BINDS_COMPARISON)
        self._operand = operand
        self._negated = negated

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return whether there is no value."""
        return TRUE if (self._operand.value(batch, row, headers) is None) != self._negated else FALSE

    def text(self) -> str:
        """Return the condition as written."""
        return f"{self._operand.text_in(BINDS_SUM)} {'IS NOT NULL' if self._negated else 'IS NULL'}"


def both(one: int, other: int) -> int:
    """Return the conjunction of two truths."""
    if one == FALSE or other == FALSE:
        return FALSE
    return UNKNOWN if one == UNKNOWN or other == UNKNOWN else TRUE


def either(one: int, other: int) -> int:
    """Return the disjunction of two truths."""
    if one == TRUE or other == TRUE:
        return TRUE
    return UNKNOWN if one == UNKNOWN or other == UNKNOWN else FALSE


def opposite(truth: int) -> int:
    """Return the opposite of TRUE, FALSE or UNKNOWN."""
    return UNKNOWN if truth == UNKNOWN else 1 - truth


def compared(operator: int, left: UserPropertyValue, right: UserPropertyValue, converts: bool) -> int:
    """Compare two values. With `converts`, a text beside a number or truth value is converted to that type."""
    if left is None or right is None:
        return UNKNOWN
    if isinstance(left, str):
        if isinstance(right, str):
            return _same(operator, left == right)
        read = read_as(left, right) if converts else None
        return FALSE if read is None else compared(operator, read, right, False)
    if isinstance(right, str):
        read = read_as(right, left) if converts else None
        return FALSE if read is None else compared(operator, left, read, False)
    if isinstance(left, (bool, bytes)) or isinstance(right, (bool, bytes)):
        return _same(operator, left == right) if type(left) is type(right) else FALSE
    return TRUE if ordered(operator, left, right) else FALSE


def like_expression(pattern: str, escape: str) -> re.Pattern[str]:
    """Return a LIKE pattern as a regular expression for a whole text.

    The escape character makes `%`, `_` and itself literal; before any other character it is literal itself. The text
    between two `%` is searched once, from the left: the group is atomic. So a match costs at most the length of the
    text times that of the pattern, whatever the pattern.
    """
    pieces: list[str] = [""]
    index = 0
    while index < len(pattern):
        character = pattern[index]
        following = pattern[index + 1 : index + 2]
        if character == escape and following and following in ("%", "_", escape):
            pieces[-1] += re.escape(following)
            index += 1
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if character == "_" else re.escape(character)
        index += 1
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    middle = "".join([f"(?>.*?{piece})" for piece in pieces[1:-1] if piece])
    return re.compile(f"{pieces[0]}{middle}.*{pieces[-1]}", re.DOTALL)


def _depth_of(conditions: list[Condition]) -> int:
    return max([condition.depth for condition in conditions]) + 1


def _same(operator: int, equal: bool) -> int:
    """Return the result of comparing values that have no order."""
    if operator == EQUAL:
        return TRUE if equal else FALSE
    if operator == UNEQUAL:
        return FALSE if equal else TRUE
    return FALSE


def ordered(operator: int, left: int | float, right: int | float) -> bool:
    """Compare two numbers by their exact values."""
    if operator == EQUAL:
        return left == right
    if operator == UNEQUAL:
        return left != right
    if operator == LESS:
        return left < right
    if operator == LESS_OR_EQUAL:
        return left <= right
    if operator == GREATER:
        return left > right
    return left >= right


def read_as(text: str, other: UserPropertyValue) -> UserPropertyValue:
    """Convert a text to the type of the other side, or return None when it has no such value."""
    if isinstance(other, bool):
        word = text.lower()
        return word == "true" if word in ("true", "false") else None
    if isinstance(other, (int, float)) and _TEXT_NUMBER.fullmatch(text) is not None:
        digits = text.lstrip("+-")
        return int(text) if digits.isdigit() else float(text)
    return None
