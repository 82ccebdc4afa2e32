"""A node in memory with its admin port open, for the tests of the admin API and of the commands."""

from collections.abc import Iterator

import pytest

from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin, running_admin


@pytest.fixture
def node() -> MemoryNode:
    return MemoryNode()


@pytest.fixture
def admin(node: MemoryNode) -> Iterator[RunningAdmin]:
    with running_admin(node) as running:
        yield running
