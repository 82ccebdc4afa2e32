"""The plugin for pytest: fixtures, marker, options, and the log of a broker in the report of a failed test."""

from pathlib import Path

from support.processes.user_tests import run_tests

MARKED = """
import pytest

pytestmark = pytest.mark.sluicegate({"http.max_message_size": "1KiB"}, accounts={"ada": "engine"})


def test_it_is_configured(sluicegate_broker):
    sluicegate_broker.create_queue("orders", max_msg_size=7)
    assert "password-0" in {each.name for each in sluicegate_broker.folder.iterdir()}


@pytest.mark.sluicegate(thread=False)
def test_the_nearest_marker_counts(sluicegate_broker):
    assert "password-0" not in {each.name for each in sluicegate_broker.folder.iterdir()}
"""

SHARED = """
def test_one(sluicegate_session_broker, sluicegate_broker):
    sluicegate_session_broker.create_queue("orders")
    sluicegate_broker.create_queue("orders")


def test_two(sluicegate_session_broker, sluicegate_broker):
    assert sluicegate_session_broker.queues() == ["orders"]
    assert sluicegate_broker.queues() == []
    sluicegate_session_broker.clear()
    assert sluicegate_session_broker.queues() == []
"""

AWAITED = """
import asyncio


def test_helpers_are_awaited(async_sluicegate_broker):
    async def scenario():
        await async_sluicegate_broker.create_queue("orders")
        return await async_sluicegate_broker.queues()

    assert asyncio.run(scenario()) == ["orders"]


def test_a_failure(sluicegate_broker):
    sluicegate_broker.create_queue("orders-of-the-failure")
    assert sluicegate_broker.queues() == []
"""

OWN = """
import pytest


@pytest.fixture
def sluicegate_broker():
    return "flow://127.0.0.1:55555"


def test_a_failure(sluicegate_broker):
    assert sluicegate_broker == ""
"""

UNUSED = """
import sys


def test_nothing_of_the_broker_is_imported_for_tests_that_ask_for_none():
    loaded = {name for name in sys.modules if name.startswith("sluicegate")}
    assert loaded == {"sluicegate", "sluicegate.testing", "sluicegate.testing.plugin"}
"""


def test_fixtures_are_configured_shared_and_awaited_and_a_failed_test_shows_a_log(tmp_path: Path) -> None:
    """In one run, with warnings as errors: each has to import the broker."""
    for name, text in (("marked", MARKED), ("shared", SHARED), ("awaited", AWAITED)):
        (tmp_path / f"test_{name}.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\nsluicegate_broker_place = thread\n")
    done = run_tests(tmp_path, "--strict-markers", "-W", "error")
    assert "1 failed, 5 passed" in done.stdout, done.stdout
    assert "FAILED test_awaited.py::test_a_failure" in done.stdout
    assert "log of sluicegate_broker" in done.stdout
    assert "Queue orders-of-the-failure created" in done.stdout


def test_it_costs_nothing_where_no_test_asks_for_a_broker(tmp_path: Path) -> None:
    (tmp_path / "test_unused.py").write_text(UNUSED)
    done = run_tests(tmp_path)
    assert "1 passed" in done.stdout, done.stdout


def test_a_fixture_of_that_name_may_be_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(OWN)
    done = run_tests(tmp_path)
    assert "1 failed" in done.stdout, done.stdout
    assert "INTERNALERROR" not in done.stdout


def test_wrong_options_are_named(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nsluicegate_broker_place = moon\n")
    done = run_tests(tmp_path)
    assert "sluicegate_broker_place = moon; allowed: process, thread" in done.stderr
    (tmp_path / "pytest.ini").write_text("[pytest]\nsluicegate_broker_settings = mqtt.receive_maximum\n")
    done = run_tests(tmp_path)
    assert "sluicegate_broker_settings: 'mqtt.receive_maximum' is no PATH=VALUE" in done.stderr


def test_settings_of_the_configuration_file_hold_for_all_brokers(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text("def test_it(sluicegate_broker): pass\n")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nsluicegate_broker_place = thread\nsluicegate_broker_settings =\n    mqtt.receive_maximum=0\n"
    )
    done = run_tests(tmp_path)
    assert "mqtt.receive_maximum" in done.stdout
    assert "the configuration is invalid" in done.stdout
