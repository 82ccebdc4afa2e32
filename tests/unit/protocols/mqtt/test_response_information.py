"""Response Information: which patterns an operator may give, and what a client is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.mqtt.requests.response_information import check_pattern, response_information

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="+#\0"), min_size=1, max_size=20)


@given(client_id=NAMES, user=NAMES)
def test_each_place_gets_its_name_whatever_stands_in_the_names(client_id: str, user: str) -> None:
    assert response_information("r/%c/%u/%c", client_id, user) == f"r/{client_id}/{user}/{client_id}"


@pytest.mark.parametrize(
    ("pattern", "client_id", "user", "told"),
    [
        ("r", "c", "", "r"),
        ("", "c", "u", ""),
        ("r/%c", "", "u", ""),
        ("r/%u", "c", "", ""),
        ("r/%u", "c", "u+", ""),
        ("r/%c", "#", "u", ""),
        ("r/%u", "#", "u", "r/u"),
        ("%c/r", "$share", "u", ""),
    ],
)
def test_nothing_is_told_that_is_no_topic_of_the_clients_own(
    pattern: str, client_id: str, user: str, told: str
) -> None:
    assert response_information(pattern, client_id, user) == told


@pytest.mark.parametrize("pattern", ["", "r", "r/%c", "%u%c", "a b/ü"])
def test_a_topic_with_the_two_places_is_a_pattern(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["r/%", "%x", "%C", "%%c%", "%%cu", "r/+/%c", "r/#", "$r/%c", "r\0"])
def test_anything_else_is_none(pattern: str) -> None:
    with pytest.raises(ValueError, match="%c"):
        check_pattern(pattern)
