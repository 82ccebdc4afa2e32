"""Operator accounts on a whole node: changes while it runs, and the audit log of their actions."""

import asyncio
import json
from pathlib import Path
from typing import Final

import httpx
import pytest

from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.sections.observability import Log
from sluicegate.gateway.observability.logs import set_up_logging
from sluicegate.messaging.observability.events import SYSTEM_ADMIN_COMMAND
from support.broker.running_broker import RunningBroker
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S

PASSWORD: Final = "correct-horse"
LOOPBACK: Final = "127.0.0.1"


def settings(*users: str) -> tuple[str, ...]:
    """Return the settings of an admin port with these accounts."""
    return ("admin.enabled=true", "admin.port=0", f"admin.users=[{', '.join(users)}]")


def user(folder: Path, name: str, level: str) -> str:
    """Return an account whose password stands in a file."""
    file = folder / f"{name}.operator"
    file.write_text(PASSWORD)
    return f"{{name: {name}, password_file: {file}, global_access_level: {level}}}"


def client(broker: RunningBroker, name: str = "", password: str = PASSWORD) -> httpx.AsyncClient:
    return plain_async_client(
        f"http://127.0.0.1:{broker.operator_ports.ports.servers['admin'].port}",
        auth=httpx.BasicAuth(name, password) if name else None,
        timeout=DEADLINE_S,
    )


async def hears(broker: RunningBroker, name: str, password: str = PASSWORD) -> int:
    """Return the status of a question that any account may ask."""
    async with client(broker, name, password) as operator:
        return (await operator.get("/queues")).status_code


async def test_where_something_was_made_is_said_with_its_message_vpn(tmp_path: Path) -> None:
    """RFC 9110, 10.2.2: `Location` leads to what was made; the same name in another message VPN is something else."""
    ports = ("admin.enabled=true", "admin.port=0", "vpns.sales.enabled=true")
    made: dict[str, dict[str, object]] = {
        "/queues": {"name": "eu/orders"},
        "/queue-templates": {"name": "t", "queue_name_filter": "tmp/>"},
        "/users": {"name": "ada", "password": PASSWORD},
        "/client-profiles": {"name": "slow"},
        "/rest-delivery-points": {"name": "billing"},
    }
    async with RunningBroker(tmp_path / "data", ports) as broker, client(broker) as operator:
        for path, body in made.items():
            answer = await operator.post(path, params={"vpn": "sales"}, json=body)
            assert answer.status_code == 201, answer.text
            assert (await operator.get(answer.headers["location"])).status_code == 200, path
        answer = await operator.post("/queues", json={"name": "q"})
        assert answer.headers["location"] == "/queues/q"


async def test_a_body_that_ends_too_soon_is_no_mistake_of_the_gateway(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Who is interrupted while sending one is told of in the audit log, and nobody is alarmed."""
    ports = ("admin.enabled=true", "admin.port=0")
    async with RunningBroker(tmp_path / "data", ports) as broker:
        record = broker.node.services.runtime.events.record
        _, writer = await asyncio.open_connection("127.0.0.1", broker.operator_ports.ports.servers["admin"].port)
        head = (
            "POST /queues HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        )
        writer.write(f'{head}{{"name": '.encode())
        await writer.drain()
        writer.close()
        async with asyncio.timeout(DEADLINE_S):
            while SYSTEM_ADMIN_COMMAND.name not in record.counts:
                await asyncio.sleep(0.01)
        (told,) = [event for _, event in record.recent(0, 100) if event.kind is SYSTEM_ADMIN_COMMAND]
        assert (told.details or {})["status"] == "400"
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


async def test_accounts_of_operators_are_those_of_the_latest_configuration(tmp_path: Path) -> None:
    """A reload brings, changes and takes accounts; with the next request, on connections that are open too."""
    ada, bob = (user(tmp_path, name, "read-write") for name in ("ada", "bob"))
    async with RunningBroker(tmp_path / "data", settings(ada)) as broker, client(broker, "ada") as operator:
        assert (await operator.post("/queues", json={"name": "q"})).status_code == 201
        assert await hears(broker, "") == 401
        assert await hears(broker, "bob") == 401
        await broker.node.reload(load(None, settings=(*broker.settings, *settings(ada.replace("write", "only"), bob))))
        assert (await operator.delete("/queues/q")).status_code == 403
        assert await hears(broker, "bob") == 200
        await broker.node.reload(load(None, settings=(*broker.settings, *settings(bob))))
        assert (await operator.get("/queues")).status_code == 401


async def test_a_password_file_that_changes_is_in_force(tmp_path: Path) -> None:
    """Orchestrators rotate secrets by writing files; nobody has to say so."""
    async with RunningBroker(tmp_path / "data", settings(user(tmp_path, "ada", "read-only"))) as broker:
        assert await hears(broker, "ada") == 200
        (tmp_path / "ada.operator").write_text("battery-staple\n")
        broker.node.watched_files.look()
        assert await hears(broker, "ada") == 401
        assert await hears(broker, "ada", "battery-staple") == 200


async def test_accounts_of_clients_are_none_of_operators(tmp_path: Path) -> None:
    """Whoever may publish may not administer, also under the same name; who guesses here does not hold up clients."""
    operator = user(tmp_path, "root", "admin")
    async with RunningBroker(tmp_path / "data", settings(operator), {"ada": "engine"}) as broker:
        for _ in range(5):
            assert await hears(broker, "ada", "engine") == 401
        assert not broker.node.services.attempts.must_queue(LOOPBACK, "ada", broker.node.services.clock.now_ms())
        await broker.connect(level=5, user_name="ada", password=b"engine")


@pytest.mark.parametrize("with_accounts", [True, False])
async def test_the_audit_log_has_every_change_by_operators(tmp_path: Path, with_accounts: bool) -> None:
    """docs/operate/security.md, audit log: account, operation, path and result, and never what was sent."""
    file = tmp_path / "audit.jsonl"
    accounts = (user(tmp_path, "ada", "read-write"),) if with_accounts else ()
    set_up_logging(Log(audit_file=file))
    try:
        async with RunningBroker(tmp_path / "data", settings(*accounts)) as broker:
            async with client(broker, "ada") as operator:
                await operator.post("/users", json={"name": "device", "password": "the-secret"})
                await operator.get("/users")
                await operator.delete("/users/nobody")
            if with_accounts:
                assert await hears(broker, "ada", "my guess") == 401
            async with asyncio.timeout(DEADLINE_S):
                while len(file.read_text().splitlines()) < (4 if with_accounts else 3):
                    await asyncio.sleep(0.01)
    finally:
        set_up_logging(Log())
    lines = [json.loads(each) for each in file.read_text().splitlines()]
    made, deleted = [each for each in lines if each["event"] == "SYSTEM_ADMIN_COMMAND"]
    who = "ada" if with_accounts else ""
    assert (made["account"], made["operation"], made["path"], made["status"]) == (who, "create_user", "/users", "201")
    assert (deleted["account"], deleted["operation"], deleted["status"]) == (who, "delete_user", "404")
    (read,) = [each for each in lines if each["event"] == "SYSTEM_ADMIN_QUERY"]
    assert (read["account"], read["operation"], read["method"], read["status"]) == (who, "users", "GET", "200")
    denied = [each["account"] for each in lines if each["event"] == "SYSTEM_AUTHENTICATION_SESSION_DENIED"]
    assert denied == (["ada"] if with_accounts else [])
    assert not any(each in file.read_text() for each in ("the-secret", PASSWORD, "my guess"))
