"""Who guesses passwords waits: how many attempts are free, how long the others take, and who else is concerned."""

from protocols.login_attempts import (
    DELAY_MS,
    FREE_OF_HOST,
    FREE_OF_USER,
    REMEMBERED_MAX,
    REMEMBERED_MS,
    WAIT_MS_MAX,
    LoginAttempts,
)


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
    attempts.succeeded("h", "ada")
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
    assert attempts.wait_in_line("quiet", "", 0)

    attempts.failed("one more", "", 0)

    assert not attempts.wait_in_line("quiet", "", 0)
    assert attempts.wait_in_line("lately", "", 0)
