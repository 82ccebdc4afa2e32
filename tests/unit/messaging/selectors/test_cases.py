"""The language of selectors by example: the cases of ActiveMQ and of the standard, in tests/data/selectors.

Where ActiveMQ answers otherwise than the standard, or than what a reader expects, the standard's answer stands there;
docs/decisions/0017-selector-language.md says where.
"""

from pathlib import Path

import pytest

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.selectors.conditions import LIKE_CHARS_MAX
from sluicegate.messaging.selectors.dialects import ACTIVEMQ, JOINED_CHARS_MAX, STANDARD, Dialect
from sluicegate.messaging.selectors.lexer import SELECTOR_CHARS_MAX, SelectorError
from sluicegate.messaging.selectors.parser import DEPTH_MAX, WORDS_MAX
from sluicegate.messaging.selectors.selector import Selector, Selectors

DATA = Path(__file__).parents[3] / "data" / "selectors"


def cases() -> list[tuple[str, str]]:
    """Return (what it comes to, selector) of each line."""
    lines = [line for line in (DATA / "cases.txt").read_text().splitlines() if line and not line.startswith("#")]
    return [(line[0], line[3:]) for line in lines]


def cases_of_both_dialects() -> list[tuple[str, str, str]]:
    """Return (what the standard says, what ActiveMQ's dialect says, selector) of each line."""
    lines = [line for line in (DATA / "dialects.txt").read_text().splitlines() if line and not line.startswith("#")]
    return [(line[0], line[3], line[13:]) for line in lines]


def message() -> MessageBatch:
    """Return the message of the cases, as a batch of one row."""
    headers = Headers(
        user_properties=[
            ("name", "James"),
            ("name", "the second of that name"),
            ("location", "London"),
            ("rank", 123),
            ("version", 2),
            ("byteProp", 123),
            ("shortProp", 123),
            ("longProp", 123),
            ("floatProp", 123.0),
            ("doubleProp", 123.0),
            ("trueProp", True),
            ("falseProp", False),
            ("textTrue", "True"),
            ("quote", "'In God We Trust'"),
            ("foo", "_foo"),
            ("endingUnderScore", "XD7xlJIQn_"),
            ("punctuation", "!#$&()*+,-./:;<=>?@[\\]^`{|}~"),
            ("lines", "one\ntwo\nthree"),
            ("num", "21"),
            ("empty", ""),
            ("big", -(1 << 63)),
            ("data", b"x"),
            ("nothing", None),
            ("a.test", "v"),
            ("foo-bar", 0),
            ('say "hi"', 1),
            ("größe", 5),
            ("$dollar", 1),
            ("_under", 1),
            ("and", 1),
            ("JMSType", "selector-test"),
        ],
        timestamp_ms=1_700_000_000_000,
    )
    return MessageBatch(
        topic="VirtualTopic.O",
        topics=None,
        payloads=[b"payload"],
        headers=[headers],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="james",
        received_ms=1_600_000_000_000,
        payload_bytes=7,
    )


def compiled(text: str, dialect: Dialect = STANDARD) -> Selector:
    return Selectors({}, dialect).compile(text)


def outcome(text: str, dialect: Dialect = STANDARD) -> str:
    """Return T, F, U or X. What neither a condition nor its opposite selects is unknown."""
    try:
        selector = compiled(text, dialect)
    except SelectorError:
        return "X"
    if selector.matches(message(), 0):
        return "T"
    prefix, opposed = split_prefix(text)
    return "F" if compiled(f"{prefix}NOT ({opposed}\n)", dialect).matches(message(), 0) else "U"


def split_prefix(text: str) -> tuple[str, str]:
    head, colon, rest = text.rpartition("_props:") if "_props:" in text else text.rpartition("_expressions:")
    return head + colon, rest


@pytest.mark.parametrize(("expected", "text"), cases(), ids=lambda value: value)
def test_a_selector_comes_to_what_the_standard_says(expected: str, text: str) -> None:
    """Jakarta Messaging 3.1, 3.8."""
    assert outcome(text) == expected


@pytest.mark.parametrize(("standard", "activemq", "text"), cases_of_both_dialects(), ids=lambda value: value)
def test_a_selector_comes_to_what_its_dialect_says(standard: str, activemq: str, text: str) -> None:
    """Jakarta Messaging 3.1, 3.8; ActiveMQ's SelectorParser.jj and org.apache.activemq.filter."""
    assert (outcome(text), outcome(text, ACTIVEMQ)) == (standard, activemq)


@pytest.mark.parametrize("text", [text for _, said, text in cases_of_both_dialects() if said != "X"])
def test_the_normal_form_in_activemqs_dialect_is_the_same_selector(text: str) -> None:
    written = compiled(text, ACTIVEMQ).normal_text

    assert compiled(written, ACTIVEMQ).normal_text == written
    assert outcome(written, ACTIVEMQ) == outcome(text, ACTIVEMQ)


@pytest.mark.parametrize("dialect", [STANDARD, ACTIVEMQ])
@pytest.mark.parametrize("negated", ["", "NOT "])
def test_a_text_is_held_against_patterns_up_to_a_length(dialect: Dialect, negated: str) -> None:
    """A pattern costs by the text, and a selector may have hundreds."""
    batch = message()
    headers = batch.headers_of(0)
    assert headers is not None
    assert headers.user_properties is not None
    headers.user_properties += [("longest", "x" * LIKE_CHARS_MAX), ("longer", "x" * (LIKE_CHARS_MAX + 1))]
    pattern = "'y%'" if negated else "'x%'"

    assert compiled(f"longest {negated}LIKE {pattern}", dialect).matches(batch, 0)
    assert not compiled(f"longer {negated}LIKE {pattern}", dialect).matches(batch, 0)
    assert compiled("longer = longer", dialect).matches(batch, 0)


def test_texts_are_joined_up_to_a_limit() -> None:
    """Else a selector of 2000 words would multiply the longest property of a message."""
    longest = "x" * 8000
    joined = " + ".join(["long"] * (JOINED_CHARS_MAX // 8000))
    batch = message()
    headers = batch.headers_of(0)
    assert headers is not None
    assert headers.user_properties is not None
    headers.user_properties.append(("long", longest))

    assert compiled(f"({joined}) IS NOT NULL", ACTIVEMQ).matches(batch, 0)
    assert compiled(f"({joined} + long) IS NULL", ACTIVEMQ).matches(batch, 0)


def test_a_whole_number_beyond_64_bits_is_not_joined() -> None:
    """Python refuses to write thousands of digits."""
    product = " * ".join(["-0xFFFFFFFFFFFFFFFF"] * 150 + ["rank"] * 40)

    assert compiled(f"(name + ({product})) IS NULL", ACTIVEMQ).matches(message(), 0)
    assert compiled("name + -18446744073709551615 = 'James-18446744073709551615'", ACTIVEMQ).matches(message(), 0)


def test_a_text_that_another_dialect_accepted_keeps_its_meaning_there() -> None:
    """What was stored before the setting changed is in force after it."""
    selectors = Selectors({}, STANDARD)
    assert selectors.compile_accepted("rank = 123 = trueProp").matches(message(), 0)
    assert selectors.compile_accepted("NOT rank = 5").matches(message(), 0)
    assert not Selectors({}, ACTIVEMQ).compile_accepted("NOT rank = 5").matches(message(), 0)
    with pytest.raises(SelectorError):
        selectors.compile_accepted("rank =")


@pytest.mark.parametrize("text", [text for expected, text in cases() if expected != "X"])
def test_the_normal_form_of_a_selector_is_the_same_selector(text: str) -> None:
    normal = repr(compiled(text))
    written = compiled(text).normal_text

    assert compiled(written) == compiled(text)
    assert repr(compiled(written)) == normal
    assert outcome(written) == outcome(text)


@pytest.mark.parametrize(
    ("text", "at", "allowed"),
    [
        ("rank = ", 7, "a name, a constant"),
        ("rank != 5", 5, "<> is the sign for unequal"),
        ("name = 'unterminated", 7, "a text that ends with '"),
        ("a = 1 AMD b = 2", 6, "AND, OR"),
        ("(rank = 1", 9, ")"),
        ("1 < rank < 200", 0, "AND between two comparisons"),
        ("name > 'A'", 7, "= and <> only"),
        ("name LIKE 'J%' ESCAPE 'ab'", 22, "one character"),
        ("rank = 1 /* note", 9, "a comment that ends with */"),
        ("JMSRedelivered = TRUE", 0, "what stays as it is"),
        ("a = 1 AND amqp.colour = 2", 10, "amqp.priority"),
        ("unk = NULL", 6, "IS NULL"),
        ("5x = 1", 1, "AND, OR"),
        ("rank = 1E400", 7, "1.7E308"),
        ("rank = 1 AND XPATH '//order'", 13, "names and constants"),
        ("'x' BETWEEN 1 AND 2", 0, "= and <> only"),
    ],
)
def test_an_error_says_where_the_selector_is_wrong_and_what_would_do(text: str, at: int, allowed: str) -> None:
    """VD-37: there is no XPATH. A constant that has no order cannot be compared by one, in BETWEEN neither."""
    with pytest.raises(SelectorError) as failure:
        compiled(text)

    assert failure.value.at == at
    assert allowed in failure.value.allowed
    assert f"character {at + 1}:" in str(failure.value)


def test_too_long_or_too_deep_selectors_are_refused() -> None:
    compiled("(" * (DEPTH_MAX - 2) + "rank = 123" + ")" * (DEPTH_MAX - 2))
    compiled(" AND ".join(["rank = 123"] * (WORDS_MAX // 4)))
    compiled("name = '" + "x" * (SELECTOR_CHARS_MAX - 9) + "'")

    for text, reason in [
        ("(" * 500 + "rank = 123" + ")" * 500, "too deep"),
        ("NOT " * 500 + "trueProp", "too deep"),
        ("rank = " + "- " * 500 + "1", "too deep"),
        ("rank = " + "1 + " * 500 + "1", "too deep"),
        ("1 + (" * 150 + "1" + ")" * 150 + " = 1", "too deep"),
        (" AND ".join(["rank = 123"] * WORDS_MAX)[: SELECTOR_CHARS_MAX - 10], "too many words"),
        ("name = '" + "x" * SELECTOR_CHARS_MAX + "'", "characters"),
    ]:
        with pytest.raises(SelectorError, match=reason):
            compiled(text)


def test_a_pattern_of_like_costs_no_more_than_text_times_pattern() -> None:
    """A regular expression that tries every split of the text would not come back from this one."""
    batch = message().select([0])
    headers = batch.headers_of(0)
    assert headers is not None
    assert headers.user_properties is not None
    headers.user_properties.append(("long", "ab" * 5000))

    assert not compiled("long LIKE '" + "%a" * 200 + "%c'").matches(batch, 0)
    assert not compiled("long LIKE '" + "%a_" * 200 + "c%'").matches(batch, 0)


def test_a_selector_asked_for_again_is_the_same_one_until_too_many_were() -> None:
    selectors = Selectors({})
    first = selectors.compile("rank = 0")
    assert selectors.compile("rank = 0") is first

    for number in range(100):
        selectors.compile(f"name = '{number:01000}'")

    assert selectors.compile("rank = 0") is not first
    assert selectors.compile("rank = 0") == first
