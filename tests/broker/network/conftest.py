"""Tests of several brokers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker.linked_brokers import Brokers


@pytest.fixture
def brokers(runner: asyncio.Runner, tmp_path: Path) -> Iterator[Brokers]:
    """No broker yet."""
    brokers = Brokers(tmp_path)
    runner.run(brokers.__aenter__())
    yield brokers
    runner.run(brokers.__aexit__(None, None, None))


@pytest.fixture
def network(runner: asyncio.Runner, tmp_path: Path) -> Iterator[Brokers]:
    """Brokers a and b, linked: a connects."""
    brokers = Brokers(tmp_path)

    async def start() -> None:
        await brokers.__aenter__()
        await brokers.pair()
        await brokers.are_linked()

    runner.run(start())
    yield brokers
    runner.run(brokers.__aexit__(None, None, None))
