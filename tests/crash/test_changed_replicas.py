"""The replicas of a broker that serves clients are changed: one is added, and one is taken out."""

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from sluicegate.storage.replication.jetstream import connected
from sluicegate.storage.replication.trimming.holds import Holds
from support.http.plain import HTTP
from support.load.mqtt_clients import WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import REQUEST_S, wait_until
from support.processes.replicas import ASK_S, BROKER, TAKEN_OVER_S, ReplicaProcess, ReplicatedBroker
from support.storage.answers import answered

WITHIN_S = 60
# What operators define while the broker runs, by the path of its kind.
DEFINED: dict[str, dict[str, object]] = {
    "/queue-templates": {"name": "eu", "queue_name_filter": "eu/>"},
    "/client-profiles": {"name": "gate"},
    "/acl-profiles": {"name": "gate", "publish_topic_default_action": "allow"},
    "/users": {"name": "ada", "password": "a long secret", "client_profile": "gate", "acl_profile": "gate"},
    "/message-vpns": {"name": "sales"},
    "/links": {"name": "office"},
    "/bridges": {"name": "abroad", "remote_url": "mqtt://127.0.0.1:1", "enabled": False},
    "/rest-delivery-points": {"name": "hook", "enabled": False},
}

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(300)]


def asks(replica: ReplicaProcess, method: str, name: str, **parameters: str) -> httpx.Response:
    """Change the replicas, as an operator does at any of them."""
    return HTTP.request(method, f"{replica.admin_url}/cluster/replicas/{name}", params=parameters)


def waits_to_be_added(replica: ReplicaProcess) -> bool:
    with suppress(httpx.HTTPError):  # while its process is replaced
        return "sluicegate cluster add" in HTTP.get(f"{replica.admin_url}/health/ready", timeout=ASK_S).text
    return False


def defines_all(owner: ReplicaProcess) -> None:
    for path, settings in DEFINED.items():
        HTTP.post(owner.admin_url + path, json=settings, timeout=REQUEST_S).raise_for_status()


def tags(owner: ReplicaProcess) -> dict[str, str]:
    """Return what says which settings each object has."""
    places = [f"{path}/{settings['name']}" for path, settings in DEFINED.items()]
    answers = {place: HTTP.get(owner.admin_url + place, timeout=REQUEST_S).raise_for_status() for place in places}
    return {place: answer.headers["ETag"] for place, answer in answers.items()}


def held(broker: ReplicatedBroker) -> set[str]:
    """Return the replicas for which the log waits."""

    async def found() -> set[str]:
        client = await connected(broker.servers.urls, WITHIN_S)
        try:
            return {each.replica for each in await answered(Holds(client, BROKER).all)}
        finally:
            await client.close()

    return asyncio.run(found())


def test_a_replica_is_replaced_by_another_one_while_clients_publish(tmp_path: Path) -> None:
    publisher = WirePublisher("p", topic="load", keys=["a"], qos=1, window=10)
    with ReplicatedBroker(tmp_path) as broker, hung_up_at_the_end([publisher]):
        owner = broker.owner()
        leaving = broker.standbys()[-1]
        owner.create_queue("load", subscriptions=["load/>"])
        defines_all(owner)
        defined = tags(owner)
        publisher.connect(owner.ports["mqtt"])
        run_until([publisher], lambda: publisher.confirmed_count >= 50, within_s=WITHIN_S, what="confirmations")
        wait_until(lambda: leaving.name in held(broker), within_s=WITHIN_S, what="its hold")

        added = broker.add_process("d")
        wait_until(partial(waits_to_be_added, added), within_s=WITHIN_S, what="a replica that waits")
        assert asks(owner, "DELETE", owner.name).status_code == 409
        assert asks(added, "PUT", "d", before="a").status_code == 204
        broker.until_whole()
        assert next(iter(owner.knows())) == "d"

        assert asks(added, "DELETE", leaving.name).status_code == 204
        wait_until(partial(waits_to_be_added, leaving), within_s=WITHIN_S, what="a replica that waits")
        wait_until(lambda: leaving.name not in held(broker), within_s=WITHIN_S, what="no hold")
        broker.replicas.remove(leaving)
        try:
            wanted = publisher.confirmed_count + 50
            run_until([publisher], lambda: publisher.confirmed_count >= wanted, within_s=WITHIN_S, what="confirmations")
            publisher.publishing = False
            run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="the last confirmations")
            broker.until_whole()
            broker.hand_over("d")
            wait_until(added.is_owner, within_s=TAKEN_OVER_S, what="the added replica")
            assert tags(added) == defined
            assert added.held_count("load") == publisher.confirmed_count
            broker.until_whole()
        finally:
            broker.replicas.append(leaving)
