"""Which template a queue gets, and what a template may say (Solace 4.12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.template import (
    QueueTemplate,
    changed_template,
    check_template_matches,
    template_for,
    template_from_dict,
)


def template(name_filter: str, name: str = "t", **values: object) -> QueueTemplate:
    return template_from_dict({"name": name, "queue_name_filter": name_filter, **values})


@pytest.mark.parametrize(
    ("queue_name", "chosen"),
    [
        ("orders", "orders"),
        ("orders/eu", "orders/eu"),
        ("orders/eu/1", "orders/eu/>"),
        ("orders/us", "orders/u*"),
        ("orders/jp", "orders/*"),
        ("orders/jp/1", "orders/>"),
        ("payments", "pay*"),
        ("other", "*"),
        ("other/x", ">"),
    ],
)
def test_the_closest_fit_is_chosen(queue_name: str, chosen: str) -> None:
    """Solace 4.12: the most specific filter wins. Level by level: the name itself, the longest prefix, `*`, `>`."""
    filters = [">", "*", "pay*", "p*", "orders", "orders/>", "orders/*", "orders/u*", "orders/eu", "orders/eu/>"]
    templates = [template(each, f"t{number}") for number, each in enumerate(filters)]
    found = template_for(templates, queue_name)
    assert found is not None
    assert found.queue_name_filter == chosen


def test_no_template_is_chosen_where_none_fits() -> None:
    assert template_for([template("a/*"), template("b*/>", "u")], "a") is None


@given(st.permutations(["a/>", "*/b", "a*/b", "a/*", ">", "a/b*"]))
def test_the_choice_does_not_depend_on_the_order(filters: list[str]) -> None:
    """Goal: one winner. Method: every order of filters that all fit."""
    templates = [template(each, each.replace("*", "s").replace(">", "r").strip("/")) for each in filters]
    found = template_for(templates, "a/b")
    assert found is not None
    assert found.queue_name_filter == "a/b*"


def test_equal_filters_are_settled_by_template_name() -> None:
    found = template_for([template("q*", "b"), template("q*", "a")], "q1")
    assert found is not None
    assert found.name == "a"


@pytest.mark.parametrize(
    ("values", "field", "reason"),
    [
        ({"name": "t"}, "queue_name_filter", "it is missing"),
        ({"queue_name_filter": "q"}, "name", "it is missing"),
        ({"name": "#t", "queue_name_filter": "q"}, "name", "starts with '#'"),
        ({"name": "t", "queue_name_filter": "a//b"}, "queue_name_filter", "the level is empty"),
        ({"name": "t", "queue_name_filter": "q", "durability_override": "durable"}, "durability_override", "'durable'"),
        ({"name": "t", "queue_name_filter": "q", "owner": "me"}, "owner", "templates have no such attribute"),
        (
            {"name": "t", "queue_name_filter": "q", "max_bind_cout": 1},
            "max_bind_cout",
            "did you mean 'max_bind_count'?",
        ),
        ({"name": "t", "queue_name_filter": "q", "max_bind_count": -1}, "max_bind_count", "-1 is not allowed"),
        ({"name": "t", "queue_name_filter": "q", "partition_count": 2}, "partition_count", "on an exclusive queue"),
    ],
)
def test_invalid_templates_are_refused_by_field(values: dict[str, object], field: str, reason: str) -> None:
    with pytest.raises(QueueInvalid) as refusal:
        template_from_dict(values)
    assert refusal.value.field == field
    assert reason in refusal.value.reason


def test_a_template_comes_back_from_what_is_stored_and_changes_by_field() -> None:
    made = template("q/>", durability_override="non-durable", max_bind_count=3, max_ttl=9)
    assert template_from_dict(dict(made.to_dict())) == made
    after = changed_template(made, {"max_bind_count": 4, "max_ttl": None})
    assert after.attributes == {"max_bind_count": 4}
    with pytest.raises(QueueInvalid, match="create another template"):
        changed_template(made, {"name": "u"})


@pytest.mark.parametrize(
    ("name_filter", "matching", "others"),
    [
        (
            "Consumer.*.>",
            ["Consumer.A.Orders", "Consumer.A.Orders.EU", "Consumer/A/Orders"],
            ["Consumer.A", "Other.A.B"],
        ),
        ("Consumer.*.VT*", ["Consumer.A.VT1"], ["Consumer.A.Orders", "Consumer.A.VT1.x"]),
        ("orders.>", ["orders.eu", "orders.eu.1"], ["orders"]),
        ("orders.*", ["orders.eu", "orders.eu.1"], ["orders/eu"]),  # SMF: one level with this beginning
        ("orders.v1/*", ["orders.v1/a"], ["orders/v1/a", "orders.v1.a"]),
    ],
)
def test_a_filter_may_have_its_levels_between_dots(name_filter: str, matching: list[str], others: list[str]) -> None:
    made = template(name_filter)
    assert [each for each in matching + others if made.matches(each)] == matching
    check_template_matches(made)


@pytest.mark.parametrize("name_filter", ["a*b", "a/>/b", "a>", "a..>", "Consumer.*x.>"])
def test_a_filter_that_matches_no_queue_is_refused_and_read_where_it_is_stored(name_filter: str) -> None:
    made = template(name_filter)
    with pytest.raises(QueueInvalid, match="matches no queue"):
        check_template_matches(made)
