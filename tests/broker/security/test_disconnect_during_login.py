"""Clients that leave while their password is checked: nothing is opened or kept in their name."""

import asyncio

import pytest

from sluicegate.protocols.amqp.codec.frames import frame, sasl_frame
from sluicegate.protocols.amqp.codec.performatives import INIT, Open
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.amqp.types.values import AmqpValue, Symbol
from support.amqp.client import AMQP_HEADER, SASL_HEADER, AmqpClient
from support.broker.blocked_sign_in import hold_sign_ins
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S
from support.network.closing_stream import open_closing


@pytest.mark.accounts(ada="engine")
async def test_a_container_that_left_before_it_was_let_in_is_not_connected(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.4.1: a client may send its open at once. Who wants to be the only connection of its container can come."""
    sign_in = hold_sign_ins(broker, monkeypatch)
    init: list[AmqpValue] = [Symbol("PLAIN"), b"\0ada\0engine"]
    _, writer = await open_closing(broker.amqp_port)
    writer.write(SASL_HEADER + sasl_frame(encode_composite(INIT, init)) + AMQP_HEADER + frame(0, Open("c").encode()))
    async with asyncio.timeout(DEADLINE_S):
        await sign_in.begun.wait()
        writer.transport.abort()
        while broker.node.amqp.open_connections():
            await asyncio.sleep(0.01)
    sign_in.may_end.set()
    sole = ["sole-connection-for-container"]
    client = await AmqpClient.open(broker.amqp_port, "c", desired=sole, account=("ada", "engine"))
    answer = await client.awaited(Open)
    assert answer.properties is not None
    assert answer.properties.symbol("amqp:connection-establishment-failed") is None
    await client.close()
