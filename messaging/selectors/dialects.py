"""The dialects of selectors: the standard, and that of ActiveMQ Classic, for applications that rely on its meaning.

ActiveMQ's differs from the standard as follows:

- NOT binds stronger than any comparison: `NOT a = 1` is `(NOT a) = 1`. `=`, `<>` and IS bind weaker than the other
  comparisons, and conditions may be compared: `a = b > 1` is `a = (b > 1)`.
- `<>` is NOT of `=`. A value equals a missing value: false; two missing values are equal: true. So `'5' <> 5` is true.
- Texts of properties are ordered, and so are truth values. LIKE is false for a value that is no text, and a name by
  itself is false for a value that is no truth value; a missing value stays unknown.
- A text and `+` concatenate. Division by zero has a result.

Java's types are not imitated: docs/decisions/0017.
"""

import math
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers, UserPropertyValue
from sluicegate.messaging.selectors.conditions import (
    EQUAL,
    FALSE,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LESS_OR_EQUAL,
    LIKE_CHARS_MAX,
    SIGNS,
    TRUE,
    UNEQUAL,
    UNKNOWN,
    Between,
    Comparison,
    Condition,
    IsTrue,
    Like,
    both,
    compared,
    either,
    opposite,
    ordered,
)
from sluicegate.messaging.selectors.lexer import INTEGER_MAX, SelectorError
from sluicegate.messaging.selectors.operands import (
    BINDS_AND,
    BINDS_COMPARISON,
    BINDS_EQUALITY,
    BINDS_NOT,
    BINDS_OR,
    BINDS_PRODUCT,
    BINDS_SUM,
    Arithmetic,
    Constant,
    Operand,
)

ALLOWED_OPERAND: Final = "a name, a constant, arithmetic with them, or a condition in parentheses"

BINDS_BY_THE_STANDARD: Final[dict[str, int]] = {
    "OR": BINDS_OR,
    "AND": BINDS_AND,
    "NOT": BINDS_COMPARISON,  # after an operand: NOT LIKE and the like
    "IS": BINDS_COMPARISON,
    "LIKE": BINDS_COMPARISON,
    "BETWEEN": BINDS_COMPARISON,
    "IN": BINDS_COMPARISON,
    "+": BINDS_SUM,
    "-": BINDS_SUM,
    "*": BINDS_PRODUCT,
    "/": BINDS_PRODUCT,
    "%": BINDS_PRODUCT,
} | dict.fromkeys(SIGNS, BINDS_COMPARISON)


class Dialect:
    """The standard: SQL-92 as in Jakarta Messaging 3.1, section 3.8. Base class of other dialects.

    A dialect says how strongly words bind, what may be compared, and which conditions the parser makes. The parser asks
    it when a selector is compiled; the compiled conditions know no dialect. Other dialects override methods; there are
    no flags.
    """

    def __init__(self, binds: dict[str, int], not_binds: int) -> None:
        self.binds: Final = binds  # of the word after an operand
        self.not_binds: Final = not_binds  # of NOT before a condition

    def null(self, at: int) -> Operand:
        """Return NULL as an operand. Raises SelectorError."""
        raise SelectorError("'NULL' in place of an operand", at=at, allowed="IS NULL, or " + ALLOWED_OPERAND)

    def value_of(self, condition: Condition, at: int) -> Operand:
        """Return a condition as an operand. Raises SelectorError."""
        raise SelectorError("a condition in place of a value", at=at, allowed="AND between two comparisons")

    def check_equality(self, left: Operand, at: int, right: Operand, right_at: int) -> None:
        """Raise SelectorError for operands of `=` and `<>` that are known to be incomparable."""
        if isinstance(left, Constant) and isinstance(right, Constant) and left.is_truth() != right.is_truth():
            raise SelectorError("a truth value compared with another constant", at=at, allowed="values of one type")

    def arithmetic(self, sign: str, left: Operand, right: Operand) -> Operand:
        """Return two operands joined by one of `+ - * / %`."""
        return Arithmetic(sign, left, right)

    def holds(self, operand: Operand) -> Condition:
        """Return the condition of a truth value that stands for itself."""
        return IsTrue(operand)

    def comparison(self, operator: int, left: Operand, right: Operand, *, converts: bool) -> Condition:
        """Return a comparison of two operands with one of the six signs."""
        return Comparison(operator, left, right, converts=converts)

    def between(self, operand: Operand, low: Operand, high: Operand, *, negated: bool, converts: bool) -> Condition:
        """Return the condition that an operand is within two bounds."""
        return Between(operand, low, high, negated=negated, converts=converts)

    def like(self, operand: Operand, pattern: str, escape: str, *, negated: bool) -> Condition:
        """Return the condition that an operand matches a pattern."""
        return Like(operand, pattern, escape, negated=negated)


STANDARD: Final = Dialect(BINDS_BY_THE_STANDARD, BINDS_NOT)


def check_ordered(operand: Operand, at: int) -> None:
    """Raise SelectorError for an operand that is known to have no order."""
    if not operand.may_have_order():
        raise SelectorError(f"{operand.text()} has no order", at=at, allowed="numbers; texts with = and <> only")


JOINED_CHARS_MAX: Final = 1 << 16  # of texts joined by +, else 2000 words multiply a property that may be long

_BINDS: Final = BINDS_BY_THE_STANDARD | {"=": BINDS_EQUALITY, "<>": BINDS_EQUALITY, "IS": BINDS_EQUALITY}


@final
class ActiveMqDialect(Dialect):
    """ActiveMQ Classic 5 and 6: `SelectorParser.jj` and `org.apache.activemq.filter`."""

    def null(self, at: int) -> Operand:
        """Return NULL, a constant that neither compares nor has an order: `NULL IS NULL`."""
        return Constant(None)

    def value_of(self, condition: Condition, at: int) -> Operand:
        """Return a condition as an operand."""
        return TruthValue(condition)

    def check_equality(self, left: Operand, at: int, right: Operand, right_at: int) -> None:
        """Refuse NULL on either side, and a constant truth value on the left with another constant on the right."""
        for operand, place in ((left, at), (right, right_at)):
            if isinstance(operand, Constant) and operand.constant is None:
                raise SelectorError("a comparison with NULL", at=place, allowed="IS NULL, IS NOT NULL")
        if isinstance(left, Constant) and isinstance(right, Constant) and left.is_truth() and not right.is_truth():
            raise SelectorError("a truth value compared with another constant", at=at, allowed="values of one type")

    def arithmetic(self, sign: str, left: Operand, right: Operand) -> Operand:
        """Return arithmetic that concatenates texts, and in which division by zero has a result."""
        return ActiveMqArithmetic(sign, left, right)

    def holds(self, operand: Operand) -> Condition:
        """Return a condition that is false for values that are no truth values."""
        return ActiveMqHolds(operand)

    def comparison(self, operator: int, left: Operand, right: Operand, *, converts: bool) -> Condition:
        """Return a comparison as in `compared_as_activemq`."""
        return ActiveMqComparison(operator, left, right, converts=converts)

    def between(self, operand: Operand, low: Operand, high: Operand, *, negated: bool, converts: bool) -> Condition:
        """Return a range over all ordered values."""
        return ActiveMqBetween(operand, low, high, negated=negated, converts=converts)

    def like(self, operand: Operand, pattern: str, escape: str, *, negated: bool) -> Condition:
        """Return a pattern that no value but a text matches."""
        return ActiveMqLike(operand, pattern, escape, negated=negated)


ACTIVEMQ: Final = ActiveMqDialect(_BINDS, BINDS_PRODUCT)


@final
class TruthValue(Operand):
    """The value of a condition: None where it is unknown."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(condition.depth, condition.binds)
        self._condition = condition

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the truth value."""
        truth = self._condition.truth(batch, row, headers)
        return None if truth == UNKNOWN else truth == TRUE

    def text(self) -> str:
        """Return the text of the condition."""
        return self._condition.text()

    def may_have_order(self) -> bool:
        """Return False: a truth value is known to have no order here."""
        return False


@final
class ActiveMqHolds(IsTrue):
    """A name by itself: false for a value that is no truth value."""

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return the value; unknown where it is missing."""
        value = self._operand.value(batch, row, headers)
        if value is None:
            return UNKNOWN
        return TRUE if isinstance(value, bool) and value else FALSE


@final
class ActiveMqComparison(Comparison):
    """Two operands and one of `= <> < <= > >=`, as ActiveMQ compares."""

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return the result of the comparison."""
        left = self._left.value(batch, row, headers)
        right = self._right.value(batch, row, headers)
        return compared_as_activemq(self._operator, left, right, self._converts)


@final
class ActiveMqBetween(Between):
    """`operand [NOT] BETWEEN low AND high`, also for texts."""

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return `>= low AND <= high`, or when negated `< low OR > high`."""
        value = self._operand.value(batch, row, headers)
        low = self._low.value(batch, row, headers)
        high = self._high.value(batch, row, headers)
        converts = self._converts
        if self._negated:
            below = compared_as_activemq(LESS, value, low, converts)
            return either(below, compared_as_activemq(GREATER, value, high, converts))
        above_low = compared_as_activemq(GREATER_OR_EQUAL, value, low, converts)
        return both(above_low, compared_as_activemq(LESS_OR_EQUAL, value, high, converts))


@final
class ActiveMqLike(Like):
    """`operand [NOT] LIKE 'pattern'`: only a text matches, so NOT LIKE is true for other values."""

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return whether the whole value matches the pattern; unknown where it is missing."""
        value = self._operand.value(batch, row, headers)
        if value is None or (isinstance(value, str) and len(value) > LIKE_CHARS_MAX):
            return UNKNOWN
        matches = isinstance(value, str) and self._expression.fullmatch(value) is not None
        return TRUE if matches != self._negated else FALSE


@final
class ActiveMqArithmetic(Arithmetic):
    """Arithmetic of IEEE 754 doubles, in which `/` and `%` always take doubles; and concatenation of texts."""

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the result; None when a side is missing, or is neither a number nor joined to a text by `+`."""
        left = self._left.value(batch, row, headers)
        right = self._right.value(batch, row, headers)
        if isinstance(left, str):
            return _joined(left, right) if self._sign == "+" else None
        if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
            return None
        if isinstance(left, bool) or isinstance(right, bool):
            return None
        if self._sign in "+-*" and isinstance(left, int) and isinstance(right, int):
            return left + right if self._sign == "+" else left - right if self._sign == "-" else left * right
        return _calculated_with_doubles(self._sign, _double(left), _double(right))


def compared_as_activemq(operator: int, left: UserPropertyValue, right: UserPropertyValue, converts: bool) -> int:
    """Compare two values as ActiveMQ does (`ComparisonExpression` there)."""
    if operator == UNEQUAL:
        return opposite(compared_as_activemq(EQUAL, left, right, converts))
    if left is None or right is None:
        if operator == EQUAL and right is None:
            return TRUE if left is None else FALSE
        return UNKNOWN
    if operator != EQUAL and isinstance(left, str) and isinstance(right, str):
        return TRUE if ordered(operator, -1 if left < right else 1 if left > right else 0, 0) else FALSE
    if operator != EQUAL and isinstance(left, bool) and isinstance(right, bool):
        return TRUE if ordered(operator, int(left), int(right)) else FALSE
    return compared(operator, left, right, converts)


def _joined(text: str, right: UserPropertyValue) -> UserPropertyValue:
    """Return a text with a value appended, or None when the value has no text or the result is too long."""
    if isinstance(right, str):
        behind = right
    elif isinstance(right, bool):
        behind = "true" if right else "false"
    elif isinstance(right, float) or (isinstance(right, int) and abs(right) <= INTEGER_MAX):
        behind = str(right)
    else:  # the digits of products have no bound
        return None
    return text + behind if len(text) + len(behind) <= JOINED_CHARS_MAX else None


def _double(number: int | float) -> float:
    """Return the nearest double; beyond the largest, infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _calculated_with_doubles(sign: str, left: float, right: float) -> float:
    """Return the result, which may be infinite or not a number."""
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if sign == "%":
        return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)
