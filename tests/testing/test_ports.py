"""Ports of brokers under test: each worker of pytest-xdist draws from its own."""

import pytest

from sluicegate.testing.ports import worker_number


@pytest.mark.parametrize(("worker", "number"), [("gw0", 0), ("gw12", 12), ("local1", 1), ("rack-2-gw07", 7)])
def test_a_worker_has_the_number_at_the_end_of_its_name(worker: str, number: int) -> None:
    """Names are what users give to workers, `--tx id=local1//popen`."""
    assert worker_number(worker) == number


def test_workers_without_numbers_differ() -> None:
    assert worker_number("left") != worker_number("right")
