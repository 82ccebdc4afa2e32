"""A broker with the queues of examples/README.md."""

from collections.abc import Iterator

import pytest

from sluicegate.testing import Broker
from support.examples.scenarios import create_queues


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        create_queues(running)
        yield running
