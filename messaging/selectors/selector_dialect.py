"""The dialect in which selectors are read: how strongly words bind, what may be compared, and what forms come to.

`Dialect` itself is that of the standard, SQL-92's as Jakarta Messaging 3.1, 3.8 has it. The parser asks it, when a
selector is made; what it makes knows no dialect. The other one is `messaging.selectors.dialects`.
"""

from typing import Final

from sluicegate.messaging.selectors.conditions import SIGNS, Between, Comparison, Condition, Holds, Like
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.operands import (
    BINDS_AND,
    BINDS_COMPARISON,
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
        return Holds(operand)

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
