"""Tests of this folder are coroutines, and share a cluster of three NATS servers."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes.nats import NatsCluster


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    folder: Path = tmp_path_factory.mktemp("nats")
    with NatsCluster(folder) as cluster:
        yield cluster
