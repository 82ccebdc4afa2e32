"""A request that fails over an internal error."""

import asyncio
from typing import NoReturn

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.security.authentication import Authenticator
from support.broker.running_broker import RunningBroker


@pytest.mark.parametrize("waits", [False, True])
async def test_a_request_that_fails_costs_its_client_only(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Goal 2: one client harms nobody else, whether the request failed at once or after it had waited."""
    broker.ignores_violations()

    async def fails(*_: object, **__: object) -> NoReturn:
        if waits:
            await asyncio.to_thread(int, "1")
        raise ValueError("who is this?")

    monkeypatch.setattr(Authenticator, "client", fails)
    other = await broker.connect("other")
    client = await broker.open()
    client.send(mqtt.connect("unlucky", user_name="somebody", password=b""))
    await client.is_closed()
    await other.round_trip()
    assert "a request of client" in caplog.text
    assert "who is this?" in caplog.text
    caplog.clear()
