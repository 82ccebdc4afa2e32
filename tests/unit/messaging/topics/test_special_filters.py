"""The forms around a filter: shared subscriptions, queue addresses, exceptions of queue subscriptions."""

import pytest

from sluicegate.messaging.topics.syntax import (
    Syntax,
    TopicError,
    in_mqtt_syntax,
    matches,
    parse_filter,
    parse_queue_address,
    parse_queue_subscription,
    parse_shared,
)

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
