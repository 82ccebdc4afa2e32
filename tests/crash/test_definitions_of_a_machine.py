"""Users, message VPNs and templates are the same at all brokers of a machine, also at one that was away or is new."""

import asyncio
import os
import signal
import threading
from pathlib import Path

import httpx
import pytest

from sluicegate.messaging.clients.homes import home_of
from support.http.plain import HTTP
from support.mqtt.raw_client import RawClient
from support.processes.gateway import wait_until
from support.processes.machine import BACK_S, MachineProcess

ANSWER_S = 60
SETTINGS: dict[str, object] = {
    "watchdog.unresponsive_s": 3,
    "watchdog.kill_s": 0,
    "authentication.allow_anonymous": "false",
}
ALICE, SECRET = "alice", "a secret"

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def post(machine: MachineProcess, path: str, **body: object) -> httpx.Response:
    return HTTP.post(machine.admin_url + path, json=body, timeout=ANSWER_S)


def users_of(machine: MachineProcess) -> list[str]:
    return [each["name"] for each in HTTP.get(f"{machine.admin_url}/users", timeout=ANSWER_S).json()["users"]]


async def logs_in_at_each_broker(machine: MachineProcess) -> None:
    """Connect a client of Alice's to each broker: its identifier has its home there."""
    names = {home_of(f"c{number}", machine.count): f"c{number}" for number in range(50)}
    assert len(names) == machine.count
    for name in names.values():
        client = await RawClient.open(machine.mqtt_port, 5)
        answer = await client.connect(name, user_name=ALICE, password=SECRET.encode())
        assert answer.reason_code == 0
        await client.vanish()


def test_a_broker_that_is_added_has_what_operators_had_defined(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, 2, SETTINGS) as machine:
        for path, body in (
            ("/client-profiles", {"name": "some"}),
            ("/users", {"name": ALICE, "password": SECRET, "client_profile": "some"}),
            ("/users", {"name": "bob", "password": SECRET}),
            ("/message-vpns", {"name": "sales"}),
            ("/queue-templates", {"name": "short", "queue_name_filter": "short/>", "max_ttl": 7}),
        ):
            post(machine, path, **body).raise_for_status()
        HTTP.delete(f"{machine.admin_url}/users/bob", timeout=ANSWER_S).raise_for_status()
        machine.stop()

        machine.count, machine.settings["brokers"] = 3, 3
        machine.start()
        asyncio.run(logs_in_at_each_broker(machine))
        assert users_of(machine) == [ALICE]
        third = "sluicegate-3"
        machine.create_queue("orders", vpn="sales", home=third)
        assert post(machine, "/queues", name="short/one", home=third).json()["config"]["max_ttl"] == 7


def test_a_change_while_a_broker_hangs_is_there_when_it_answers_again(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, 2, SETTINGS) as machine:
        second = machine.broker_pids()[1]
        os.kill(second, signal.SIGSTOP)
        assert post(machine, "/users", name=ALICE, password=SECRET).status_code == 201  # nobody knew that it hangs
        os.kill(second, signal.SIGCONT)
        _waits_for_the_restart(machine)
        asyncio.run(logs_in_at_each_broker(machine))


def test_a_change_that_the_first_broker_has_not_answered_is_at_none(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, 2, SETTINGS) as machine:
        post(machine, "/users", name=ALICE, password=SECRET).raise_for_status()
        first = machine.broker_pids()[0]
        os.kill(first, signal.SIGSTOP)
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(post(machine, "/users", name="bob", password=SECRET)))
        asking.start()
        asking.join()
        assert answers[0].status_code == 409
        assert "does not answer" in answers[0].json()["detail"]
        os.kill(first, signal.SIGCONT)
        _waits_for_the_restart(machine)
        assert users_of(machine) == [ALICE]
        assert post(machine, "/users", name="bob", password=SECRET).status_code == 201


def _waits_for_the_restart(machine: MachineProcess) -> None:
    wait_until(
        lambda: machine.metric("sluicegate_broker_restarts_total") == 1 and machine.up_count() == machine.count,
        within_s=BACK_S,
        what="a broker that was started again",
    )
