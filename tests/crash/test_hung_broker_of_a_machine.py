"""A broker that hangs holds up neither the machine nor its operators, and is killed; healthy ones never are."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.http.plain import HTTP
from support.processes.gateway import wait_until
from support.processes.machine import BACK_S, MachineProcess, is_running

BROKERS = 2
FIRST, SECOND = "sluicegate", "sluicegate-2"
NEVER_KILLS: dict[str, object] = {"watchdog.unresponsive_s": 3, "watchdog.kill_s": 0}
KILLS: dict[str, object] = {"watchdog.unresponsive_s": 3, "watchdog.kill_s": 8}
LONGER_S = 11  # than the limits of KILLS, with what a heartbeat takes
PROBE_S = 30  # a busy machine; a probe that waits for a broker that hangs would never be answered
ANSWER_S = 30

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Stop processes, and let them run again afterwards, if they have not been killed meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            if is_running(pid):
                os.kill(pid, signal.SIGCONT)


def get(machine: MachineProcess, path: str, timeout_s: float = ANSWER_S) -> httpx.Response:
    return HTTP.get(machine.admin_url + path, timeout=timeout_s)


def events_of(machine: MachineProcess) -> list[str]:
    return [event["event"] for event in get(machine, "/events?limit=1000").json()["events"]]


def test_while_a_broker_hangs_the_other_answers_and_says_which_one_does_not(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, BROKERS, NEVER_KILLS) as machine:
        machine.create_queue("here", home=FIRST)
        machine.create_queue("there", home=SECOND)
        early: list[httpx.Response] = []
        with stopped(machine.broker_pids()[1]):
            asking = threading.Thread(target=lambda: early.append(get(machine, "/queues")))
            asking.start()
            assert get(machine, "/health/ready", PROBE_S).status_code == 200
            wait_until(lambda: machine.up_count() == BROKERS - 1, within_s=ANSWER_S, what="a broker that is missed")
            asking.join()
            for answer in (early[0], get(machine, "/queues")):
                assert [each["config"]["name"] for each in answer.json()["queues"]] == ["here"]
            assert machine.metric("sluicegate_broker_up", broker=SECOND) == 0
            assert machine.metric("sluicegate_ready", broker=FIRST) == 1
            ready, live = get(machine, "/health/ready", PROBE_S), get(machine, "/health/live", PROBE_S)
            assert (ready.status_code, ready.json()["reasons"]) == (200, [f"broker {SECOND} does not answer"])
            assert live.status_code == 200
            for refused in (
                get(machine, "/queues/there"),
                HTTP.post(f"{machine.admin_url}/users", json={"name": "u", "password": "a secret"}, timeout=ANSWER_S),
            ):
                assert refused.status_code == 409
                assert f"{SECOND} does not answer" in refused.json()["detail"]
            wait_until(lambda: "SYSTEM_BROKER_UNRESPONSIVE" in events_of(machine), within_s=ANSWER_S, what="an event")
        wait_until(lambda: machine.up_count() == BROKERS, within_s=ANSWER_S, what="a broker that answers again")
        assert machine.queue("there")["broker"] == SECOND
        wait_until(lambda: "SYSTEM_BROKER_UNRESPONSIVE_CLEAR" in events_of(machine), within_s=ANSWER_S, what="an event")
        assert machine.metric("sluicegate_broker_unresponsive_total", broker=SECOND) >= 1
        assert machine.metric("sluicegate_broker_restarts_total") == 0


def test_a_broker_that_hangs_takes_over_a_reload_when_it_answers_again(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("limits: {}\n")
    with MachineProcess(tmp_path, BROKERS, NEVER_KILLS) as machine:
        machine.stop()
        machine.config_file = file
        machine.start()
        with stopped(machine.broker_pids()[1]):
            wait_until(lambda: machine.up_count() == BROKERS - 1, within_s=ANSWER_S, what="a broker that is missed")
            file.write_text("queues: {declared: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}, {name: f}]}\n")
            HTTP.post(f"{machine.admin_url}/configuration/reload", timeout=ANSWER_S).raise_for_status()
        wait_until(
            lambda: len(get(machine, "/queues").json()["queues"]) == 6, within_s=ANSWER_S, what="queues of both brokers"
        )


def test_a_broker_that_goes_on_hanging_is_killed_and_started_again(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, BROKERS, KILLS) as machine:
        machine.create_queue("there", home=SECOND)
        hung = machine.broker_pids()[1]
        with stopped(hung):
            wait_until(lambda: not is_running(hung), within_s=BACK_S, what="the end of a broker that hangs")
        wait_until(lambda: machine.up_count() == BROKERS, within_s=BACK_S, what="a broker that comes back")
        assert machine.queue("there")["broker"] == SECOND
        for count in ("killed", "restarts"):
            assert machine.metric(f"sluicegate_broker_{count}_total", broker=SECOND) == 1
            assert machine.metric(f"sluicegate_broker_{count}_total", broker=FIRST) == 0
        assert "SYSTEM_BROKER_ENDED" in events_of(machine)
        assert "most recent call first" not in machine.stderr  # a stopped process cannot say where it hangs


def test_brokers_that_were_stopped_together_with_their_supervisor_are_not_killed(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, BROKERS, KILLS) as machine:
        first, second = machine.broker_pids()
        with stopped(machine.pid, first, second):
            time.sleep(LONGER_S)
        with stopped(second):  # the supervisor still watches: it kills one that hangs, and that one alone
            wait_until(lambda: not is_running(second), within_s=BACK_S, what="the end of a broker that hangs")
        wait_until(lambda: machine.up_count() == BROKERS, within_s=BACK_S, what="a broker that comes back")
        assert machine.metric("sluicegate_broker_restarts_total") == 1
        assert first in machine.broker_pids()


def test_a_broker_whose_start_takes_long_is_not_killed(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, BROKERS, KILLS) as machine:
        first, second = machine.broker_pids()
        os.kill(second, signal.SIGKILL)
        started: list[int] = []

        def is_started() -> bool:
            started[:] = [pid for pid in machine.broker_pids() if pid not in (first, second)]
            return bool(started)

        wait_until(is_started, within_s=BACK_S, what="another process")
        with stopped(*started):
            time.sleep(LONGER_S)
        wait_until(lambda: machine.up_count() == BROKERS, within_s=BACK_S, what="a broker that comes back")
        assert machine.broker_pids() == [first, *started]
        assert machine.metric("sluicegate_broker_killed_total") == 0
