"""The examples for boards: MiniMQTT of CircuitPython, here on a computer."""

import time
from pathlib import Path

import pytest

import sluicegate
from sluicegate.testing import Broker
from support.examples.programs import WITHIN_S, Programs, Running, build, copied, toolchain

pytestmark = [pytest.mark.interop]


@pytest.fixture(scope="module")
def folder() -> Path:
    python = toolchain("python3")
    folder = copied("circuitpython")
    build(folder, python, "-m", "venv", "venv")
    build(folder, "venv/bin/pip", "install", "--quiet", "--requirement", "requirements.txt")
    return folder


@pytest.fixture
def programs(folder: Path, broker: Broker) -> Programs:
    python = str(folder / "venv" / "bin" / "python")
    return Programs(lambda name: [python, "-u", str(folder / f"{name}.py")], broker)


def prints(running: Running, beginning: str, times: int = 1) -> None:
    """Wait until a program has printed so many lines that begin so."""
    deadline = time.monotonic() + WITHIN_S
    while sum(each.startswith(beginning) for each in running.lines) < times:
        assert time.monotonic() < deadline, running.lines
        time.sleep(0.01)


def test_readings_of_a_board_stay_in_order(programs: Programs, broker: Broker) -> None:
    """The queue derives the key from the topic: MQTT 3.1.1 has no field for it."""
    broker.create_queue(
        "readings",
        subscriptions=["devices/*/temperature"],
        access_type="non-exclusive",
        partition_count=4,
        partition_key_source="topic-level:2",
    )
    assert programs.run("readings") == ["12 readings published"]
    found = broker.drain("readings")
    assert [each.text for each in found] == [f"reading {number}" for number in range(1, 13)]
    assert len({each.partition for each in found}) == 1


def test_commands_wait_for_a_board_that_sleeps(programs: Programs, broker: Broker) -> None:
    with programs.running("commands") as awake:
        prints(awake, "waiting for commands")
    broker.publish(
        *(sluicegate.Message(text, topic="devices/board-1/commands", is_text=True) for text in (b"on", b"off"))
    )
    with programs.running("commands") as again:
        prints(again, "command: off")
    assert [each for each in again.lines if each.startswith("command")] == ["command: on", "command: off"]


def test_a_board_waits_for_a_broker_that_is_away(programs: Programs, broker: Broker) -> None:
    """When it starts, and when it connects again."""
    with programs.running("commands") as board:
        for times in (1, 2):
            broker.stop()
            prints(board, "not connected", times=times)
            broker.start()
            prints(board, "waiting for commands", times=times)
