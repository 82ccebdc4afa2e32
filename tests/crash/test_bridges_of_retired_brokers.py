"""Bridges and REST delivery points of a retired broker go to one that stays, while brokers are killed.

Publishers go on meanwhile. What was confirmed to them reaches the foreign broker, or the web server, by one broker.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.foreign.paho_client import PahoClient
from support.http.plain import HTTP
from support.http.web_server import WebServer
from support.mqtt.raw_client import RawClient
from support.processes.gateway import GatewayProcess, wait_until
from support.processes.machine import MachineProcess
from support.processes.retired_broker import end_second, keep_second

WITHIN_S = 90
COUNT = 50  # messages of each publish

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def created(machine: MachineProcess, path: str, body: Mapping[str, object]) -> None:
    HTTP.post(f"{machine.admin_url}{path}", json=body, timeout=30).raise_for_status()


def listed(machine: MachineProcess, path: str, key: str) -> list[str]:
    """Return the names of the objects of a kind; none while a broker is not to be asked."""
    try:
        return sorted(each["name"] for each in HTTP.get(machine.admin_url + path, timeout=30).json()[key])
    except (httpx.HTTPError, KeyError):
        return []


async def publish(port: int, topic: str, first: int) -> list[int]:
    """Publish numbers to a topic; return them when they are confirmed."""
    client = await RawClient.open(port, 5)
    await client.connect(f"publisher-{first}")
    for number in range(first, first + COUNT):
        assert await client.publish(topic, b"%d" % number, qos=1) == 0
    await client.leave()
    return list(range(first, first + COUNT))


def kill_all_but_one_at_a_time(machine: MachineProcess) -> None:
    """Kill the retired broker, the one that stays, and the supervisor, whatever has moved by then."""
    os.kill(machine.broker_pid(2), signal.SIGKILL)
    wait_until(lambda: machine.up_count() == 2, within_s=WITHIN_S, what="both brokers")
    os.kill(machine.broker_pid(1), signal.SIGKILL)
    machine.kill_supervisor()
    machine.start()


@contextmanager
def served() -> Iterator[WebServer]:
    """Yield a web server on a thread of its own: it answers while this one waits for processes."""
    server = WebServer()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(WITHIN_S)
        yield server
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(WITHIN_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.timeout(400)
def test_a_bridge_goes_on_at_the_broker_that_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    with GatewayProcess(tmp_path / "there", {"node.name": "there"}) as there:
        there.create_queue("got", subscriptions=["out/>"])
        url = f"mqtt://127.0.0.1:{there.mqtt_port}"
        with MachineProcess(tmp_path / "here", 2, {"node.name": "here"}) as here:
            keep_second(here)
            here.create_queue("q", subscriptions=["out/>"], home="here-2")
            here.create_queue("brought", subscriptions=["in/>"])
            created(here, "/bridges", {"name": "a", "remote_url": url, "outgoing": [{"topic": "none"}]})
            rules = {"outgoing": [{"queue": "q"}], "incoming": [{"remote_topic": "in/#", "qos": 1}]}
            created(here, "/bridges", {"name": "b", "remote_url": url, "retry_delay_s": 1, **rules})
            wait_until(
                lambda: here.metric("sluicegate_bridge_up", bridge="b", broker="here-2") == 1,
                within_s=WITHIN_S,
                what="the bridge",
            )
            confirmed = asyncio.run(publish(here.mqtt_port, "out/1", 0))

            here.settings["brokers"] = 1
            here.stop()
            asyncio.run(publish(there.mqtt_port, "in/1", 0))  # they wait in the session of the bridge
            here.start()
            kill_all_but_one_at_a_time(here)
            confirmed += asyncio.run(publish(here.mqtt_port, "out/1", COUNT))
            end_second(here)
            assert listed(here, "/bridges", "bridges") == ["a", "b"]
            wait_until(lambda: here.metric("sluicegate_bridge_up", bridge="b") == 1, within_s=WITHIN_S, what="bridge")
            confirmed += asyncio.run(publish(here.mqtt_port, "out/1", 2 * COUNT))
            wait_until(lambda: here.held_count("q") == 0, within_s=WITHIN_S, what="an empty queue")
            assert set(map(int, here.payloads("brought"))) == set(range(COUNT))
            assert set(confirmed) <= set(received(there))

            here.restart()
            assert here.broker_folders() == []
            assert listed(here, "/bridges", "bridges") == ["a", "b"]


def received(there: GatewayProcess) -> list[int]:
    """Consume all that lies in the queue there."""
    count = there.held_count("got")
    with PahoClient("reader") as reader:
        reader.connect(there.mqtt_port)
        reader.subscribe("$queue/got", 1)
        return [int(reader.next().payload) for _ in range(count)]


@pytest.mark.timeout(400)
def test_a_delivery_point_goes_on_at_the_broker_that_stays(tmp_path: Path) -> None:
    with served() as server, MachineProcess(tmp_path, 2) as machine:
        keep_second(machine)
        machine.create_queue("q", subscriptions=["out/>"], home="sluicegate-2")
        machine.create_queue("other")
        consumers = [{"name": "web", "remote_host": "127.0.0.1", "remote_port": server.port, "retry_delay_s": 1}]
        for name, queue in (("a", "other"), ("p", "q")):
            bindings = [{"queue": queue, "post_request_target": "/in"}]
            body = {"name": name, "queue_bindings": bindings, "rest_consumers": consumers}
            created(machine, "/rest-delivery-points", body)
        confirmed = asyncio.run(publish(machine.mqtt_port, "out/1", 0))
        machine.settings["brokers"] = 1
        machine.restart()
        kill_all_but_one_at_a_time(machine)
        confirmed += asyncio.run(publish(machine.mqtt_port, "out/1", COUNT))
        end_second(machine)
        assert listed(machine, "/rest-delivery-points", "rest_delivery_points") == ["a", "p"]
        confirmed += asyncio.run(publish(machine.mqtt_port, "out/1", 2 * COUNT))
        wait_until(lambda: machine.held_count("q") == 0, within_s=WITHIN_S, what="an empty queue")
        assert set(confirmed) <= {int(each.body) for each in server.requests}
