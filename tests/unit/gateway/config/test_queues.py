"""Queue names and attributes: what may be asked for, and how a refusal reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.queues.attributes import (
    ATTRIBUTES,
    CHOICE,
    FLAG,
    KEY_SOURCE,
    NON_EXCLUSIVE,
    NUMBER,
    REJECT_ALWAYS,
    THRESHOLD,
    Attribute,
    AttributeValue,
)
from sluicegate.messaging.queues.definition import (
    QueueConfig,
    QueueDefinition,
    QueueInvalid,
    changed,
    check_queue_name,
    config_from_dict,
    definition_from_dict,
)


@pytest.mark.parametrize("name", ["q", "orders/eu", "x" * 200, "a b", "größe", "#DEAD_MSG_QUEUE", "a#b"])
def test_a_name_within_the_rules_is_accepted(name: str) -> None:
    """Solace 4.1."""
    check_queue_name(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "name: it is empty; allowed: 1 to 200 characters"),
        ("x" * 201, "name: it has 201 characters; allowed: 1 to 200 for a durable queue"),
        ("a*b", "name: 'a*b' contains '*'; allowed: any printable character except ' < > * ? & ;"),
        ("a\nb", "name: 'a\\nb' contains '\\n'; allowed: printable characters only"),
        ("/a", "name: '/a' starts or ends with '/'; allowed: '/' between levels only"),
        ("a/", "name: 'a/' starts or ends with '/'; allowed: '/' between levels only"),
        ("a//b", "name: 'a//b' has an empty level; allowed: at least one character between two '/'"),
        ("#q", "name: '#q' starts with '#'; allowed: '#' starts reserved names; only #DEAD_MSG_QUEUE"),
        (
            "$anonymous/q",
            "name: '$anonymous/q' starts with '$anonymous/'; "
            "allowed: '$anonymous/' starts reserved names; only #DEAD_MSG_QUEUE",
        ),
    ],
)
def test_a_name_that_breaks_a_rule_is_refused_with_that_rule(name: str, message: str) -> None:
    """Solace 4.1."""
    with pytest.raises(QueueInvalid) as refusal:
        check_queue_name(name)
    assert str(refusal.value) == message


def test_a_temporary_queue_may_have_a_longer_name() -> None:
    """Solace 4.1: 200 durable, 250 temporary."""
    check_queue_name("x" * 250, durable=False)
    with pytest.raises(QueueInvalid, match="251 characters"):
        check_queue_name("x" * 251, durable=False)


def test_the_defaults_of_the_class_are_the_defaults_of_the_table() -> None:
    config = QueueConfig(name="q")
    assert config.to_dict() == {"name": "q"} | {each.name: each.default for each in ATTRIBUTES}
    assert config_from_dict({"name": "q"}) == config


def _values(attribute: Attribute) -> st.SearchStrategy[AttributeValue]:
    if attribute.kind == NUMBER:
        return st.integers(attribute.low, attribute.high)
    if attribute.kind == FLAG:
        return st.booleans()
    if attribute.kind == CHOICE:
        return st.sampled_from(attribute.choices)
    if attribute.kind == KEY_SOURCE:
        return st.sampled_from(["property", "client-id", "topic-level:1", "topic-level:200"])
    if attribute.kind == THRESHOLD:
        return st.sampled_from(["80/60%", "1/1%", "1250/900"])
    return st.text(max_size=attribute.high)


@given(st.fixed_dictionaries({}, optional={each.name: _values(each) for each in ATTRIBUTES}))
def test_every_definition_survives_the_catalog(attributes: dict[str, AttributeValue]) -> None:
    """What is written as a dict is read back as the same definition."""
    values: dict[str, object] = {**attributes, "name": "q", "access_type": NON_EXCLUSIVE, "subscriptions": ["a/>", "b"]}
    if attributes.get("dead_msg_queue") == "q":
        return
    if attributes.get("reject_low_priority_msg_enabled"):
        values["reject_msg_to_sender_on_discard_behavior"] = REJECT_ALWAYS
    definition = definition_from_dict(values)
    assert definition_from_dict(definition.to_dict()) == definition


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda attribute: attribute.name)
def test_a_value_beyond_its_range_is_refused_with_the_range(attribute: Attribute) -> None:
    wrong: object = attribute.high + 1 if attribute.kind == NUMBER else 7
    with pytest.raises(QueueInvalid) as refusal:
        config_from_dict({"name": "q", attribute.name: wrong})
    assert refusal.value.field == attribute.name
    assert refusal.value.allowed == attribute.allowed()


def test_true_is_not_a_number() -> None:
    with pytest.raises(QueueInvalid):
        config_from_dict({"name": "q", "max_bind_count": True})


def test_an_exclusive_queue_has_no_partitions() -> None:
    """Solace 4.2: partitionCount, non-exclusive only."""
    with pytest.raises(QueueInvalid, match="4 partitions on an exclusive queue"):
        config_from_dict({"name": "q", "partition_count": 4})


def test_the_dead_message_queue_has_none_of_its_own_unless_configured() -> None:
    assert config_from_dict({"name": "#DEAD_MSG_QUEUE"}).dead_msg_queue == ""
    with pytest.raises(QueueInvalid, match="its own dead message queue"):
        config_from_dict({"name": "q", "dead_msg_queue": "q"})


def test_a_change_replaces_what_it_names_and_cannot_rename() -> None:
    definition = QueueDefinition(QueueConfig(name="q", max_ttl=5), ("a",))
    assert changed(definition, {"max_ttl": 6, "subscriptions": ["b"]}) == QueueDefinition(
        QueueConfig(name="q", max_ttl=6), ("b",)
    )
    with pytest.raises(QueueInvalid, match="'q' cannot become 'r'"):
        changed(definition, {"name": "r"})


@pytest.mark.parametrize("subscriptions", ["a", [1], [""], [None], {"a": 1}])
def test_subscriptions_are_a_list_of_texts(subscriptions: object) -> None:
    with pytest.raises(QueueInvalid) as refusal:
        definition_from_dict({"name": "q", "subscriptions": subscriptions})
    assert refusal.value.field == "subscriptions"
