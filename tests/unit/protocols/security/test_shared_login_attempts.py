"""Who guesses passwords at several brokers of a machine waits as at one."""

from sluicegate.messaging.limits.failures import SharedFailures
from sluicegate.protocols.security.login_attempts import (
    DELAY_MS,
    FREE_OF_HOST,
    FREE_OF_USER,
    REMEMBERED_MS,
    LoginAttempts,
)
from support.cores.shared_counts import running_brokers, shared_words

BROKERS = 3


def brokers() -> list[LoginAttempts]:
    found = [LoginAttempts() for _ in range(BROKERS)]
    for attempts, counts in zip(found, running_brokers(shared_words(BROKERS), BROKERS), strict=True):
        attempts.share(SharedFailures(counts))
    return found


def test_free_failures_are_those_of_all_brokers() -> None:
    machine = brokers()
    for number in range(FREE_OF_USER):
        machine[number % BROKERS].failed("h", "ada", 1)
    for each in machine:
        assert each.must_queue("h", "ada", 1)
        assert not each.must_queue("elsewhere", "ada", 1)


def test_attempts_at_different_brokers_wait_for_each_other() -> None:
    """Many connections guess no faster than one, wherever the kernel has put them."""
    machine = brokers()
    for _ in range(FREE_OF_USER):
        machine[0].failed("h", "ada", 1)
    waits = [each.begin("h", "ada", 1) for each in machine]
    assert waits == [DELAY_MS, 2 * DELAY_MS, 3 * DELAY_MS]


def test_each_failure_anywhere_doubles_the_wait() -> None:
    machine = brokers()
    now_ms, waits = 1, []
    for number in range(FREE_OF_USER + 4):
        each = machine[number % BROKERS]
        wait_ms = each.begin("h", "ada", now_ms)
        assert wait_ms is not None
        waits.append(wait_ms)
        now_ms += wait_ms
        each.failed("h", "ada", now_ms)
    alone, now_ms = LoginAttempts(), 1
    for wait_ms in waits:
        assert alone.begin("h", "ada", now_ms) == wait_ms
        now_ms += wait_ms
        alone.failed("h", "ada", now_ms)
    assert waits[-1] > DELAY_MS


def test_names_of_a_network_are_counted_together() -> None:
    machine = brokers()
    for number in range(FREE_OF_HOST):
        machine[number % BROKERS].failed("h", f"user{number}", 1)
    assert all(each.must_queue("h", "somebody else", 1) for each in machine)


def test_who_was_right_anywhere_waits_nowhere() -> None:
    machine = brokers()
    for each in machine:
        for _ in range(FREE_OF_USER):
            each.failed("h", "ada", 1)
    machine[0].succeeded("h", "ada", 2)
    for each in machine:
        assert each.begin("h", "ada", 3) == 0
    machine[1].failed("h", "ada", 4)
    assert [each.begin("h", "ada", 5) for each in machine] == [0, 0, 0]


def test_failures_are_forgotten_after_a_time() -> None:
    machine = brokers()
    for _ in range(FREE_OF_USER):
        machine[0].failed("h", "ada", 1)
    assert machine[1].begin("h", "ada", 1 + REMEMBERED_MS) == 0


def test_passwords_that_are_being_checked_elsewhere_count_as_those_here() -> None:
    machine = brokers()
    for number in range(FREE_OF_USER):
        assert not machine[0].is_crowded("h", "ada", 1)
        machine[number % BROKERS].check_begins("h", "ada")
    assert all(each.is_crowded("h", "ada", 1) for each in machine)
    machine[1].check_ended("h", "ada")
    assert not any(each.is_crowded("h", "ada", 1) for each in machine)
