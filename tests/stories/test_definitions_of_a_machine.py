"""A document is applied to a machine with two brokers as to one: what all have is made at all, a queue at one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import support.mqtt.packets as mqtt
from support.http.plain import plain_client
from support.mqtt.raw_client import RawClient
from support.processes.machine import MachineProcess

ANSWER_S = 60
CONNECTIONS = 8  # they are spread over both brokers

pytestmark = [pytest.mark.slow]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[MachineProcess]:
    with MachineProcess(tmp_path, 2, {"authentication.allow_anonymous": "false"}) as running:
        yield running


@pytest.fixture
def admin(machine: MachineProcess) -> Iterator[httpx.Client]:
    with plain_client(machine.admin_url, timeout=ANSWER_S) as client:
        yield client


def applied(admin: httpx.Client, document: object, **options: str) -> dict[str, str]:
    """Return what became of each object of a document."""
    answer = admin.post("/definitions", json=document, params=options).raise_for_status()
    return {each["name"]: each["outcome"] for each in answer.json()["objects"]}


async def logins(machine: MachineProcess, password: str) -> set[int]:
    """Return the reason codes of clients that log in as `ada`."""
    codes: set[int] = set()
    for number in range(CONNECTIONS):
        client = await RawClient.open(machine.mqtt_port, 5)
        client.send(mqtt.connect(f"device-{number}", level=5, user_name="ada", password=password.encode()))
        codes.add(mqtt.connack(await client.packet(), 5).reason_code)
        await client.vanish()
    return codes


def test_a_document_makes_of_two_brokers_what_it_makes_of_one(machine: MachineProcess, admin: httpx.Client) -> None:
    queues = [f"orders/{number}" for number in range(4)]
    of_default = {
        "queues": [{"name": name} for name in queues],
        "acl_profiles": [{"name": "devices", "publish_topic_default_action": "allow"}],
        "users": [{"name": "ada", "password": "old-engine", "acl_profile": "devices"}],
    }
    document = {
        "version": 1,
        "message_vpns": {"default": of_default, "sales": {"settings": {}, "queues": [{"name": "leads"}]}},
    }
    names = {*queues, "devices", "ada", "sales", "leads"}
    assert applied(admin, document, dry_run="true") == dict.fromkeys(names, "created")
    assert applied(admin, document) == dict.fromkeys(names, "created")
    assert applied(admin, document) == dict.fromkeys(names, "unchanged")
    exported = admin.get("/definitions", params={"with_password_hashes": "true"}).raise_for_status().json()
    assert [each["name"] for each in exported["message_vpns"]["default"]["queues"]] == queues
    [ada] = exported["message_vpns"]["default"]["users"]
    homes = {each["broker"] for each in admin.get("/queues").json()["queues"]}
    assert len(homes) == 2

    # Back from the export, with the hash: each broker gets the same one.
    assert applied(admin, {"version": 1, "message_vpns": {"default": {"users": []}}}, prune="true") == {
        "ada": "deleted"
    }
    assert applied(admin, exported)["ada"] == "created"
    again = admin.get("/definitions", params={"with_password_hashes": "true"}).json()
    assert again["message_vpns"]["default"]["users"] == [ada]
    assert asyncio.run(logins(machine, "old-engine")) == {0}
    events = [each["event"] for each in admin.get("/events").json()["events"]]
    assert events.count("SYSTEM_PASSWORD_HASHES_EXPORT") == 2
