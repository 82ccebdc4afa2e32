"""Who guesses passwords waits: how many attempts are free, how long the others take, and who else is concerned."""

from sluicegate.protocols.security.login_attempts import (
    DELAY_MS,
    FREE_OF_HOST,
    FREE_OF_USER,
    REMEMBERED_MAX,
    REMEMBERED_MS,
    WAIT_MS_MAX,
    LoginAttempts,
)
from sluicegate.protocols.security.login_queue import LoginClass


def failed(attempts: LoginAttempts, count: int, *, host: str = "h", user: str = "ada", now_ms: int = 0) -> None:
    for _ in range(count):
        attempts.failed(host, user, now_ms)


def test_a_mistyped_password_costs_nothing() -> None:
    attempts = LoginAttempts()
    failed(attempts, FREE_OF_USER - 1)
    assert attempts.begin("h", "ada", 0) == 0


def test_each_further_failure_doubles_the_wait() -> None:
    attempts = LoginAttempts()
    waits = []
    now_ms = 0
    for _ in range(12):
        wait_ms = attempts.begin("h", "ada", now_ms)
        assert wait_ms is not None
        waits.append(wait_ms)
        now_ms += wait_ms
        attempts.failed("h", "ada", now_ms)
    assert waits[:FREE_OF_USER] == [0] * FREE_OF_USER
    assert waits[FREE_OF_USER : FREE_OF_USER + 2] == [DELAY_MS, 2 * DELAY_MS]
    assert max(waits) <= WAIT_MS_MAX


def test_attempts_side_by_side_wait_one_after_the_other() -> None:
    """Many connections guess no faster than one."""
    attempts = LoginAttempts()
    failed(attempts, FREE_OF_USER)
    waits = [attempts.begin("h", "ada", 0) for _ in range(100)]
    admitted = [each for each in waits if each is not None]
    assert admitted == [DELAY_MS * (number + 1) for number in range(WAIT_MS_MAX // DELAY_MS)]
    assert attempts.refused_count == 100 - len(admitted)


def test_a_user_is_not_locked_out_from_elsewhere() -> None:
    attempts = LoginAttempts()
    failed(attempts, 50, host="attacker")
    assert attempts.begin("home", "ada", 0) == 0


def test_an_address_that_tries_many_names_waits_too() -> None:
    attempts = LoginAttempts()
    for number in range(FREE_OF_HOST):
        attempts.failed("h", f"user{number}", 0)
    assert attempts.begin("h", "somebody else", 0) == DELAY_MS


def test_who_succeeds_is_forgiven() -> None:
    attempts = LoginAttempts()
    failed(attempts, FREE_OF_USER)
    attempts.succeeded("h", "ada", 0)
    assert attempts.begin("h", "ada", 0) == 0


def test_failures_are_forgotten_after_a_while() -> None:
    attempts = LoginAttempts()
    failed(attempts, 10)
    assert attempts.begin("h", "ada", REMEMBERED_MS) == 0


def test_of_more_names_and_addresses_than_are_remembered_the_one_that_was_quiet_longest_is_forgotten() -> None:
    attempts = LoginAttempts()
    for host in ("quiet", "lately"):
        for _ in range(FREE_OF_HOST):
            attempts.failed(host, "", 0)
    for number in range(REMEMBERED_MAX - 2):
        attempts.failed(str(number), "", 0)
    attempts.failed("lately", "", 0)
    assert attempts.must_queue("quiet", "", 0)

    attempts.failed("one more", "", 0)

    assert not attempts.must_queue("quiet", "", 0)
    assert attempts.must_queue("lately", "", 0)


def test_the_addresses_of_one_network_are_counted_together() -> None:
    """Whoever has one IPv6 address has 2^64 of them."""
    attempts = LoginAttempts()
    for number in range(FREE_OF_HOST):
        attempts.failed(f"2001:db8::{number:x}", f"user{number}", 0)
    assert attempts.begin("2001:db8::ffff", "ada", 0) == DELAY_MS
    assert attempts.begin("2001:db8:0:1::ffff", "ada", 0) == 0


def test_a_user_who_was_right_lately_waits_for_its_own_failures_only() -> None:
    attempts = LoginAttempts()
    attempts.succeeded("h", "ada", 0)
    failed(attempts, FREE_OF_HOST, user="eve")
    assert attempts.begin("h", "ada", 0) == 0
    assert attempts.begin("h", "bob", 0) == DELAY_MS
    failed(attempts, FREE_OF_USER)
    assert attempts.begin("h", "ada", 0) == DELAY_MS


def test_a_token_without_a_user_name_clears_no_failed_logins() -> None:
    attempts = LoginAttempts()
    failed(attempts, FREE_OF_HOST, user="eve")
    attempts.succeeded("h", "", 0)
    assert attempts.begin("h", "ada", 0) == DELAY_MS


def test_who_comes_is_known_new_or_has_failed() -> None:
    attempts = LoginAttempts()
    assert attempts.login_class("h", "ada", 0) is LoginClass.NEW
    failed(attempts, 1, user="eve")
    assert attempts.login_class("h", "ada", 0) is LoginClass.FAILED
    attempts.succeeded("h", "ada", 0)
    assert attempts.login_class("h", "ada", 0) is LoginClass.KNOWN
    assert attempts.login_class("elsewhere", "ada", 0) is LoginClass.NEW
    failed(attempts, FREE_OF_USER)
    assert attempts.login_class("h", "ada", 0) is LoginClass.FAILED
    assert attempts.login_class("h", "eve", REMEMBERED_MS) is LoginClass.NEW


def test_of_too_many_proven_passwords_the_oldest_is_forgotten() -> None:
    attempts = LoginAttempts()
    for user in ("ada", "bob", "ada"):
        attempts.succeeded("h", user, 0)
    for number in range(REMEMBERED_MAX - 1):
        attempts.succeeded("h", f"user{number}", 0)
    assert attempts.login_class("h", "ada", 0) is LoginClass.KNOWN
    assert attempts.login_class("h", "bob", 0) is LoginClass.NEW


def test_checks_in_progress_count_as_free_failures() -> None:
    attempts = LoginAttempts()
    failed(attempts, 1)
    for _ in range(FREE_OF_USER - 1):
        assert not attempts.is_crowded("h", "ada", 0)
        attempts.check_begins("h", "ada")
    assert attempts.is_crowded("h", "ada", 0)
    assert not attempts.is_crowded("h", "bob", 0)
    attempts.check_ended("h", "ada")
    assert not attempts.is_crowded("h", "ada", 0)


def test_an_attempt_for_which_there_was_no_time_has_not_failed_and_is_not_new() -> None:
    attempts = LoginAttempts()
    for _ in range(FREE_OF_HOST):
        attempts.unchecked("h", 0)
    assert attempts.login_class("h", "ada", 0) is LoginClass.FAILED
    assert attempts.begin("h", "ada", 0) == 0
    attempts.succeeded("h", "ada", 0)
    assert attempts.login_class("h", "ada", 0) is LoginClass.KNOWN
