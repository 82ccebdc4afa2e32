"""The dialect of ActiveMQ Classic's selectors, for those who have many of them and want them to mean what they meant.

- NOT binds stronger than any comparison: `NOT a = 1` is `(NOT a) = 1`. `=`, `<>` and IS bind weaker than the other
  comparisons, and conditions may be compared: `a = b > 1` is `a = (b > 1)`.
- `<>` is NOT of `=`; something equals nothing: false; nothing equals nothing: true. So `'5' <> 5` is true.
- Texts of properties have an order, and so have truth values. LIKE is false of what is no text, and a name by itself
  of what is no truth value; what is missing stays unknown.
- A text and `+` join. Division by zero has a result.

Everything else is the standard's, `messaging.selectors.dialects`. Java's types are not imitated:
docs/decisions/0017.
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

# The dialect in which selectors are read: how strongly words bind, what may be compared, and what forms come to.
#
# `Dialect` itself is that of the standard, SQL-92's as Jakarta Messaging 3.1, 3.8 has it. The parser asks it, when a
# selector is made; what it makes knows no dialect. The other one is `messaging.selectors.dialects`.


ALLOWED_OPERAND: Final = "a name, a constant, arithmetic with them, or a condition in parentheses"

BINDS_BY_THE_STANDARD: Final[dict[str, int]] = {
    "OR": BINDS_OR,
    "AND": BINDS_AND,
    "NOT": BINDS_COMPARISON,  # behind an operand: NOT LIKE and its kind
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
    """The standard's, and the base of others. Those differ by what they override, never by a flag."""

    def __init__(self, binds: dict[str, int], not_binds: int) -> None:
        self.binds: Final = binds  # of what stands behind an operand
        self.not_binds: Final = not_binds  # of NOT before a condition

    def null(self, at: int) -> Operand:
        """Return what NULL is where an operand stands. Raises SelectorError."""
        raise SelectorError("'NULL' where an operand has to stand", at=at, allowed="IS NULL, or " + ALLOWED_OPERAND)

    def value_of(self, condition: Condition, at: int) -> Operand:
        """Return a condition as an operand. Raises SelectorError."""
        raise SelectorError("a condition where a value has to stand", at=at, allowed="AND between two comparisons")

    def check_equality(self, left: Operand, at: int, right: Operand, right_at: int) -> None:
        """Refuse, with SelectorError, what `=` and `<>` can be seen not to compare."""
        if isinstance(left, Constant) and isinstance(right, Constant) and left.is_truth() != right.is_truth():
            raise SelectorError("a truth value compared with another constant", at=at, allowed="values of one type")

    def arithmetic(self, sign: str, left: Operand, right: Operand) -> Operand:
        """Return two operands with one of `+ - * / %` between them."""
        return Arithmetic(sign, left, right)

    def holds(self, operand: Operand) -> Condition:
        """Return a truth value that stands for itself."""
        return IsTrue(operand)

    def comparison(self, operator: int, left: Operand, right: Operand, *, converts: bool) -> Condition:
        """Return two operands with one of the six signs between them."""
        return Comparison(operator, left, right, converts=converts)

    def between(self, operand: Operand, low: Operand, high: Operand, *, negated: bool, converts: bool) -> Condition:
        """Return whether an operand is within two bounds."""
        return Between(operand, low, high, negated=negated, converts=converts)

    def like(self, operand: Operand, pattern: str, escape: str, *, negated: bool) -> Condition:
        """Return whether an operand is of a pattern."""
        return Like(operand, pattern, escape, negated=negated)


STANDARD: Final = Dialect(BINDS_BY_THE_STANDARD, BINDS_NOT)


def check_ordered(operand: Operand, at: int) -> None:
    """Refuse, with SelectorError, what can be seen to have no order."""
    if not operand.may_have_order():
        raise SelectorError(f"{operand.text()} has no order", at=at, allowed="numbers; texts with = and <> only")


JOINED_CHARS_MAX: Final = 1 << 16  # of texts that + joins, else 2000 words multiply a property that may be long

_BINDS: Final = BINDS_BY_THE_STANDARD | {"=": BINDS_EQUALITY, "<>": BINDS_EQUALITY, "IS": BINDS_EQUALITY}


@final
class ActiveMqDialect(Dialect):
    """ActiveMQ Classic 5 and 6: `SelectorParser.jj` and `org.apache.activemq.filter`."""

    def null(self, at: int) -> Operand:
        """Return NULL, which is a constant that neither compares nor has an order: `NULL IS NULL`."""
        return Constant(None)

    def value_of(self, condition: Condition, at: int) -> Operand:
        """Return a condition as an operand."""
        return TruthValue(condition)

    def check_equality(self, left: Operand, at: int, right: Operand, right_at: int) -> None:
        """Refuse NULL on either side, and of two constants a truth value on the left with another on the right."""
        for operand, place in ((left, at), (right, right_at)):
            if isinstance(operand, Constant) and operand.constant is None:
                raise SelectorError("a comparison with NULL", at=place, allowed="IS NULL, IS NOT NULL")
        if isinstance(left, Constant) and isinstance(right, Constant) and left.is_truth() and not right.is_truth():
            raise SelectorError("a truth value compared with another constant", at=at, allowed="values of one type")

    def arithmetic(self, sign: str, left: Operand, right: Operand) -> Operand:
        """Return arithmetic in which texts are joined, and a division by zero has a result."""
        return ActiveMqArithmetic(sign, left, right)

    def holds(self, operand: Operand) -> Condition:
        """Return what is false of other values."""
        return ActiveMqHolds(operand)

    def comparison(self, operator: int, left: Operand, right: Operand, *, converts: bool) -> Condition:
        """Return a comparison as in `compared_as_activemq`."""
        return ActiveMqComparison(operator, left, right, converts=converts)

    def between(self, operand: Operand, low: Operand, high: Operand, *, negated: bool, converts: bool) -> Condition:
        """Return a range of whatever has an order."""
        return ActiveMqBetween(operand, low, high, negated=negated, converts=converts)

    def like(self, operand: Operand, pattern: str, escape: str, *, negated: bool) -> Condition:
        """Return a pattern that is not met by what is no text."""
        return ActiveMqLike(operand, pattern, escape, negated=negated)


ACTIVEMQ: Final = ActiveMqDialect(_BINDS, BINDS_PRODUCT)


@final
class TruthValue(Operand):
    """What a condition comes to, as a value: None where it is unknown."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(condition.depth, condition.binds)
        self._condition = condition

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the truth value."""
        truth = self._condition.truth(batch, row, headers)
        return None if truth == UNKNOWN else truth == TRUE

    def text(self) -> str:
        """Return the condition as it is written."""
        return self._condition.text()

    def may_have_order(self) -> bool:
        """Return that it can be seen to have none."""
        return False


@final
class ActiveMqHolds(IsTrue):
    """A name by itself: false of what is no truth value."""

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return the value; unknown where there is none."""
        value = self._operand.value(batch, row, headers)
        if value is None:
            return UNKNOWN
        return TRUE if isinstance(value, bool) and value else FALSE


@final
class ActiveMqComparison(Comparison):
    """Two operands and one of `= <> < <= > >=`, as ActiveMQ compares."""

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return how the two compare."""
        left = self._left.value(batch, row, headers)
        right = self._right.value(batch, row, headers)
        return compared_as_activemq(self._operator, left, right, self._converts)


@final
class ActiveMqBetween(Between):
    """`operand [NOT] BETWEEN low AND high`, of texts too."""

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
    """`operand [NOT] LIKE 'pattern'`: what is no text is not like anything, and so NOT LIKE is true of it."""

    def truth(self, batch: MessageBatch, row: int, headers: Headers | None) -> int:
        """Return whether the whole value is of the pattern; unknown where there is none."""
        value = self._operand.value(batch, row, headers)
        if value is None or (isinstance(value, str) and len(value) > LIKE_CHARS_MAX):
            return UNKNOWN
        matches = isinstance(value, str) and self._expression.fullmatch(value) is not None
        return TRUE if matches != self._negated else FALSE


@final
class ActiveMqArithmetic(Arithmetic):
    """Arithmetic of doubles as IEEE 754 has it, where `/` and `%` are always doubles; and texts that are joined."""

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the result; None when a side is missing, or no number beside no text that `+` joins."""
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
    """Return how two values compare in ActiveMQ: `ComparisonExpression` there."""
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
    """Return a text with a value behind it, or None when that has no text or both are too long together."""
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
    """Return a result, which may be infinite or not a number."""
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
