"""What changes on a message that dies, dies once more, and is driven back."""

from dataclasses import dataclass

import pytest

from sluicegate.messaging.message.dead_lettering import is_eligible, restored, was_dead_in, with_death
from sluicegate.messaging.message.headers import DeadLetter, Headers

RECEIVED_MS, DIED_MS = 1_000_000, 1_400_000


def death(*, queue: str = "orders", was_eligible: bool = False, client: str = "worker") -> DeadLetter:
    return DeadLetter(
        reason="rejected",
        queue=queue,
        partition=3,
        delivery_count=2,
        died_ms=DIED_MS,
        client=client,
        was_eligible=was_eligible,
        via=(),
    )


def test_a_message_driven_back_is_what_its_publisher_sent() -> None:
    """Solace 4.8: eligibility is cleared on the way, and restored."""
    published = Headers(
        partition_key="k", key_hash=7, dmq_eligible=True, correlation=b"c", native_format=1, native=b"n"
    )
    dead = with_death(published, death(was_eligible=True), received_ms=RECEIVED_MS)

    assert not dead.dmq_eligible
    assert dead != published
    assert restored(dead, received_ms=DIED_MS, wall_ms=DIED_MS + 1) == published


def test_the_time_to_live_begins_anew_and_a_delay_is_over() -> None:
    """Solace 4.8: TTL restarts; a message that expired must not expire at once where it goes."""
    published = Headers(expires_at_ms=RECEIVED_MS + 60_000, not_before_ms=RECEIVED_MS + 900_000)

    dead = with_death(published, death(), received_ms=RECEIVED_MS)
    back = restored(dead, received_ms=DIED_MS, wall_ms=DIED_MS + 500_000)

    assert (dead.expires_at_ms, dead.not_before_ms) == (DIED_MS + 60_000, 0)
    assert back.expires_at_ms == DIED_MS + 560_000
    assert published.expires_at_ms == RECEIVED_MS + 60_000, "the original is somebody else's as well"


def test_a_message_without_headers_gets_some_to_carry_its_death() -> None:
    dead = with_death(None, death(), received_ms=RECEIVED_MS)

    assert dead.dead == death()
    assert dead.expires_at_ms == 0


def test_the_first_death_stays_and_the_way_grows() -> None:
    first = with_death(None, death(), received_ms=RECEIVED_MS)
    second = with_death(first, death(queue="orders.dead", client="undertaker"), received_ms=DIED_MS)
    third = with_death(second, death(queue="#DEAD_MSG_QUEUE"), received_ms=DIED_MS)

    assert third.dead is not None
    assert (third.dead.queue, third.dead.client) == ("orders", "worker")
    assert third.dead.via == ("orders.dead", "#DEAD_MSG_QUEUE")
    assert [name for name, _ in third.dead.properties()][-2:] == ["sluicegate-dead-via", "sluicegate-dead-via"]


@dataclass
class Circle:
    """Where a message died, and where it would go."""

    dead: DeadLetter | None
    target: str
    closes: bool


TWICE_DEAD = with_death(with_death(None, death(), received_ms=0), death(queue="orders.dead"), received_ms=0).dead


@pytest.mark.parametrize(
    "case",
    [
        Circle(None, "orders", False),
        Circle(death(), "orders.dead", False),
        Circle(death(), "orders", True),
        Circle(TWICE_DEAD, "orders.dead", True),
        Circle(TWICE_DEAD, "other", False),
    ],
)
def test_a_message_never_goes_where_it_died_before(case: Circle) -> None:
    assert was_dead_in(case.dead, case.target) == case.closes


def test_every_message_is_eligible_unless_the_queue_heeds_what_publishers_say() -> None:
    """Solace 4.8: respectDmqEligibleEnabled."""
    marked = Headers(dmq_eligible=True)

    assert is_eligible(None, respects_flag=False)
    assert not is_eligible(None, respects_flag=True)
    assert not is_eligible(Headers(), respects_flag=True)
    assert is_eligible(marked, respects_flag=True)
