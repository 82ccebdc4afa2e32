"""Back-pressure of one destination, and its end when the destination is dead."""

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.pressure import Pressure


def pressed() -> tuple[Pressure, Address]:
    """Return a pressure over its high mark, with one publisher waiting."""
    pressure = Pressure(high_bytes=100, low_bytes=40)
    publisher = Address()
    pressure.level(100, 1000)
    pressure.wait(publisher)
    return pressure, publisher


def test_publishers_wait_from_the_high_mark_down_to_the_low_mark() -> None:
    pressure, publisher = pressed()

    told = [(pressure.level(held, 1001), pressure.over) for held in (41, 40, 99)]

    assert told == [([], True), ([publisher], False), ([], False)]


def test_a_publisher_is_released_once_however_often_it_waits() -> None:
    pressure, publisher = pressed()
    pressure.wait(publisher)

    assert pressure.level(0, 1001) == [publisher]
    assert pressure.level(0, 1002) == []


def test_a_destination_without_progress_loses_its_protection() -> None:
    pressure, publisher = pressed()

    assert pressure.waive_if_stalled(1999, 1000) == []
    assert pressure.waive_if_stalled(2000, 1000) == [publisher]
    assert pressure.level(200, 2001) == []
    assert not pressure.over, "publishers go on, what it cannot take is dropped"


def test_a_destination_without_waiting_publishers_keeps_its_protection() -> None:
    pressure = Pressure(high_bytes=100, low_bytes=40)

    assert pressure.waive_if_stalled(5000, 1000) == []
    pressure.level(100, 5001)

    assert pressure.over


def test_progress_starts_the_patience_anew() -> None:
    pressure, publisher = pressed()
    pressure.progress(1500)

    assert pressure.waive_if_stalled(2000, 1000) == []
    assert pressure.waive_if_stalled(2500, 1000) == [publisher]


def test_a_waived_destination_is_protected_again_once_it_has_caught_up() -> None:
    pressure, _ = pressed()
    pressure.waive_if_stalled(2000, 1000)
    pressure.level(40, 2001)

    pressure.level(100, 2002)

    assert pressure.over


def test_a_destination_that_is_gone_blocks_no_publisher() -> None:
    pressure, publisher = pressed()

    assert pressure.close() == [publisher]
    assert not pressure.over
