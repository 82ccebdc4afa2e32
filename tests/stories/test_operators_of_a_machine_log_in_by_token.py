"""Operators of a machine with two brokers log in by tokens, whose keys the supervisor fetches, and no broker does."""

import asyncio
from pathlib import Path

import pytest

from support.http.plain import HTTP
from support.http.web_server import WebServer
from support.network.tokens import AUDIENCE, ISSUER, TokenServer
from support.processes.gateway import wait_until
from support.processes.machine import MachineProcess

ANSWER_S = 30

pytestmark = [pytest.mark.slow]


def test_the_supervisor_fetches_the_keys_of_operators_once_for_all_brokers(tmp_path: Path) -> None:
    tokens = TokenServer(tmp_path)

    async def story() -> int:
        async with WebServer() as server:
            server.body = tokens.keys_text.encode()
            settings: dict[str, object] = {
                "admin.users": "[{name: ada, global_access_level: admin}]",
                "admin.oauth.jwks_url": f"http://127.0.0.1:{server.port}/keys",
                "admin.oauth.issuer": ISSUER,
                "admin.oauth.audience": AUDIENCE,
            }
            with_token = {"Authorization": f"Bearer {tokens.token()}"}
            machine = MachineProcess(tmp_path / "machine", 2, settings)
            await asyncio.to_thread(logs_in, machine, with_token)
            return len(server.requests)

    assert asyncio.run(story()) == 1


def logs_in(machine: MachineProcess, with_token: dict[str, str]) -> None:
    """Start the machine, and read its metrics with a token."""

    def ask(path: str) -> str:
        answer = HTTP.get(f"{machine.admin_url}{path}", headers=with_token, timeout=ANSWER_S)
        return answer.text if answer.status_code == 200 else ""

    with machine:
        wait_until(lambda: ask("/account") != "", within_s=ANSWER_S, what="a token that is accepted")
        lines = [each for each in ask("/metrics").splitlines() if each.startswith("sluicegate_operator_token_keys_")]
        assert [each for each in lines if 'broker="sluicegate' in each] == []
        assert any("fetches_total" in each and 'outcome="fetched"' in each and each.endswith(" 1.0") for each in lines)
        events = ask("/events")
        assert "SYSTEM_OAUTH_KEYS_UP" in events
