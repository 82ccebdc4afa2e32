"""Topic syntax: legal topics and filters, shares, queue addresses, exceptions, and what a filter matches."""

import re
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate.messaging.topics.subscription_index import SubscriptionIndex
from sluicegate.messaging.topics.syntax import (
    ANY_LEVEL,
    FILTERS_REMEMBERED_MAX,
    LITERAL,
    MQTT_TOPIC_BYTES_MAX,
    PREFIX,
    REST,
    REST_OR_NONE,
    SMF_TOPIC_BYTES_MAX,
    SMF_TOPIC_LEVELS_MAX,
    Level,
    Syntax,
    TopicError,
    check_level_count,
    check_topic_name,
    hidden_from_wildcards,
    in_mqtt_syntax,
    matches,
    parse_filter,
    parse_queue_address,
    parse_queue_subscription,
    parse_shared,
    parse_subscription,
)

MQTT, SMF = Syntax.MQTT, Syntax.SMF

WORDS = ["", "a", "ab", "b", "*", ">", "a*", "*b", "$x", "#P2P", "#P2Pq", "!a", "é"]
TOPICS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("/".join).filter(bool)
MQTT_FILTERS = st.builds(
    lambda words, last: "/".join([*words, *last]),
    st.lists(st.sampled_from(["", "a", "ab", "b", "*", ">", "$x", "+"]), max_size=3),
    st.sampled_from([["#"], ["+"], ["a"], ["b"]]),
)
SMF_FILTERS = st.lists(
    st.sampled_from(["a", "ab", "b", "*", "a*", "$x", "$x*", "#P*", "#P2P", "*b", "a>", ">", "**"]),
    min_size=1,
    max_size=4,
).map("/".join)


def filter_matches(filter_text: str, syntax: Syntax, topic: str) -> bool:
    return matches(parse_filter(filter_text, syntax), topic)


# --- matching ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter_text", "matching", "not_matching"),
    [
        ("a/*", ["a/b", "a/"], ["a/b/c", "a"]),
        ("a/>", ["a/b", "a/b/c", "a/"], ["a", "b/c"]),
        ("animals/red*/wild", ["animals/red/wild", "animals/reddish/wild"], ["animals/wired/wild", "animals/re/wild"]),
        ("a/b*c", ["a/b*c"], ["a/bxc", "a/bc"]),
        ("*b/c", ["*b/c"], ["ab/c", "b/c"]),
        ("*bro", ["*bro"], ["bro", "abro"]),
        ("br*wn", ["br*wn"], ["brown"]),
        ("a/>/b", ["a/>/b"], ["a/x/b"]),
        ("a>", ["a>"], ["ab", "a"]),
        (">", ["x/y", "x", "/", "#LO/INFO"], ["$SYS/x", "$", "#P2P/v:r/x/c/i", "#P2P", "#LOG/INFO"]),
        ("*/x", ["a/x", "/x"], ["$SYS/x", "#P2P/x", "a"]),
        ("*", ["a"], ["a/b", "$a", "#P2P"]),
        ("#P2P/v:r/abcd/c1/>", ["#P2P/v:r/abcd/c1/reply/1"], ["#P2P/v:r/abcd/c1", "#P2P/v:r/abcd/c2/reply/1"]),
        ("#P2P*/x", [], ["#P2P/x", "#P2Pa/x"]),
        ("#P*/x", ["#PQ/x"], ["#P2P/x"]),
        ("$S*/x", [], ["$SYS/x", "$S/x"]),
        ("$SYS/*", ["$SYS/x"], ["$SYS", "$SYS/x/y"]),
        ("a/$*", ["a/$x"], ["a/x"]),
        ("a/*/c/>", ["a/b/c/d", "a/b/c/d/e"], ["a/b/c", "a/b/x/d"]),
        ("a*b*", ["a*b", "a*bc"], ["ab", "axb"]),
        ("**", ["*", "*a"], ["a"]),
        ("!a/b", ["!a/b"], ["a/b"]),
    ],
)
def test_smf_wildcards_match_as_documented(filter_text: str, matching: list[str], not_matching: list[str]) -> None:
    """SMF wildcards: a star ends a level or is one, `>` is the last level; anywhere else both are literal."""
    topics = matching + not_matching
    assert [topic for topic in topics if filter_matches(filter_text, SMF, topic)] == matching


@pytest.mark.parametrize(
    ("filter_text", "matching"),
    [
        ("a/#", ["a", "a/", "a/b", "a//b", "a/b/c"]),
        ("+", ["a"]),
        ("+/+", ["/a", "a/", "a/b"]),
        ("/+", ["/a"]),
        ("a/+", ["a/", "a/b"]),
        ("#", ["a", "/a", "a/", "a/b", "a//b", "a/b/c"]),
        ("+/#", ["a", "/a", "a/", "a/b", "a//b", "a/b/c"]),
        ("a/+/#", ["a/", "a/b", "a//b", "a/b/c"]),
        ("/#", ["/a"]),
        ("a//b", ["a//b"]),
    ],
)
def test_mqtt_filters_match_exactly_these_names(filter_text: str, matching: list[str]) -> None:
    """[MQTT 4.7.1] Empty levels count, `#` matches the parent too."""
    names = ["a", "/a", "a/", "a/b", "a//b", "a/b/c"]
    assert [name for name in names if filter_matches(filter_text, MQTT, name)] == matching


def test_mqtt_plus_matches_an_empty_first_level() -> None:
    """[MQTT 4.7.1.3] `+/b` matches `/b`."""
    assert filter_matches("+/b", MQTT, "/b")


def test_only_a_literal_first_level_reaches_dollar_topics() -> None:
    """[MQTT 4.7.2-1] `#` and `+/y` do not match `$x/y`; `$x/#` and `$x/+` do. Later levels are not special."""
    filters = ["#", "+/y", "+/#", "$x/#", "$x/+", "$x/y"]
    assert [text for text in filters if filter_matches(text, MQTT, "$x/y")] == ["$x/#", "$x/+", "$x/y"]
    assert filter_matches("a/+", MQTT, "a/$x")
    assert filter_matches("$SYS/+/x", MQTT, "$SYS/a/x")


def test_smf_wildcard_characters_are_data_in_mqtt_filters() -> None:
    """[MQTT 4.7.1] MQTT knows `+` and `#` only."""
    assert parse_filter("a*/>", MQTT).is_literal
    assert not filter_matches("*", MQTT, "a")
    assert filter_matches("*/+", MQTT, "*/>")


def test_topics_are_equal_only_when_their_code_points_are() -> None:
    """[MQTT 4.7.3-4] No case folding, no normalisation: four different topics."""
    names = ["A", "a", "\u00e9", "e\u0301"]
    for name in names:
        assert [other for other in names if filter_matches(name, MQTT, other)] == [name]


def test_both_syntaxes_come_to_the_same_levels() -> None:
    """Behind the parser a filter has no syntax: equal rules are equal filters."""
    assert parse_filter("a/+", MQTT) == parse_filter("a/*", SMF)
    assert hash(parse_filter("a/+", MQTT)) == hash(parse_filter("a/*", SMF))
    assert parse_filter("a/#", MQTT) != parse_filter("a/>", SMF)
    assert parse_filter("a/*", MQTT) != parse_filter("a/*", SMF)
    assert parse_filter("a/+/#", MQTT).levels == (Level(LITERAL, "a"), Level(ANY_LEVEL, ""), Level(REST_OR_NONE, ""))
    assert parse_filter("r*/>", SMF).levels == (Level(PREFIX, "r"), Level(REST, ""))


def pattern_of(filter_text: str, syntax: Syntax) -> str:
    """Translate a filter to a regular expression, with no look at how `matches` works."""
    words = filter_text.split("/")
    hidden = r"(?!\$|#P2P|#LOG)"
    parts = []
    for index, word in enumerate(words):
        is_last = index == len(words) - 1
        guard = hidden if index == 0 else ""
        slash = "/" if index else ""
        if syntax is MQTT and word == "#":
            parts.append(guard + (".*" if index == 0 else "(/.*)?"))
        elif syntax is SMF and word == ">" and is_last:
            parts.append(slash + guard + ".*")
        elif word == ("+" if syntax is MQTT else "*"):
            parts.append(slash + guard + "[^/]*")
        elif syntax is SMF and word.endswith("*"):
            parts.append(slash + guard + re.escape(word[:-1]) + "[^/]*")
        else:
            parts.append(slash + re.escape(word))
    return "".join(parts)


@given(filter_text=MQTT_FILTERS, topic=TOPICS)
@example(filter_text="+/#", topic="a")
@example(filter_text="a/#", topic="ab")
def test_mqtt_matching_agrees_with_regular_expressions(filter_text: str, topic: str) -> None:
    """Goal: no combination of levels escapes the rules. Method: compare with a regular expression of the filter."""
    expected = re.fullmatch(pattern_of(filter_text, MQTT), topic) is not None
    assert filter_matches(filter_text, MQTT, topic) == expected


@given(filter_text=SMF_FILTERS, topic=TOPICS)
@example(filter_text="$x*/*", topic="$x/a")
def test_smf_matching_agrees_with_regular_expressions(filter_text: str, topic: str) -> None:
    """Goal and method as for MQTT."""
    expected = re.fullmatch(pattern_of(filter_text, SMF), topic) is not None
    assert filter_matches(filter_text, SMF, topic) == expected


@given(topic=TOPICS)
def test_a_literal_filter_matches_its_own_topic_only(topic: str) -> None:
    """An MQTT filter without wildcards is a topic."""
    if "#" not in topic:
        own = parse_filter(topic, MQTT)
        assert own.is_literal
        assert matches(own, topic)
        assert not matches(own, topic + "/")
        assert not matches(own, topic + "x")


@pytest.mark.parametrize("topic", ["$", "$SYS/x", "#P2P", "#P2P/x", "#P2PQ/x", "#LOG/x"])
def test_reserved_topics_are_hidden_from_wildcards(topic: str) -> None:
    """SMF reserved topics: first levels that begin with `$`, `#P2P` or `#LOG`."""
    assert hidden_from_wildcards(topic)


@pytest.mark.parametrize("topic", ["a", "/$SYS", "#LO/x", "#P2", "p/#P2P", "p/#LOG"])
def test_other_topics_are_not_hidden_from_wildcards(topic: str) -> None:
    """Only the first level is special."""
    assert not hidden_from_wildcards(topic)


# --- filters that are refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["#", "+", "+/+", "/+", "a/+/#", "+/#", "/", "//", "a b/c", "$SYS/#", "\u00e9/+"])
def test_good_mqtt_filters_are_accepted(text: str) -> None:
    """[MQTT 4.7.1, 4.7.3] Wildcards as whole levels, spaces, empty levels, any script."""
    assert parse_filter(text, MQTT).text == text


@pytest.mark.parametrize(
    ("text", "level"),
    [("a#", 1), ("a/#/b", 2), ("a+", 1), ("+a/b", 1), ("##", 1), ("+#", 1), ("#/#", 1), ("a/b/#c", 3), ("#/", 1)],
)
def test_bad_mqtt_filters_are_refused_with_the_level_at_fault(text: str, level: int) -> None:
    """[MQTT 4.7.1-1, 4.7.1-2] `#` only as the whole last level, `+` only as a whole level."""
    with pytest.raises(TopicError) as caught:
        parse_filter(text, MQTT)
    assert caught.value.level == level
    assert caught.value.text == text
    assert caught.value.reason in str(caught.value)
    assert caught.value.allowed in str(caught.value)


@pytest.mark.parametrize(("text", "level"), [("/a", 1), ("a//b", 2), ("a/", 2), ("/", 1)])
def test_smf_filters_have_no_empty_level(text: str, level: int) -> None:
    """SMF syntax: topics may have empty levels, subscriptions may not."""
    with pytest.raises(TopicError, match="level is empty") as caught:
        parse_filter(text, SMF)
    assert caught.value.level == level


@pytest.mark.parametrize("syntax", [MQTT, SMF])
@pytest.mark.parametrize("text", ["", "a/\0", "a/\ud800"])
def test_texts_that_are_no_topics_are_no_filters(syntax: Syntax, text: str) -> None:
    """[MQTT 4.7.3-1, 4.7.3-2, 1.5.4-1] Not empty, no U+0000, no surrogates."""
    with pytest.raises(TopicError):
        parse_filter(text, syntax)


@pytest.mark.parametrize(
    ("syntax", "bytes_max", "levels_max"),
    [(MQTT, MQTT_TOPIC_BYTES_MAX, MQTT_TOPIC_BYTES_MAX + 1), (SMF, SMF_TOPIC_BYTES_MAX, SMF_TOPIC_LEVELS_MAX)],
)
def test_filters_may_be_as_long_and_deep_as_the_limit(syntax: Syntax, bytes_max: int, levels_max: int) -> None:
    """[MQTT 4.7.3-3] and the SMF limits; one more is refused. Bytes are counted, not characters."""
    parse_filter("a" * bytes_max, syntax)
    parse_filter("/".join(["a"] * min(levels_max, (bytes_max + 1) // 2)), syntax)
    with pytest.raises(TopicError, match=f"at most {bytes_max} bytes"):
        parse_filter("\u00e9" * (bytes_max // 2 + 1), syntax)
    with pytest.raises(TopicError, match=f"at most {levels_max} levels|at most {bytes_max} bytes"):
        parse_filter("/".join(["a"] * (levels_max + 1)), syntax)


def test_the_error_of_a_long_filter_stays_short() -> None:
    """A peer's text goes into logs in part only."""
    with pytest.raises(TopicError) as caught:
        parse_filter("+" * 60_000, MQTT)
    assert len(str(caught.value)) < 300
    assert len(caught.value.text) == 60_000


@given(text=st.text(max_size=30), syntax=st.sampled_from([MQTT, SMF]))
def test_any_text_parses_or_is_a_topic_error(text: str, syntax: Syntax) -> None:
    """Goal: no other exception comes out of the parsers, whatever a peer sends."""
    for prefix in ("", "$share/", "#share/", "$queue/", "!"):
        with suppress(TopicError):
            parse_filter(prefix + text, syntax)
        with suppress(TopicError):
            parse_shared(prefix + text)
        with suppress(TopicError):
            parse_queue_subscription(prefix + text, syntax)
        with suppress(TopicError):
            parse_queue_address(prefix + text)
        with suppress(TopicError):
            check_topic_name(prefix + text)


# --- names published to -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topic", ["a", "/", "a//b", " ", "$SYS/x", "a/*/>", "!a", "/".join(["a"] * 32768), "/" * 65535, "a" * 65535]
)
def test_good_mqtt_topic_names_are_accepted(topic: str) -> None:
    """[MQTT 4.7.3] `*`, `>` and `!` are plain characters."""
    check_topic_name(topic)


@pytest.mark.parametrize(
    ("topic", "level"),
    [
        ("", None),
        ("a/+", 2),
        ("a#", 1),
        ("a/b/\0", 3),
        ("\udc00", 1),
        ("/".join(["a"] * 32769), None),
        ("a" * 65536, None),
    ],
)
def test_bad_mqtt_topic_names_are_refused(topic: str, level: int | None) -> None:
    """[MQTT 3.3.2-2, 4.7.3] No wildcards, not empty, no U+0000, within the limits."""
    with pytest.raises(TopicError) as caught:
        check_topic_name(topic)
    assert caught.value.level == level


def test_the_limit_of_topic_names_counts_bytes_of_utf_8() -> None:
    check_topic_name("\u00e9" * 32_767)
    with pytest.raises(TopicError, match="it has 65536 bytes; allowed: at most 65535 bytes"):
        check_topic_name("\u00e9" * 32_768)


def test_a_publish_to_a_share_is_refused() -> None:
    """[MQTT 4.8.2] `$share/` begins a filter form."""
    with pytest.raises(TopicError, match="begins a filter"):
        check_topic_name("$share/g/t")


@pytest.mark.parametrize("levels_max", [0, 3])
def test_a_topic_may_have_as_many_levels_as_an_operator_allows(levels_max: int) -> None:
    check_level_count("a/b/c", levels_max)
    if levels_max:
        with pytest.raises(TopicError, match="it has 4 levels; allowed: at most 3 levels"):
            check_level_count("a/b//", levels_max)


# --- what is remembered -----------------------------------------------------------------------------------------


def test_equal_subscriptions_share_one_filter_in_memory() -> None:
    """A filter is a fifth of a kilobyte, and a fleet of clients has the same few."""
    assert parse_filter("fleet/+/orders", MQTT) is parse_filter("fleet/+/orders", MQTT)


def test_a_text_that_is_remembered_in_one_syntax_is_cut_by_the_rules_of_the_other() -> None:
    assert parse_filter("a/*", MQTT) != parse_filter("a/*", SMF)


def test_only_so_many_filters_are_remembered() -> None:
    """What clients ask for cannot fill the memory."""
    first = parse_filter("first/of/many", MQTT)
    for number in range(FILTERS_REMEMBERED_MAX):
        parse_filter(f"many/{number}", MQTT)

    again = parse_filter("first/of/many", MQTT)

    assert again == first
    assert again is not first


def test_a_very_long_filter_is_not_remembered() -> None:
    long = "level/" * 100
    assert parse_filter(long, MQTT) is not parse_filter(long, MQTT)


MQTT, SMF = Syntax.MQTT, Syntax.SMF


def test_a_shared_subscription_has_a_name_and_a_filter() -> None:
    """[MQTT 4.8.2] Name and filter together are the group."""
    shared = parse_shared("$share/g/a/+/#")
    assert shared is not None
    assert (shared.share_name, shared.filter) == ("g", parse_filter("a/+/#", MQTT))
    assert parse_shared("#share/g/a/*/>") == ("g", parse_filter("a/*/>", SMF))
    assert parse_shared("$share/g//") == ("g", parse_filter("/", MQTT))


@pytest.mark.parametrize(
    "text",
    [
        *["$share//t", "$share/g", "$share/g/", "$share/g+/t", "$share/#/t", "$share/", "$share/g/a#", "$share/g/\0"],
        *["#share//t", "#share/g", "#share/g/", "#share/g*/t", "#share/>/t", "#share/", "#share/g/a//b"],
    ],
)
def test_malformed_shared_subscriptions_are_refused(text: str) -> None:
    """[MQTT 4.8.2-1, 4.8.2-2] Neither name nor filter may be missing, the name has no wildcard."""
    with pytest.raises(TopicError):
        parse_shared(text)


@pytest.mark.parametrize("text", ["a", "$share", "$shared/g/t", "a/$share/g/t", "$queue/q", "#"])
def test_other_filters_are_not_shared(text: str) -> None:
    """[MQTT 4.8.2] Only the exact first level begins a shared subscription."""
    assert parse_shared(text) is None


def test_with_a_syntax_given_only_its_own_share_form_counts() -> None:
    """An MQTT client cannot reach the SMF form by accident: to MQTT it is a bad filter."""
    assert parse_shared("#share/g/t", MQTT) is None
    assert parse_shared("$share/g/t", SMF) is None
    assert parse_shared("$share/g/t", MQTT) == parse_shared("$share/g/t")
    with pytest.raises(TopicError):
        parse_filter("#share/g/t", MQTT)


def test_a_queue_address_names_a_queue() -> None:
    """MQTT consumers reach a named queue as `$queue/NAME`; the name may have levels."""
    assert parse_queue_address("$queue/orders") == "orders"
    assert parse_queue_address("$queue/orders/eu") == "orders/eu"
    assert parse_queue_address("$queue") is None
    assert parse_queue_address("orders") is None
    with pytest.raises(TopicError, match="queue name is empty"):
        parse_queue_address("$queue/")


def test_an_exception_of_a_queue_subscription_keeps_topics_out() -> None:
    """SMF subscription exceptions: `orders/>` and `!orders/test/>` spool `orders/eu/1`, not `orders/test/1`."""
    subscriptions = [parse_queue_subscription(text, SMF) for text in ("orders/>", "!orders/test/>")]
    assert [is_exception for is_exception, _ in subscriptions] == [False, True]

    def is_spooled(topic: str) -> bool:
        return {False} == {is_exception for is_exception, found in subscriptions if matches(found, topic)}

    assert is_spooled("orders/eu/1")
    assert not is_spooled("orders/test/1")


def test_an_exception_can_be_written_in_mqtt_syntax() -> None:
    """SMF subscription exceptions: also for the guaranteed subscriptions of MQTT sessions."""
    assert parse_queue_subscription("!a/#", MQTT) == (True, parse_filter("a/#", MQTT))
    assert parse_queue_subscription("!!a", MQTT) == (True, parse_filter("!a", MQTT))


@pytest.mark.parametrize(
    ("text", "syntax"), [("!", SMF), ("#share/g/t", SMF), ("!#share/g/t", SMF), ("$share/g/t", MQTT), ("!a#", MQTT)]
)
def test_bad_queue_subscriptions_are_refused(text: str, syntax: Syntax) -> None:
    """SMF shared subscriptions: not supported on queues."""
    with pytest.raises(TopicError):
        parse_queue_subscription(text, syntax)


def test_outside_a_queue_an_exclamation_mark_is_a_character() -> None:
    """SMF subscription exceptions: a direct subscription `!a/b` is literal."""
    assert matches(parse_filter("!a/b", SMF), "!a/b")
    assert not matches(parse_filter("!a/b", SMF), "a/b")


@pytest.mark.parametrize("text", ["a", "+/b", "/a//+/#", "#", "a/", "a/>/*", "a*"])
def test_a_filter_of_mqtt_is_its_own_text_in_mqtt_syntax(text: str) -> None:
    assert in_mqtt_syntax(parse_filter(text, MQTT)) == text


@pytest.mark.parametrize(("text", "expected"), [("a", "a"), ("a/*/b", "a/+/b"), ("a*/>", "a*/>"), ("+/#", "+/#")])
def test_a_filter_of_smf_is_written_as_the_equal_one_of_mqtt(text: str, expected: str) -> None:
    """What MQTT has no word for stays as it is."""
    assert in_mqtt_syntax(parse_filter(text, SMF)) == expected


@pytest.mark.parametrize("text", ["#noexport/", "$noexport/", "#noexport/#noexport/a", "#noexport/$noexport/a"])
def test_what_is_not_exported_is_one_filter(text: str) -> None:
    with pytest.raises(TopicError, match="allowed: #noexport/FILTER"):
        parse_subscription(text, SMF)


def test_a_filter_that_is_not_exported_is_another_than_the_exported_one() -> None:
    local, exported = parse_subscription("#noexport/a/+", MQTT), parse_subscription("a/+", MQTT)
    assert (local.text, local.levels) == (exported.text, exported.levels)
    assert local != exported
    assert local == parse_subscription("$noexport/a/*", SMF)
    index: SubscriptionIndex[int] = SubscriptionIndex()
    assert index.add(exported, "key", 1)
    assert index.add(local, "key", 2)
    assert index.match("a/b") == [1, 2]
    assert index.trace("a/b") == index.entries() == [("a/+", 1), ("#noexport/a/+", 2)]
    assert index.items() == [(exported, "key", 1), (local, "key", 2)]
    assert index.discard(exported, "key")
    assert index.match("a/b") == [2]
    assert index.discard(local, "key")
    index.check()


def test_no_exception_of_a_queue_is_exported_or_not() -> None:
    assert parse_queue_subscription("#noexport/a", SMF)[1].is_local
    for text in ("!#noexport/a", "#noexport/#share/g/a"):
        with pytest.raises(TopicError):
            parse_queue_subscription(text, SMF)
