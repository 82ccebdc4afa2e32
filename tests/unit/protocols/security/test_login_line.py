"""Whose password is checked next: networks take turns, known ones go first, and nobody is kept out for good."""

from collections import Counter, deque
from typing import Final

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from sluicegate.protocols.security.login_queue import (
    LAST_FIRST_EVERY,
    WAIT_MS_MAX,
    WAITING_MAX,
    WAITING_OF_NETWORK_MAX,
    LoginClass,
    LoginQueue,
    network_of,
)

NETWORKS: Final = ["192.0.2.1", "192.0.2.2", "2001:db8::/64"]


def all_turns(line: LoginQueue[str]) -> list[str]:
    turns = []
    while (found := line.next()) is not None:
        turns.append(found)
    return turns


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::7", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("a:b", "a:b"),
    ],
)
def test_a_network_is_what_one_subscriber_has(host: str, network: str) -> None:
    """RFC 6177: a site gets a /64 at least, so its addresses are no limit to whoever counts them."""
    assert network_of(host) == network


@pytest.mark.parametrize(
    ("login_class", "order"),
    [
        (LoginClass.KNOWN, ["guess 0", "ada", "bob", "guess 1", "guess 2"]),
        (LoginClass.FAILED, ["guess 0", "ada", "bob", "guess 1", "guess 2"]),
        (LoginClass.NEW, ["bob", "ada", "guess 0", "guess 1", "guess 2"]),
    ],
)
def test_networks_take_turns_however_many_wait_in_each(login_class: LoginClass, order: list[str]) -> None:
    """The first turn of a new one comes before those of others: it is not held up by who came before it."""
    line: LoginQueue[str] = LoginQueue()
    for number in range(3):
        assert line.join(login_class, "guesser", f"guess {number}", 0)
    assert line.join(login_class, "home", "ada", 0)
    assert line.join(login_class, "office", "bob", 0)
    assert all_turns(line) == order


def test_known_ones_go_first_and_those_who_failed_come_in_every_fourth_turn() -> None:
    line: LoginQueue[str] = LoginQueue()
    for number in range(6):
        for login_class in LoginClass:
            line.join(login_class, f"{login_class.name} {number}", f"{login_class.name} {number}", 0)
    assert "".join([each[0] for each in all_turns(line)]) == "KKKFKKKFNNNFNNNFFF"
    assert LAST_FIRST_EVERY == 4


def test_a_line_that_is_full_takes_no_more_and_the_others_do() -> None:
    line: LoginQueue[object] = LoginQueue()
    joined = [line.join(LoginClass.FAILED, "one", number, 0) for number in range(WAITING_OF_NETWORK_MAX + 1)]
    assert joined == [True] * WAITING_OF_NETWORK_MAX + [False]
    for number in range(WAITING_MAX - WAITING_OF_NETWORK_MAX):
        assert line.join(LoginClass.FAILED, str(number), object(), 0)
    assert not line.join(LoginClass.FAILED, "another", "x", 0)
    assert line.join(LoginClass.NEW, "one", "x", 0)
    assert line.join(LoginClass.KNOWN, "one", "y", 0)
    assert len(line) == WAITING_MAX + 2


def test_logins_that_waited_too_long_are_taken_out() -> None:
    line: LoginQueue[str] = LoginQueue()
    line.join(LoginClass.NEW, "a", "late", 0)
    line.join(LoginClass.FAILED, "c", "late, too", 0)
    line.join(LoginClass.NEW, "b", "in time", 1)
    assert line.late(WAIT_MS_MAX) == []
    assert line.late(WAIT_MS_MAX + 1) == ["late", "late, too"]
    assert all_turns(line) == ["in time"]


@given(lists(tuples(sampled_from(LoginClass), sampled_from(NETWORKS), integers(0, 2)), max_size=60))
def test_the_login_line_of_one_network_is_in_order_and_complete(steps: list[tuple[LoginClass, str, int]]) -> None:
    """Against a plain model: a queue for each class and network; 0 joins, 1 leaves, 2 has its turn."""
    line: LoginQueue[int] = LoginQueue()
    model: dict[tuple[LoginClass, str], deque[int]] = {}
    lanes: dict[int, tuple[LoginClass, str]] = {}
    for number, (login_class, network, step) in enumerate(steps):
        lane = model.setdefault((login_class, network), deque())
        if step == 0:
            assert line.join(login_class, network, number, 0)
            lane.append(number)
            lanes[number] = (login_class, network)
        elif step == 1 and lane:
            line.leave(lane.pop())
        elif step == 2 and (found := line.next()) is not None:
            assert model[lanes[found]].popleft() == found
        assert len(line) == sum(map(len, model.values()))
    left = Counter(number for each in model.values() for number in each)
    taken: Counter[int] = Counter()
    while (found := line.next()) is not None:
        taken[found] += 1
    assert taken == left
