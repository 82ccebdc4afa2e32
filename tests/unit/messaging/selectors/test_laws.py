"""Selectors against a plain evaluator: any condition, written down, has to come to what the plain one says.

The plain side holds conditions as tuples and messages as a dict, and has truth as a number: 0, 1, and 0.5 for unknown,
so AND is the lower of two, OR the higher, and NOT what is left to 1.
"""

import math
import operator
from typing import Any, TypeGuard

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers, UserPropertyValue
from sluicegate.messaging.selectors.dialects import ACTIVEMQ, STANDARD, Dialect
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selector, Selectors
from support.thorough import examples

NAMES = ("a", "b", "c", "text", "flag", "is", "m x", "größe")  # the last three: reserved, spaced, not ASCII
UNKNOWN = 0.5

Form = tuple[Any, ...]

numbers = st.integers(0, 5) | st.floats(0, 4, allow_nan=False).map(lambda number: round(number, 1))
texts = st.text("ab%_'\\é\n", max_size=4)
values: st.SearchStrategy[UserPropertyValue] = st.one_of(
    st.none(), st.booleans(), numbers, numbers.map(lambda number: -number), texts, st.just(b"ab")
)
messages = st.dictionaries(st.sampled_from(NAMES), values)

names = st.sampled_from(NAMES).map(lambda name: ("name", name))
number_constants = numbers.map(lambda number: ("constant", number))
operands: st.SearchStrategy[Form] = st.recursive(
    names | number_constants,
    lambda inner: st.tuples(st.sampled_from("+-*/%"), inner, inner) | inner.map(lambda operand: ("minus", operand)),
    max_leaves=4,
)
any_operands = operands | texts.map(lambda text: ("constant", text))
escapes = st.sampled_from(["", "%", "_", "a", "\\"])


def conditions_in(inner: st.SearchStrategy[Form]) -> st.SearchStrategy[Form]:
    joined = st.lists(inner, min_size=2, max_size=3)
    return (
        joined.map(lambda parts: ("AND", *parts))
        | joined.map(lambda parts: ("OR", *parts))
        | inner.map(lambda condition: ("NOT", condition))
    )


comparisons: st.SearchStrategy[Form] = st.one_of(
    names.map(lambda name: ("holds", name)),
    st.booleans().map(lambda truth: ("holds", ("constant", truth))),
    st.tuples(st.sampled_from(["=", "<>"]), any_operands, any_operands),
    st.tuples(st.sampled_from(["<", "<=", ">", ">="]), operands, operands),
    st.tuples(st.just("between"), st.booleans(), operands, operands, operands),
    st.tuples(st.just("in"), st.booleans(), names, st.lists(texts, min_size=1, max_size=3)),
    st.tuples(st.just("like"), st.booleans(), any_operands, texts, escapes),
    st.tuples(st.just("null"), st.booleans(), any_operands),
)
conditions = st.recursive(comparisons, conditions_in, max_leaves=8)


# Conditions that are compared, which ActiveMQ's dialect has.
compared_conditions = st.tuples(
    st.sampled_from(["=", "<>"]), *[comparisons.filter(lambda form: form[0] != "holds")] * 2
)
conditions_of_activemq = st.recursive(comparisons | compared_conditions, conditions_in, max_leaves=8)


# --- the plain writer: parentheses around everything ---


def written(form: Form) -> str:
    match form:
        case ("name", name):
            return f'"{name}"'
        case ("constant", bool(truth)):
            return str(truth)
        case ("constant", str(text)):
            return quoted(text)
        case ("constant", number):
            return repr(number)
        case ("minus", operand):
            return f"-({written(operand)})"
        case ("holds", operand):
            return written(operand)
        case ("NOT", condition):
            return f"NOT ({written(condition)})"
        case ("AND" | "OR", *parts):
            return f" {form[0]} ".join(f"({written(part)})" for part in parts)
        case ("between", negated, operand, low, high):
            return f"({written(operand)}) {no(negated)} BETWEEN ({written(low)}) AND ({written(high)})"
        case ("in", negated, name, listed):
            return f"{written(name)} {no(negated)} IN ({', '.join(map(quoted, listed))})"
        case ("like", negated, operand, pattern, escape):
            tail = f" ESCAPE {quoted(escape)}" if escape else ""
            return f"({written(operand)}) {no(negated)} LIKE {quoted(pattern)}{tail}"
        case ("null", negated, operand):
            return f"({written(operand)}) IS {no(negated)} NULL"
        case (sign, left, right):
            return f"({written(left)}) {sign} ({written(right)})"
    raise AssertionError(form)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def no(negated: bool) -> str:
    return "NOT" if negated else ""


# --- the plain evaluator ---


def truth(form: Form, message: dict[str, UserPropertyValue]) -> float:
    match form:
        case ("AND", *parts):
            return min(truth(part, message) for part in parts)
        case ("OR", *parts):
            return max(truth(part, message) for part in parts)
        case ("NOT", condition):
            return 1 - truth(condition, message)
        case ("holds", operand):
            value = worth(operand, message)
            return float(value) if isinstance(value, bool) else UNKNOWN
        case ("between", negated, operand, low, high):
            if negated:
                return max(truth(("<", operand, low), message), truth((">", operand, high), message))
            return min(truth((">=", operand, low), message), truth(("<=", operand, high), message))
        case ("in", negated, name, listed):
            value = worth(name, message)
            return abs(negated - (value in listed)) if isinstance(value, str) else UNKNOWN
        case ("like", negated, operand, pattern, escape):
            value = worth(operand, message)
            return abs(negated - is_like(value, tokens(pattern, escape))) if isinstance(value, str) else UNKNOWN
        case ("null", negated, operand):
            return float((worth(operand, message) is None) != negated)
        case (sign, left, right):
            return compared(sign, worth(left, message), worth(right, message))
    raise AssertionError(form)


SIGNS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def kind(value: UserPropertyValue) -> type:
    return float if type(value) is int else type(value)


def compared(sign: str, left: UserPropertyValue, right: UserPropertyValue) -> float:
    if left is None or right is None:
        return UNKNOWN
    has_order = kind(left) is float
    if kind(left) is not kind(right) or not (has_order or sign in ("=", "<>")):
        return 0.0
    return float(SIGNS[sign](left, right))


def worth(form: Form, message: dict[str, UserPropertyValue]) -> UserPropertyValue:
    match form:
        case ("name", name):
            return message.get(name)
        case ("constant", constant):
            return constant  # type: ignore[no-any-return]
        case ("minus", operand):
            number = worth(operand, message)
            return -number if isinstance(number, int | float) and not isinstance(number, bool) else None
        case (sign, left, right):
            first, second = worth(left, message), worth(right, message)
            for side in (first, second):
                if not isinstance(side, int | float) or isinstance(side, bool):
                    return None
            assert isinstance(first, int | float)
            assert isinstance(second, int | float)
            if sign in "/%" and second == 0:
                return None
            if sign == "%":
                rest = math.fmod(first, second)
                return int(rest) if isinstance(first, int) and isinstance(second, int) else rest
            return {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[sign](  # type: ignore[no-any-return]
                first, second
            )
    raise AssertionError(form)


def tokens(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Return the characters of a pattern, each with whether it is a wildcard."""
    found: list[tuple[str, bool]] = []
    rest = pattern
    while rest:
        if escape and rest[0] == escape and rest[1:2] and rest[1] in "%_" + escape:
            found.append((rest[1], False))
            rest = rest[2:]
        else:
            found.append((rest[0], rest[0] in "%_"))
            rest = rest[1:]
    return found


def is_like(text: str, pattern: list[tuple[str, bool]]) -> bool:
    if not pattern:
        return not text
    character, is_wild = pattern[0]
    if is_wild and character == "%":
        return any(is_like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and (is_wild or text[0] == character) and is_like(text[1:], pattern[1:])


# --- the same of ActiveMQ's dialect: Boolean objects, or None for unknown ---


def value_as_activemq(form: Form, message: dict[str, UserPropertyValue]) -> UserPropertyValue:
    """Return what a condition or an operand comes to; every form has a value there."""
    match form:
        case ("name" | "constant", _):
            return worth(form, message)
        case ("minus", operand):
            number = value_as_activemq(operand, message)
            return -number if is_number(number) else None
        case ("AND" | "OR", *parts):
            found = [value_as_activemq(part, message) for part in parts]
            decides = form[0] == "OR"
            return decides if decides in found else None if None in found else not decides
        case ("NOT", condition):
            return opposite(value_as_activemq(condition, message))
        case ("holds", operand):
            value = value_as_activemq(operand, message)
            return None if value is None else value is True
        case ("between", negated, operand, low, high):
            inside = ("AND", (">=", operand, low), ("<=", operand, high))
            outside = ("OR", ("<", operand, low), (">", operand, high))
            return value_as_activemq(outside if negated else inside, message)
        case ("in", _, name, _):
            return truth_or_none(truth(form, message)) if isinstance(worth(name, message), str) else None
        case ("like", negated, operand, pattern, escape):
            text = value_as_activemq(operand, message)
            if text is None:
                return None
            return (isinstance(text, str) and is_like(text, tokens(pattern, escape))) != negated  # type: ignore[no-any-return]
        case ("null", negated, operand):
            return (value_as_activemq(operand, message) is None) != negated  # type: ignore[no-any-return]
        case (sign, left, right):
            first, second = value_as_activemq(left, message), value_as_activemq(right, message)
            return compared_as_activemq(sign, first, second) if sign in SIGNS else calculated(sign, first, second)
    raise AssertionError(form)


def is_number(value: UserPropertyValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def truth_or_none(known: float) -> bool | None:
    return None if known == UNKNOWN else known == 1


def opposite(value: UserPropertyValue) -> bool | None:
    return None if value is None else not value


def compared_as_activemq(sign: str, left: UserPropertyValue, right: UserPropertyValue) -> bool | None:
    if sign == "<>":
        return opposite(compared_as_activemq("=", left, right))
    if sign == "=" and right is None:
        return left is None
    if left is None or right is None:
        return None
    if kind(left) is not kind(right) or (sign != "=" and isinstance(left, bytes)):
        return False
    return bool(SIGNS[sign](left, right))


def calculated(sign: str, left: UserPropertyValue, right: UserPropertyValue) -> UserPropertyValue:
    if isinstance(left, str) and sign == "+" and right is not None and not isinstance(right, bytes):
        return left + (str(right).lower() if isinstance(right, bool) else str(right))
    if not is_number(left) or not is_number(right):
        return None
    if sign in "+-*":
        return {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign](left, right)  # type: ignore[no-any-return]
    if sign == "%":
        return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)
    if right == 0:
        toward = math.copysign(1, left) * math.copysign(1, right)
        return math.nan if left == 0 or math.isnan(left) else toward * math.inf
    return left / right


# --- the laws ---


def batch_of(message: dict[str, UserPropertyValue]) -> MessageBatch:
    return MessageBatch(
        topic="t",
        topics=None,
        payloads=[b""],
        headers=[Headers(user_properties=list(message.items()))] if message else None,
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="",
        received_ms=0,
        payload_bytes=0,
    )


def compiled(text: str, dialect: Dialect = STANDARD) -> Selector:
    return Selectors({}, dialect).compile(text)


def compiled_or_refused(text: str) -> Selector | SelectorError:
    try:
        return compiled(text)
    except SelectorError as refusal:
        return refusal


@given(form=conditions, message=messages)
@example(form=("NOT", ("=", ("name", "a"), ("constant", 1))), message={})
@settings(max_examples=examples(150), deadline=None)
def test_a_selector_comes_to_what_the_plain_evaluator_says(form: Form, message: dict[str, UserPropertyValue]) -> None:
    expected = truth(form, message)
    batch = batch_of(message)

    assert compiled(written(form)).matches(batch, 0) == (expected == 1)
    assert compiled(f"NOT ({written(form)})").matches(batch, 0) == (expected == 0)


@given(form=conditions_of_activemq, message=messages)
@example(form=("NOT", ("=", ("constant", 1), ("name", "a"))), message={})
@example(form=("=", ("-", ("/", ("name", "a"), ("constant", 0)), ("name", "a")), ("name", "a")), message={"a": -0.0})
@settings(max_examples=examples(150), deadline=None)
def test_in_activemqs_dialect_it_comes_to_what_the_plain_evaluator_of_that_says(
    form: Form, message: dict[str, UserPropertyValue]
) -> None:
    """The conditions are written with parentheses around everything, so that they are read alike in both."""
    expected = value_as_activemq(form, message)
    batch = batch_of(message)
    selector = compiled(written(form), ACTIVEMQ)

    assert selector.matches(batch, 0) == (expected is True)
    assert compiled(f"NOT ({written(form)})", ACTIVEMQ).matches(batch, 0) == (expected is False)
    assert compiled(selector.normal_text, ACTIVEMQ).matches(batch, 0) == (expected is True)
    assert compiled(selector.normal_text, ACTIVEMQ) == selector


@given(form=conditions, message=messages)
@settings(max_examples=examples(150), deadline=None)
def test_the_normal_form_reads_back_as_the_same_selector(form: Form, message: dict[str, UserPropertyValue]) -> None:
    selector = compiled(written(form))
    again = compiled(selector.normal_text)
    batch = batch_of(message)

    assert again.normal_text == selector.normal_text
    assert again == selector
    assert again.matches(batch, 0) == selector.matches(batch, 0)


WORDS = (
    *("a", "b", "AND", "OR", "NOT", "IS", "NULL", "LIKE", "ESCAPE", "IN", "BETWEEN", "TRUE", "'x'", "'%'", "1", "2.5"),
    *("=", "<>", "<", ">=", "+", "-", "*", "/", "%", "(", ")", ",", "'", '"', "--", "/*", "*/", "0x", "JMSPriority"),
    *("m.", "amqp.", "convert_string_expressions:", "hyphenated_props:", "\0", "é", "[", "!=", "$", "\n"),
)


@given(text=st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join) | st.text(max_size=60))
@settings(max_examples=examples(300), deadline=None)
def test_no_text_does_more_than_be_refused(text: str) -> None:
    """Whatever is no selector raises SelectorError, within the text; whatever is one can be asked and written down."""
    selector = compiled_or_refused(text)
    if isinstance(selector, SelectorError):
        assert 0 <= selector.at <= len(text)
        return
    selector.matches(batch_of({"a": 1, "b": "x"}), 0)
    assert compiled(selector.normal_text) == selector


@given(form=conditions, cut=st.integers(0, 200), put=st.sampled_from(WORDS))
@settings(max_examples=examples(150), deadline=None)
def test_a_selector_with_a_change_is_a_selector_or_refused(form: Form, cut: int, put: str) -> None:
    text = written(form)
    changed = text[:cut] + put + text[cut + 1 :]
    selector = compiled_or_refused(changed)
    if isinstance(selector, SelectorError):
        assert 0 <= selector.at <= len(changed)
        return
    assert compiled(selector.normal_text) == selector
