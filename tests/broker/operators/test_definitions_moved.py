"""Definitions of one broker, exported and applied to an empty one: clients find what they had, and log in as before."""

import base64
import functools
import hashlib
from pathlib import Path
from typing import Final

import httpx
import pytest
from argon2 import PasswordHasher

from sluicegate.protocols.security.scram import NAME, NAME_512, stored_text
from support.broker.protocol_clients import OK, Mqtt
from support.broker.running_broker import RunningBroker
from support.flow.scram import scram
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S

SETTINGS: Final = ("admin.enabled=true", "admin.port=0", "authentication.allow_anonymous=false")
pytestmark = pytest.mark.settings(*SETTINGS)
QUICK: Final = functools.partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
SALT: Final = b"salt"
PASSWORD: Final = "old-engine-7431"


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _of_rounds(rounds: int) -> str:
    """Return a hash of PBKDF2, as mosquitto 2 keeps it."""
    return f"$7${rounds}${_base64(SALT)}${_base64(hashlib.pbkdf2_hmac('sha512', PASSWORD.encode(), SALT, rounds))}"


# Of one password, in the forms in which brokers keep it.
HASHES: Final = {
    "argon2": QUICK().hash(PASSWORD),
    NAME: stored_text(PASSWORD, 4096, bytes),
    NAME_512: stored_text(PASSWORD, 4096, bytes, NAME_512),
    "mosquitto 1": f"$6${_base64(SALT)}${_base64(hashlib.sha512(PASSWORD.encode() + SALT).digest())}",
    "mosquitto 2": _of_rounds(101),
    "RabbitMQ": "RABBITMQ-SHA-256$" + _base64(SALT + hashlib.sha256(SALT + PASSWORD.encode()).digest()),
}


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have passwords be hashed in no time."""
    monkeypatch.setattr("sluicegate.gateway.provisioning.stored_users.PasswordHasher", QUICK)


def admin_of(broker: RunningBroker) -> httpx.AsyncClient:
    """Return a client of a broker's admin port."""
    port = broker.operator_ports.ports.servers["admin"].port
    return plain_async_client(f"http://127.0.0.1:{port}", timeout=DEADLINE_S)


async def comes_in(broker: RunningBroker, user: str, password: str) -> object:
    """Return what an MQTT client hears when it connects; it is gone again then."""
    client = Mqtt(broker)
    try:
        return await client.connect(user, password)
    finally:
        await client.leave()


async def test_clients_of_a_broker_log_in_at_another_one_with_their_old_passwords(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """By MQTT, and by SCRAM, for which the keys go with the hash. A restart keeps it all."""
    async with admin_of(broker) as admin:
        for path, body in (
            ("/queues", {"name": "orders", "subscriptions": ["orders/>"]}),
            ("/acl-profiles", {"name": "devices", "publish_topic_default_action": "allow"}),
            ("/users", {"name": "ada", "password": PASSWORD, "acl_profile": "devices"}),
        ):
            assert (await admin.post(path, json=body)).status_code == 201
        plain = (await admin.get("/definitions")).json()
        exported = (await admin.get("/definitions", params={"with_password_hashes": "true"})).json()
        events = (await admin.get("/events")).json()["events"]
    [ada] = exported["message_vpns"]["default"]["users"]
    assert ada["password_hash"].startswith("$argon2id$")
    assert plain["message_vpns"]["default"]["users"] == [{"name": "ada", "acl_profile": "devices"}]
    [told] = [each for each in events if each["event"] == "SYSTEM_PASSWORD_HASHES_EXPORT"]
    assert "anonymous from 127.0.0.1 exported the password hashes" in told["text"]
    assert ada["password_hash"] not in told["text"]
    async with RunningBroker(tmp_path / "other", SETTINGS) as other:
        async with admin_of(other) as admin:
            refused = await admin.post("/definitions", json=plain)
            assert [each["outcome"] for each in refused.json()["objects"]].count("refused") == 1
            applied = await admin.post("/definitions", json=exported)
            assert {each["outcome"] for each in applied.json()["objects"]} == {"created"}
            assert ada["password_hash"] not in applied.text
            again = await admin.get("/definitions", params={"with_password_hashes": "true"})
            assert again.json() == exported
        for _ in range(2):
            assert await comes_in(other, "ada", PASSWORD) == OK
            assert await comes_in(other, "ada", "wrong") != OK
            assert await comes_in(other, "ada", ada["password_hash"]) != OK
            assert await scram(other, PASSWORD) == "proven"
            await other.restart()


@pytest.mark.parametrize("form", HASHES)
async def test_a_user_is_made_with_a_hash_of_every_form(broker: RunningBroker, form: str) -> None:
    """A password replaces it with a hash and keys of ours; a hash replaces both, and no old key is left."""
    async with admin_of(broker) as admin:
        await admin.post("/users", json={"name": "eve", "password": "of-eve"})
        made = await admin.post("/users", json={"name": "ada", "password_hash": HASHES[form]})
        assert made.status_code == 201, made.text
        assert HASHES[form] not in made.text
        assert await comes_in(broker, "ada", PASSWORD) == OK
        for wrong in ("", "wrong", HASHES[form]):
            assert await comes_in(broker, "ada", wrong) != OK
        assert await scram(broker, PASSWORD) == ("proven" if form == NAME else "failed")
        assert await scram(broker, "") == "failed"
        exported = (await admin.get("/definitions", params={"with_password_hashes": "true"})).json()
        [ada, _] = exported["message_vpns"]["default"]["users"]
        assert ada["password_hash"] == HASHES[form]
        assert ("scram_secret" in ada) == form.startswith("SCRAM")
        await broker.restart()
    async with admin_of(broker) as admin:
        assert await comes_in(broker, "ada", PASSWORD) == OK
        assert (await admin.patch("/users/ada", json={"password": "new"})).status_code == 200
        assert await scram(broker, "new") == "proven"
        assert (await admin.patch("/users/ada", json={"password_hash": HASHES[form]})).status_code == 200
        assert await scram(broker, "new") == "failed"
        assert await comes_in(broker, "ada", PASSWORD) == OK


@pytest.mark.settings(*SETTINGS, "limits.login_memory_bytes_max=1MiB")
async def test_hashes_that_would_make_every_login_costly_are_refused(broker: RunningBroker) -> None:
    """By their memory, and by the number of their kinds. An account can change the only hash of its kind."""
    costly = PasswordHasher(time_cost=1, memory_cost=1025, parallelism=1).hash(PASSWORD)
    async with admin_of(broker) as admin:
        refused = await admin.post("/users", json={"name": "ada", "password_hash": costly})
        assert (refused.status_code, refused.json()["field"]) == (422, "password_hash")
        made = [
            (
                await admin.post("/users", json={"name": f"user-{rounds}", "password_hash": _of_rounds(rounds)})
            ).status_code
            for rounds in range(101, 111)
        ]
        assert made == [201] * 8 + [422] * 2
        assert (await admin.patch("/users/user-101", json={"password_hash": _of_rounds(99)})).status_code == 200
        assert (await admin.patch("/users/user-101", json={"password_hash": costly})).status_code == 422
        assert (await admin.post("/users", json={"name": "eve", "password": "of-eve"})).status_code == 201
        assert await comes_in(broker, "user-101", PASSWORD) == OK


@pytest.mark.parametrize(
    ("secrets", "field"),
    [
        ({"password_hash": HASHES["mosquitto 2"][:-8]}, "password_hash"),
        ({"password_hash": "engine"}, "password_hash"),
        ({"password_hash": HASHES["argon2"], "password": "engine"}, "password_hash"),
        ({"password_hash": HASHES["argon2"], "scram_secret": HASHES["argon2"]}, "scram_secret"),
        ({"scram_secret": HASHES[NAME], "password": "engine"}, "scram_secret"),
    ],
)
async def test_hashes_that_no_password_would_match_are_refused(
    broker: RunningBroker, secrets: dict[str, str], field: str
) -> None:
    async with admin_of(broker) as admin:
        refused = await admin.post("/users", json={"name": "ada", **secrets})
        assert (refused.status_code, refused.json()["field"]) == (422, field)
        document = {"version": 1, "message_vpns": {"default": {"users": [{"name": "ada", **secrets}]}}}
        wrong = await admin.post("/definitions", json=document)
        assert [each["path"] for each in wrong.json()["mistakes"]] == [f"/message_vpns/default/users/0/{field}"]
        assert not any(secret in answer.text for answer in (refused, wrong) for secret in secrets.values())
