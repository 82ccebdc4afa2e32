"""What a session's subscriptions come to together, however they were added, replaced and removed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.mqtt.session.session import Session
from sluicegate.protocols.mqtt.session.subscriptions import (
    NO_SUBSCRIPTIONS,
    NOT_WANTED,
    GrantedSubscription,
    SubscriptionTable,
)

FILTERS = ["a", "a/+", "b/#"]


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(FILTERS),
            st.none() | st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), st.sampled_from([0, 7])),
        ),
        max_size=20,
    )
)
def test_all_are_treated_alike_exactly_when_they_agree_and_ask_for_nothing_special(
    steps: list[tuple[str, tuple[int, bool, bool, int] | None]],
) -> None:
    """Goal: counting as they come and go says what looking through all of them would. None: unsubscribe."""
    table = SubscriptionTable()
    model: dict[str, tuple[int, bool, bool, int]] = {}
    for text, granted in steps:
        if granted is None:
            table.revoke(text)
            model.pop(text, None)
        else:
            qos, no_local, retain_as_published, identifier = granted
            subscription = GrantedSubscription(
                parse_filter(text, Syntax.MQTT), qos, no_local, retain_as_published, 0, identifier, None
            )
            table.grant(text, subscription)
            model[text] = granted
        levels = {each[0] for each in model.values()}
        plain = all(each[1:] == (False, False, 0) for each in model.values())
        assert table.uniform_qos == (levels.pop() if plain and len(levels) == 1 else NOT_WANTED.qos)


def test_subscriptions_of_one_session_belong_to_no_other() -> None:
    """Sessions without subscriptions have their empty table in common."""
    one, other = Session("one", expiry_s=0), Session("other", expiry_s=0)
    granted = GrantedSubscription(parse_filter("a", Syntax.MQTT), 1, False, False, 0, 0, None)
    one.grant("a", granted)
    assert (one.table.uniform_qos, list(one.table.by_filter)) == (1, ["a"])
    assert (other.table.uniform_qos, list(other.table.by_filter)) == (-1, [])
    assert other.table.revoke("a") is None
    with pytest.raises(AssertionError):
        NO_SUBSCRIPTIONS.grant("a", granted)
