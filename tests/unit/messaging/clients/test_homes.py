"""Homes of client identifiers: rendezvous hashing, and the sessions that are not where they belong."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.clients.homes import Homes, home_of

BROKERS = st.integers(min_value=1, max_value=64)


@pytest.mark.parametrize(
    ("client_id", "homes"),
    [
        ("", [1, 2, 2, 2, 2, 36]),
        ("a", [1, 2, 2, 4, 8, 19]),
        ("sensor/17", [1, 1, 1, 5, 6, 50]),
        ("äöü", [1, 2, 2, 4, 8, 16]),
        ("x" * 1000, [1, 2, 3, 3, 8, 52]),
        ("auto-0123456789abcdef", [1, 2, 2, 4, 8, 8]),
        ("\ud800", [1, 2, 2, 2, 2, 59]),
    ],
)
def test_homes_are_the_same_in_every_release(client_id: str, homes: list[int]) -> None:
    """Else brokers of two releases would pass a client to and fro."""
    assert [home_of(client_id, brokers) for brokers in (1, 2, 3, 5, 8, 64)] == homes


@given(st.text(), BROKERS)
def test_one_more_broker_takes_identifiers_and_moves_no_others(client_id: str, brokers: int) -> None:
    before, after = home_of(client_id, brokers), home_of(client_id, brokers + 1)
    assert 1 <= before <= brokers
    assert after in (before, brokers + 1)


@pytest.mark.parametrize("form", ["client-%d", "%d", "sensor/%08d", "%016x"])
@pytest.mark.parametrize("brokers", [2, 3, 8])
def test_identifiers_are_spread_evenly(form: str, brokers: int) -> None:
    count = 40_000
    shares = Counter(home_of(form % number, brokers) for number in range(count))
    assert len(shares) == brokers
    assert all(abs(share * brokers / count - 1) < 0.05 for share in shares.values())


@given(BROKERS, st.data())
def test_an_assigned_identifier_is_at_home(brokers: int, data: st.DataObject) -> None:
    here = data.draw(st.integers(min_value=1, max_value=brokers))
    homes = Homes(here, brokers)
    assigned = homes.assign(random.Random(brokers * 100 + here).getrandbits)
    assert assigned.startswith("auto-")
    assert len(assigned) == len("auto-") + 16
    assert homes.home_of(assigned) == home_of(assigned, brokers) == here


@given(st.text(), BROKERS)
def test_an_identifier_belongs_to_one_broker(client_id: str, brokers: int) -> None:
    belongs = [here for here in range(1, brokers + 1) if Homes(here, brokers).belongs_here(client_id)]
    assert belongs == [home_of(client_id, brokers)]


@pytest.mark.parametrize(("here", "brokers"), [(0, 2), (-1, 2), (1, 0)])
def test_numbers_of_brokers_begin_with_1(here: int, brokers: int) -> None:
    with pytest.raises(ValueError, match="numbers begin with 1"):
        Homes(here, brokers)


@given(st.text(), BROKERS)
def test_a_retired_broker_is_the_home_of_what_it_holds_alone(client_id: str, brokers: int) -> None:
    homes = Homes(brokers + 1, brokers)
    assert homes.is_retired
    assert not homes.belongs_here(client_id)
    assert homes.home_of(client_id) == home_of(client_id, brokers)
    homes.hold(client_id, homes.here)
    assert homes.home_of(client_id) == homes.here


def test_a_broker_that_has_the_session_is_the_home_until_it_ends() -> None:
    homes = Homes(1, 3)
    assert home_of("a", 3) == 2
    homes.hold("a", 3)
    assert homes.home_of("a") == 3
    assert homes.home_of("b") == home_of("b", 3)
    homes.release("a", 3)
    assert homes.home_of("a") == 2
    assert homes.exceptions_count == 0
    homes.release("a", 3)  # harmless


def test_nothing_is_kept_of_sessions_that_are_where_they_belong() -> None:
    homes = Homes(1, 3)
    homes.hold("a", 2)
    assert homes.exceptions_count == 0
    assert homes.home_of("a") == 2


def test_what_a_broker_that_is_away_has_told_is_forgotten() -> None:
    homes = Homes(1, 3)
    homes.hold("a", 3)
    homes.hold("sensor/17", 2)
    homes.forget(3)
    assert (homes.home_of("a"), homes.home_of("sensor/17")) == (2, 2)
    assert homes.exceptions_count == 1
    homes.forget(3)  # harmless


IDS = st.sampled_from([f"client-{number}" for number in range(6)])
STEPS = st.lists(st.tuples(st.sampled_from(["hold", "release", "forget"]), IDS, st.integers(1, 4)), max_size=40)


@given(STEPS)
def test_homes_are_those_of_a_plain_list_of_sessions(steps: list[tuple[str, str, int]]) -> None:
    """Of several brokers that have a session of an identifier, all brokers of the machine take the first."""
    homes = Homes(1, 4)
    sessions: set[tuple[str, int]] = set()
    for verb, client_id, broker in steps:
        if verb == "hold":
            homes.hold(client_id, broker)
            if broker != home_of(client_id, 4):
                sessions.add((client_id, broker))
        elif verb == "release":
            homes.release(client_id, broker)
            sessions.discard((client_id, broker))
        else:
            homes.forget(broker)
            sessions = {each for each in sessions if each[1] != broker}
        assert homes.exceptions_count == len(sessions)
        for number in range(6):
            name = f"client-{number}"
            holders = [broker for held, broker in sessions if held == name]
            assert homes.home_of(name) == min(holders, default=home_of(name, 4))
