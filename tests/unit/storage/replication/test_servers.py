"""Which servers and settings of streams could lose what they have confirmed."""

from typing import Any

import pytest

from sluicegate.storage.replication.servers import Server, check_servers, differences, version_of

GOOD = Server("n1", "2.12.3", 0.0)
WANTED: dict[str, Any] = {"storage": "file", "max_age": 0, "max_msgs": -1, "allow_direct": False}


def test_servers_that_force_each_write_to_disk_are_fine() -> None:
    assert check_servers([GOOD, GOOD._replace(version="2.10.0"), GOOD._replace(version="v2.15.1")], 3) == []


@pytest.mark.parametrize("version", ["2.9.25", "1.4.1", "", "unknown", "2"])
def test_an_old_server_is_an_error(version: str) -> None:
    [found] = check_servers([GOOD._replace(version=version)], 3)
    assert found.is_error
    assert found.text == f"NATS server n1 has version {version!r}: at least 2.10 is needed"


def test_a_server_that_is_newer_than_the_tests_is_warned_about() -> None:
    [found] = check_servers([GOOD._replace(version="3.0.0")], 3)
    assert not found.is_error
    assert found.text == "NATS server n1 has version 3.0.0: the newest that is tested is 2.15"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_replicas_must_have_a_majority_without_one(count: int) -> None:
    [found] = check_servers([GOOD], count)
    assert found.is_error
    assert found.text.startswith(f"{count} replicas: an odd number of at least 3 is needed")


@pytest.mark.parametrize(
    ("sync_s", "says"),
    [
        (120.0, "forces its files to disk each 120 s"),
        (None, "does not say how often it forces its files to disk, by default each 120 s"),
    ],
)
def test_a_server_that_may_lose_its_last_writes_is_warned_about(sync_s: float | None, says: str) -> None:
    [found] = check_servers([GOOD._replace(sync_s=sync_s)], 3)
    assert not found.is_error
    assert f"NATS server n1 {says}: a loss of power" in found.text
    assert "sync_interval: always" in found.text


def test_errors_come_before_warnings() -> None:
    found = check_servers([GOOD._replace(sync_s=None), GOOD._replace(version="2.9.0")], 1)
    assert [each.is_error for each in found] == [True, True, False]


def test_settings_are_compared_with_defaults_that_are_left_out() -> None:
    assert differences({"storage": "file", "max_msgs": -1}, WANTED) == {}
    assert differences({"storage": "memory", "max_msgs": -1, "max_age": 5}, WANTED) == {
        "storage": "memory",
        "max_age": 5,
    }


def test_settings_that_nobody_asked_for_are_differences_unless_they_lose_nothing() -> None:
    """`persist_mode: async` came with 2.12: the servers then answer before they have written."""
    has = {"storage": "file", "max_msgs": -1, "persist_mode": "async", "no_ack": True, "sealed": False}
    harmless = {"description": "owners", "placement": {"cluster": "c"}, "metadata": {"a": "b"}, "duplicate_window": 1}
    assert differences(has | harmless, WANTED) == {"persist_mode": "async", "no_ack": True}


def test_a_version_is_its_first_two_numbers() -> None:
    assert version_of("2.11.0-beta.1") == (2, 11)
    assert version_of("v2.14.6") == (2, 14)
    assert version_of("2.x") is None
