"""The plugin for pytest, which finds it by itself where Sluicegate is installed (entry point `pytest11`).

Fixtures:

- `sluicegate_broker`: a broker for one test: empty when the test begins. `@pytest.mark.sluicegate(...)` takes the
  arguments of `Broker`, on a test, a class or, as `pytestmark`, a module.
- `sluicegate_session_broker`: one for all tests of the run, which nobody clears.
- `async_sluicegate_broker`: `sluicegate_broker` for tests that are coroutines.

When a test fails that had a broker, its report shows the broker's log. Nothing of the broker is imported, and nothing
runs, unless a test asks for it.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from sluicegate.testing.async_broker import AsyncBroker
    from sluicegate.testing.broker import Broker

MARKER: Final = "sluicegate"
PLACE: Final = "sluicegate_broker_place"  # options of pytest's configuration file
SETTINGS: Final = "sluicegate_broker_settings"
PROCESS: Final = "process"
THREAD: Final = "thread"
FIXTURES: Final = frozenset({"sluicegate_broker", "sluicegate_session_broker"})
LOG_CHARS_MAX: Final = 8000


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the configuration file."""
    parser.addini(PLACE, f"where brokers run: `{PROCESS}`, each in one of its own, or `{THREAD}`", default=PROCESS)
    parser.addini(SETTINGS, "settings of all brokers, PATH=VALUE each", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the options."""
    config.addinivalue_line("markers", f"{MARKER}(settings, **arguments): arguments of sluicegate.testing.Broker")
    place = config.getini(PLACE)
    if place not in (PROCESS, THREAD):
        raise pytest.UsageError(f"{PLACE} = {place}; allowed: {PROCESS}, {THREAD}")
    for setting in config.getini(SETTINGS):
        if "=" not in setting:
            raise pytest.UsageError(f"{SETTINGS}: {setting!r} is no PATH=VALUE")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Have the broker imported, while tests run that come before the first one that asks for it."""
    is_asked = any(not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) for item in session.items)
    if is_asked and session.config.getini(PLACE) == PROCESS and not session.config.option.collectonly:
        from sluicegate.testing.running.process import template

        template()


@pytest.fixture
def sluicegate_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A broker for one test, on free ports; `@pytest.mark.sluicegate(...)` says how it is configured."""
    marker = request.node.get_closest_marker(MARKER)
    arguments = dict(marker.kwargs) if marker is not None else {}
    if marker is not None and marker.args:
        arguments["settings"] = marker.args[0]
    with _broker(request.config, arguments) as broker:
        yield broker


@pytest.fixture
def async_sluicegate_broker(sluicegate_broker: "Broker") -> "AsyncBroker":
    """The same for a test that is a coroutine."""
    from sluicegate.testing.async_broker import AsyncBroker

    return AsyncBroker.of(sluicegate_broker)


@pytest.fixture(scope="session")
def sluicegate_session_broker(pytestconfig: pytest.Config) -> "Iterator[Broker]":
    """A broker for all tests of the run. `clear` empties it."""
    with _broker(pytestconfig, {}) as broker:
        yield broker


def _broker(config: pytest.Config, arguments: dict[str, Any]) -> "Broker":
    """Return a broker as pytest's configuration file says, and over it these arguments."""
    from sluicegate.testing.broker import Broker

    for_all = dict(setting.split("=", 1) for setting in config.getini(SETTINGS))
    given = arguments.pop("settings", None) or {}
    return Broker({**for_all, **given}, **{"thread": config.getini(PLACE) == THREAD, **arguments})


@pytest.hookimpl(hookwrapper=True)  # `wrapper` needs pluggy 1.2: an older one would end runs that use nothing of this
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Show the log of the broker of a test that has failed."""
    outcome = yield
    if outcome.excinfo is None and outcome.get_result().failed:
        arguments: dict[str, Any] = getattr(item, "funcargs", {})
        for name in FIXTURES.intersection(arguments):
            _show_log(outcome.get_result(), name, arguments[name])


def _show_log(report: pytest.TestReport, name: str, value: object) -> None:
    from sluicegate.testing.broker import Broker

    if isinstance(value, Broker):  # and no fixture of that name that a user has
        report.sections.append((f"log of {name}", value.log()[-LOG_CHARS_MAX:]))
