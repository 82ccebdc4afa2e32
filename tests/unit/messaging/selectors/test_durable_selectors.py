"""What is remembered of the selectors of consumers. The numbers VD-nn are those of tests/data/virtual/cases.txt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.selectors.durable import EVERYTHING, CacheRules, QueueSelectors, has_live_wildcard

COMPAT = CacheRules(compat=True)
SINGLE = CacheRules(compat=True, single=True)


def after(rules: CacheRules, *steps: list[tuple[str, str]]) -> set[str]:
    """Return the selectors that are remembered after consumers came and went."""
    known = QueueSelectors(rules)
    for step in steps:
        known.consumers(step, 0)
    return {selector for each in known.remembered.values() for selector in each.selectors}


def test_a_subscriber_has_what_it_last_selected() -> None:
    """VD-22: the change replaces; who leaves keeps it."""
    rules = CacheRules()
    assert after(rules, [("c", "a = 1")], [], [("c", "a = 2")], []) == {"a = 2"}
    assert after(rules, [("c", "a = 1"), ("c", "a = 2")], [("c", "a = 2")]) == {"a = 2"}


def test_as_in_activemq_selectors_add_up() -> None:
    """VD-22 under compat; one consumer without a selector, ever, makes the queue take everything."""
    assert after(COMPAT, [("c", "a = 1")], [], [("d", "")], [], [("c", "a = 2")]) == {"a = 1", "", "a = 2"}


def test_a_selector_is_combined_with_a_consumer_of_everything_until_that_leaves() -> None:
    """VD-23."""
    assert after(SINGLE, [("c", "a = 1")], [("c", "a = 1"), ("d", "")]) == {"a = 1", EVERYTHING}
    assert after(SINGLE, [("c", "a = 1")], [("c", "a = 1"), ("d", "")], [("c", "a = 1")]) == {"a = 1"}
    assert after(SINGLE, [("d", "")], []) == {EVERYTHING}
    assert after(SINGLE, [("c", "a = 1")], [], [("c", "a = 2")]) == {"a = 2"}


def test_a_single_selector_stays_when_the_consumer_that_set_it_leaves() -> None:
    """VD-23: it was the last that came; those who stay there bring none."""
    both = [("c", "a = 1"), ("d", "a = 2")]
    assert after(SINGLE, [("c", "a = 1")], both, [("c", "a = 1")]) == {"a = 2"}
    assert after(SINGLE, [("c", "a = 1")], both, [*both, ("e", EVERYTHING)]) == {"a = 2", EVERYTHING}


def test_selectors_with_wildcards_need_not_be_remembered() -> None:
    """VD-24."""
    rules = CacheRules(compat=True, ignores_wildcards=True)
    assert after(rules, [("c", "a LIKE 'x%'")]) == set()
    assert after(rules, [("c", "a LIKE 'x!%' ESCAPE '!'")]) == {"a LIKE 'x!%' ESCAPE '!'"}


@pytest.mark.parametrize(
    ("selector", "live"),
    [
        ("a = 'x%'", False),
        ("a NOT LIKE 'x_'", True),
        ("a like 'x'", False),
        ("a LIKE '!_%' ESCAPE '!'", True),
        ("a LIKE '!_!%' ESCAPE '!'", False),
        ("b = 1 AND a LIKE 'x%'", True),
        ("convert_string_expressions:a LIKE 'x'", False),
        ("", False),
    ],
)
def test_live_wildcards_are_recognised(selector: str, live: bool) -> None:
    """SubQueueSelectorCacheBrokerWildcardTest."""
    assert has_live_wildcard(selector) == live


BOUND = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "x = 1", "x = 2"])), max_size=4)


@given(st.lists(BOUND, max_size=10))
def test_the_selector_of_every_consumer_is_included(steps: list[list[tuple[str, str]]]) -> None:
    """Goal: what comes in is at least what those select who are there. Method: any order of coming and going."""
    for rules in (CacheRules(), CacheRules(durable=False), COMPAT, SINGLE):
        known = QueueSelectors(rules)
        for step in steps:
            known.consumers(step, 0)
            wanted = known.wanted()
            assert wanted is None or {selector for _, selector in step} <= set(wanted)
            assert rules.durable or wanted is None or set(wanted) == {selector for _, selector in step}
