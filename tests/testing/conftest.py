"""A broker of the package for tests of applications, in each place where it can run, and clients of it."""

from collections.abc import Iterator

import pytest

from sluicegate.testing import Broker

PLACES = ("process", "thread")


@pytest.fixture(scope="module", params=PLACES)
def kept_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker for the tests of a file."""
    with Broker(thread=request.param == "thread") as broker:
        yield broker


@pytest.fixture
def broker(kept_broker: Broker) -> Broker:
    """The same, as a new one."""
    kept_broker.clear()
    return kept_broker
