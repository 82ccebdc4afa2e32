"""SCRAM-SHA-256 as a client of the flow protocol does it."""

import asyncio
from collections.abc import Callable

from scramp import ScramClient

from sluicegate.protocols.flow.codec.frames.session import AUTH_CHALLENGE, AUTH_DONE, AUTH_FAILED
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient


async def scram(broker: RunningBroker, password: str, *, meanwhile: Callable[[], object] = lambda: None) -> str:
    """Return how a SCRAM exchange of `ada` ends; something may happen between its two steps."""
    client = FlowClient(broker.flow_port)
    await client.connect()
    peer = ScramClient(["SCRAM-SHA-256"], "ada", password)
    challenge = await client.authenticate("SCRAM-SHA-256", peer.get_client_first().encode())
    assert challenge.state == AUTH_CHALLENGE
    peer.set_server_first((challenge.data or b"").decode())
    pending = meanwhile()
    if asyncio.iscoroutine(pending):
        await pending
    answer = await client.authenticate("", peer.get_client_final().encode())
    if answer.state == AUTH_DONE:
        peer.set_server_final((answer.data or b"").decode())  # raises unless the gateway has proven itself too
    client.cut()
    await client.ended()
    return {AUTH_DONE: "proven", AUTH_FAILED: "failed"}[answer.state]
