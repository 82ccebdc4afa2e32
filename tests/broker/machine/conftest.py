"""Two brokers of one machine. A module that needs settings of theirs defines `machine_settings`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker.machine_brokers import MachineBrokers
from support.network.certificates import Certificates, make_certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def machine_settings() -> tuple[str, ...]:
    return ()


@pytest.fixture
def machine(runner: asyncio.Runner, tmp_path: Path, machine_settings: tuple[str, ...]) -> Iterator[MachineBrokers]:
    """Two brokers that run."""
    machine = MachineBrokers(tmp_path, *machine_settings)
    runner.run(machine.__aenter__())
    yield machine
    runner.run(machine.__aexit__(None, None, None))
