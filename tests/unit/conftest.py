"""Fixtures of the unit tests."""

from collections.abc import Iterator

import pytest

from sluicegate.actors.runtime.runtime import Runtime
from support.cores.lone_actors import lone_runtime


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """Return a runtime with nobody in it."""
    with lone_runtime() as made:
        yield made
