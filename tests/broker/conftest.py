"""Whole-broker tests are coroutines: each runs on an event loop of its own, most with a broker that is ready.

A test fails when anything in the node logged an error or reached the event loop's exception handler: the broker's
own mistakes cost a client its connection at most, and would go unnoticed otherwise.
"""

import asyncio
import inspect
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.protocols.transport.loop.event_loop import SocketLoop
from support.amqp.client import AmqpClients
from support.broker.running_broker import RunningBroker


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers that configure the broker of a test."""
    config.addinivalue_line("markers", "accounts(**passwords): who may connect to the broker under test; nobody else")
    config.addinivalue_line("markers", "settings(*paths): settings of the broker under test, PATH=VALUE each")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine on the loop of its fixtures."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(autouse=True)
def runner(caplog: pytest.LogCaptureFixture) -> Iterator[asyncio.Runner]:
    """Run the test on this."""
    reported: list[dict[str, Any]] = []
    filters = list(caplog.handler.filters)
    with asyncio.Runner(loop_factory=SocketLoop) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: reported.append(context))
        yield runner
    caplog.handler.filters[:] = filters  # what the test is not to fail over: the handler is that of all tests
    assert reported == []
    errors = [
        record
        for when in ("setup", "call", "teardown")
        for record in caplog.get_records(when)
        if record.levelno >= logging.ERROR and record.name.startswith("sluicegate") and not _tells_of_the_store(record)
    ]
    assert errors == []


STORE_FAILURES = ("spool has failed", "spool was not closed in order", "cannot be read: ")


def _tells_of_the_store(record: logging.LogRecord) -> bool:
    """Return whether it says what a test did: had the store refuse something. A mistake of ours has a traceback."""
    text = record.getMessage()
    return record.exc_info is None and any(each in text for each in STORE_FAILURES)


@pytest.fixture
def broker(runner: asyncio.Runner, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """A broker that is ready; `@pytest.mark.settings` and `@pytest.mark.accounts` say how it is configured."""
    settings = request.node.get_closest_marker("settings")
    accounts = request.node.get_closest_marker("accounts")
    broker = RunningBroker(
        tmp_path / "data", () if settings is None else settings.args, {} if accounts is None else accounts.kwargs
    )
    runner.run(broker.__aenter__())
    yield broker
    runner.run(broker.__aexit__(None, None, None))


@pytest.fixture
def amqp(runner: asyncio.Runner, broker: RunningBroker) -> Iterator[AmqpClients]:
    """AMQP clients of that broker; their sockets are closed at the end."""
    clients = AmqpClients(broker)
    yield clients
    runner.run(clients.all_vanish())
