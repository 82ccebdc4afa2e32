"""Operators of a machine with two brokers see one gateway, and hear what they need to know of a broker that is away."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import httpx
import pytest

from sluicegate import RequestRefused
from sluicegate.gateway.admin.server import CONNECTIONS_MAX
from sluicegate.messaging.clients.homes import home_of as client_home
from sluicegate.storage.environment.folder_lock import FolderLock
from sluicegate.storage.errors import FolderInUse
from support.http.plain import HTTP
from support.mqtt import packets as mqtt
from support.mqtt.raw_client import RawClient
from support.operations.console_traffic import client_of
from support.processes.gateway import wait_until
from support.processes.machine import MachineProcess

BROKERS = 2
FIRST, SECOND = "sluicegate", "sluicegate-2"
ANSWER_S = 30
AWAY_S = 45
STEP_S = 2  # of a history

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineProcess]:
    with MachineProcess(tmp_path_factory.mktemp("machine"), BROKERS) as process:
        yield process


@pytest.fixture
def machine(started: MachineProcess) -> Iterator[MachineProcess]:
    """The machine, without queues."""
    yield started
    for queue in HTTP.get(f"{started.admin_url}/queues", timeout=ANSWER_S).json()["queues"]:
        name = queue["config"]["name"]
        if not name.startswith("#"):
            HTTP.delete(f"{started.admin_url}/queues/{name}", timeout=ANSWER_S).raise_for_status()


def creates(machine: MachineProcess, **queue: object) -> httpx.Response:
    return HTTP.post(f"{machine.admin_url}/queues", json=queue, timeout=ANSWER_S)


def home_of(machine: MachineProcess, queue: str) -> object:
    return machine.queue(queue)["broker"]


@contextmanager
def second_broker_away(machine: MachineProcess) -> Iterator[None]:
    """Kill the second broker, and keep it from coming back: its data folder is in use."""
    os.kill(machine.broker_pids()[1], signal.SIGKILL)
    locks: list[FolderLock] = []

    def is_locked() -> bool:
        try:
            locks.append(FolderLock(machine.data / "brokers" / "2"))
        except FolderInUse:
            return False
        return True

    wait_until(is_locked, within_s=AWAY_S, what="a data folder that no process uses")
    wait_until(lambda: machine.up_count() == BROKERS - 1, within_s=AWAY_S, what="a broker that is missed")
    yield
    locks[0].release()
    wait_until(lambda: machine.up_count() == BROKERS, within_s=AWAY_S, what="a broker that comes back")


def test_new_queues_spread_and_commands_find_them(machine: MachineProcess) -> None:
    names = ["one", "two", "three", "four"]
    for name in names:
        assert machine.command("queue", "create", name, "--subscription", f"{name}/>").returncode == 0
    homes = [home_of(machine, name) for name in names]
    assert sorted(homes, key=str) == [FIRST, FIRST, SECOND, SECOND]

    for name in names:
        assert machine.command("pub", "--topic", f"{name}/x", "--message", f"to {name}").returncode == 0
    wait_until(
        lambda: all(machine.held_count(name) == 1 for name in names), within_s=ANSWER_S, what="a message in each queue"
    )
    listed = machine.command("queue", "list").stdout
    assert all(name in listed for name in names)
    for name in names:
        assert f"to {name}" in machine.command("queue", "browse", name).stdout
        assert machine.command("queue", "delete", name, "--yes").returncode == 0
    assert json.loads(machine.command("queue", "list", "--json").stdout) == []  # and none of the links between brokers
    assert HTTP.get(f"{machine.admin_url}/figures/queues", timeout=ANSWER_S).json()["total_count"] == 0


def test_what_is_refused_at_the_ports_for_operators_is_counted(machine: MachineProcess) -> None:
    refused = ("sluicegate_operator_requests_refused_total", {"listener": "admin", "reason": "connections"})
    before = machine.metric(refused[0], **refused[1])
    url = httpx.URL(machine.admin_url)
    with ExitStack() as opened:
        for _ in range(CONNECTIONS_MAX + 1):
            opened.enter_context(socket.create_connection((url.host, url.port or 0), timeout=ANSWER_S))
        wait_until(
            lambda: machine.metric(refused[0], **refused[1]) > before, within_s=ANSWER_S, what="a refused connection"
        )
    lines = HTTP.get(f"{machine.admin_url}/metrics", timeout=ANSWER_S).text.splitlines()
    assert [each for each in lines if each.startswith(refused[0]) and 'broker="sluicegate' in each] == []
    assert any(each.startswith("sluicegate_logins_refused_total") and 'broker=""' in each for each in lines)


def test_what_a_request_names_beside_a_queue_is_what_is_missing(machine: MachineProcess) -> None:
    creates(machine, name="there", home=SECOND)
    answer = HTTP.post(
        f"{machine.admin_url}/queues/there/messages/move", json={"to": "nowhere", "ids": ["0:1"]}, timeout=ANSWER_S
    )
    assert (answer.status_code, "nowhere" in answer.json()["detail"]) == (404, True)


def test_a_queue_is_changed_at_this_machine_and_those_between_brokers_are_not_counted(machine: MachineProcess) -> None:
    """The console lets operators change a queue unless it is at a broker of another machine."""
    assert creates(machine, name="there", home=SECOND).json()["of_machine"] is True
    assert machine.queue("there")["of_machine"] is True
    HTTP.post(f"{machine.admin_url}/message-vpns", json={"name": "sales"}, timeout=ANSWER_S).raise_for_status()
    machine.create_queue("orders", vpn="sales")
    sales = f"{machine.admin_url}/message-vpns/sales"
    wait_until(
        lambda: HTTP.get(sales, timeout=ANSWER_S).json()["endpoint_count"] == 1, within_s=ANSWER_S, what="one queue"
    )
    HTTP.delete(sales, params={"force": "true"}, timeout=ANSWER_S).raise_for_status()


def test_a_queue_shows_that_a_consumer_is_at_another_broker_of_this_machine(machine: MachineProcess) -> None:
    """So the console leads to the client, and not to a link."""
    for queue, home in (("one", FIRST), ("two", SECOND)):
        assert creates(machine, name=queue, home=home).status_code == 201
    with client_of(machine, "worker") as client, ExitStack() as consumers:

        def consumes(queue: str) -> bool:
            try:
                consumers.enter_context(client.consumer(queue))
            except RequestRefused:  # the client's broker does not know yet what the other one has made
                return False
            return True

        for queue in ("one", "two"):
            wait_until(partial(consumes, queue), within_s=ANSWER_S, what=f"a consumer of {queue}")
        found = {home_of(machine, queue): consumer_of(machine, queue) for queue in ("one", "two")}
    (broker,) = {each["broker"] for each in found.values() if each["broker"]}
    (other,) = {FIRST, SECOND} - {broker}
    assert [(each["client"], each["of_machine"]) for each in (found[broker], found[other])] == [
        ("worker", False),
        (f"worker@{broker}", True),
    ]


def consumer_of(machine: MachineProcess, queue: str) -> dict[str, Any]:
    """Return the only flow of a queue."""
    (flow,) = cast("list[dict[str, Any]]", machine.queue(queue)["flows"])
    return flow


def test_the_history_is_that_of_both_brokers_together(machine: MachineProcess) -> None:
    """A backlog at each adds up, the history of a queue is that of its broker, and steps have the same times."""
    counts = {"one": 3, "two": 4}
    for name, home in (("one", FIRST), ("two", SECOND)):
        assert creates(machine, name=name, home=home).status_code == 201
    begun_ms = history(machine, "/history")["times_ms"][-1]
    for name, count in counts.items():
        message = {"queue": name, "payload": "x", "count": count}
        assert published(machine, **message)["published_count"] == count

    def has(path: str, figure: str, value: int) -> Callable[[], bool]:
        return lambda: history(machine, path)["values"][figure][-1:] == [value]

    for path in ("/history", "/history/message-vpn"):
        wait_until(has(path, "messages", 7), within_s=ANSWER_S, what=f"the backlog of both in {path}")
    for name, count in counts.items():
        path = f"/history/queues/{name}"
        wait_until(has(path, "messages", count), within_s=ANSWER_S, what=f"the backlog of {name}")
    wait_until(
        lambda: sum(filter(None, history(machine, "/history/message-vpn")["values"]["messages_in"])) * STEP_S >= 7,
        within_s=ANSWER_S,
        what="the messages of both",
    )
    times_ms = history(machine, "/history")["times_ms"]
    assert times_ms == list(range(times_ms[0], times_ms[-1] + 1, STEP_S * 1000)), "a step each, without a gap"
    later = history(machine, "/history", after_ms=begun_ms)["times_ms"]
    assert later
    assert later[0] > begun_ms


def published(machine: MachineProcess, **message: object) -> Any:
    return HTTP.post(f"{machine.admin_url}/publish", json=message, timeout=ANSWER_S).raise_for_status().json()


def history(machine: MachineProcess, path: str, **asked: int) -> Any:
    return HTTP.get(f"{machine.admin_url}{path}", params=asked, timeout=ANSWER_S).raise_for_status().json()


def test_sessions_do_not_count_for_where_a_queue_comes(machine: MachineProcess) -> None:
    at_first = [name for name in [f"s{number}" for number in range(20)] if client_home(name, BROKERS) == 1][:3]
    asyncio.run(leave_sessions(machine, at_first))
    for name in ("one", "two"):
        assert creates(machine, name=name).status_code == 201
    assert [home_of(machine, name) for name in ("one", "two")] == [FIRST, SECOND]


async def leave_sessions(machine: MachineProcess, names: list[str]) -> None:
    for name in names:
        client = await RawClient.open(machine.mqtt_port, 5)
        answer = await client.connect(name, properties=mqtt.session_expiry(3600))
        assert answer.reason_code == 0
        await client.subscribe(f"of/{name}", qos=1)
        await client.vanish()


def test_clients_and_their_sessions_are_found_at_whichever_broker_they_are(machine: MachineProcess) -> None:
    names = [next(name for name in _names("c") if client_home(name, BROKERS) == broker) for broker in (1, 2)]
    asyncio.run(look_at_clients(machine, names))
    found = _asked(machine, "/mqtt-sessions?client_id=c*&connected=0")
    assert [each["client_id"] for each in found["sessions"]] == sorted(names)
    assert [_asked(machine, f"/mqtt-sessions/{name}")["broker"] for name in names] == [FIRST, SECOND]
    for name in names:
        HTTP.delete(f"{machine.admin_url}/mqtt-sessions/{name}", timeout=ANSWER_S).raise_for_status()
    assert _asked(machine, "/mqtt-sessions?client_id=c*")["total_count"] == 0


async def look_at_clients(machine: MachineProcess, names: list[str]) -> None:
    """Connect clients, and look at them, at their ports and at what they have retained."""
    clients = []
    for name in names:
        client = await RawClient.open(machine.mqtt_port, 5)
        assert (await client.connect(name, properties=mqtt.session_expiry(3600))).reason_code == 0
        await client.subscribe(f"of/{name}", qos=1)
        await client.publish(f"state/{name}", b"on", retain=True)
        clients.append(client)
    shown = [await asyncio.to_thread(_asked, machine, f"/clients/{name}") for name in names]
    assert [[each["broker"] for each in view["connections"]] for view in shown] == [[FIRST], [SECOND]]
    topics = [await asyncio.to_thread(_asked, machine, f"/clients/{name}/subscriptions") for name in names]
    assert [[each["topic"] for each in view["subscriptions"]] for view in topics] == [[f"of/{name}"] for name in names]
    listeners = (await asyncio.to_thread(_asked, machine, "/listeners"))["listeners"]
    assert [each["connections_count"] >= BROKERS for each in listeners if each["name"] == "mqtt"] == [True]
    await asyncio.to_thread(_are_retained, machine, [f"state/{name}" for name in names])
    for client in clients:
        await client.vanish()


def _are_retained(machine: MachineProcess, topics: list[str]) -> None:
    """Wait until both brokers have what is retained, delete it, and wait until it is gone."""

    def retained() -> list[str]:
        return [each["topic"] for each in _asked(machine, "/retained-messages?topic=state/%23")["messages"]]

    wait_until(lambda: retained() == sorted(topics), within_s=ANSWER_S, what="the retained messages")
    for topic in topics:
        path = topic.replace("/", "%2F")
        HTTP.delete(f"{machine.admin_url}/retained-messages/{path}", timeout=ANSWER_S).raise_for_status()
    wait_until(lambda: retained() == [], within_s=ANSWER_S, what="no retained messages")


def _names(prefix: str) -> Iterator[str]:
    return (f"{prefix}{number}" for number in range(100))


def _asked(machine: MachineProcess, path: str) -> Any:
    answer = HTTP.get(f"{machine.admin_url}{path}", timeout=ANSWER_S)
    answer.raise_for_status()
    return answer.json()


def test_a_queue_comes_where_the_request_says_and_its_name_is_taken_everywhere(machine: MachineProcess) -> None:
    assert creates(machine, name="there", home=SECOND).json()["broker"] == SECOND
    assert creates(machine, name="there", home=FIRST).status_code == 409
    refused = creates(machine, name="other", home="elsewhere")
    assert refused.status_code == 422
    assert refused.json()["allowed"] == f"{FIRST}, {SECOND}"


def test_the_dead_message_queue_takes_dead_messages_of_all_brokers(machine: MachineProcess) -> None:
    assert machine.command("queue", "create", "#DEAD_MSG_QUEUE").returncode == 0
    assert creates(machine, name="#DEAD_MSG_QUEUE", home=FIRST).status_code == 409
    for name, home in (("q1", FIRST), ("q2", SECOND)):
        made = creates(machine, name=name, home=home, subscriptions=[name], respect_ttl_enabled=True, max_ttl=1)
        assert made.json()["broker"] == home
        assert machine.command("pub", "--topic", name, "--message", f"of {name}").returncode == 0
    wait_until(lambda: machine.held_count("#DEAD_MSG_QUEUE") == 2, within_s=ANSWER_S, what="dead messages of both")
    browsed = machine.command("queue", "browse", "#DEAD_MSG_QUEUE").stdout
    assert "of q1" in browsed
    assert "of q2" in browsed


def first_knows_of_it(machine: MachineProcess) -> bool:
    """Return whether the first broker knows where a message for the queue `away` goes."""
    answer = HTTP.get(f"{machine.admin_url}/explain/publish", params={"queue": "away"}, timeout=ANSWER_S)
    return answer.status_code == 200 and bool(answer.json()["destinations"])


def test_while_a_broker_is_away_the_other_serves_and_says_what_is_missing(machine: MachineProcess) -> None:
    creates(machine, name="here", home=FIRST)
    creates(machine, name="away", home=SECOND)
    wait_until(lambda: first_knows_of_it(machine), within_s=ANSWER_S, what="a queue that the other knows of")
    with second_broker_away(machine):
        health = HTTP.get(f"{machine.admin_url}/health/ready", timeout=ANSWER_S)
        assert (health.status_code, health.json()["reasons"]) == (200, [f"broker {SECOND} is not running"])
        assert machine.metric("sluicegate_broker_up", broker=SECOND) == 0
        assert home_of(machine, "here") == FIRST

        for answer in (
            HTTP.get(f"{machine.admin_url}/queues/away", timeout=ANSWER_S),
            HTTP.delete(f"{machine.admin_url}/queues/away", timeout=ANSWER_S),
            HTTP.post(f"{machine.admin_url}/users", json={"name": "u", "password": "a secret"}, timeout=ANSWER_S),
            creates(machine, name="more", home=SECOND),
        ):
            assert answer.status_code == 409
            assert SECOND in answer.json()["detail"]
        assert creates(machine, name="away").status_code == 409  # else there were two of this name
        assert creates(machine, name="more").json()["broker"] == FIRST
    assert home_of(machine, "away") == SECOND
    assert creates(machine, name="later", home=SECOND).status_code == 201
