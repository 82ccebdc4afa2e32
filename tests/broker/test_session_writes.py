"""What a restart must not forget of a session reaches the store in the right order (section 4.3.3)."""

import asyncio

from actors.cell import ActorCell
from actors.data_messages import Confirmed
from actors.loop_actor import LoopActor
from actors.supervision import ONE_CONNECTION
from messaging.batch import EXACTLY_ONCE, MessageBatch
from messaging.publication import Publication
from protocols.mqtt.session import Session
from protocols.mqtt.session_writes import SessionWrites
from raw_client import DEADLINE_S
from running_broker import RunningBroker


class Writer(LoopActor):
    """Stands where a connection would: the spool's confirmations come to it."""

    def __init__(self, cell: ActorCell, broker: RunningBroker) -> None:
        super().__init__(cell)
        self.writes = SessionWrites(cell, broker.node.mqtt.vpns.default, Session("exact", expiry_s=60))

    def on_receive(self, message: object) -> None:
        assert isinstance(message, Confirmed)
        self.writes.confirmed(message.token)


async def test_packet_ids_are_stored_no_earlier_than_their_message(broker: RunningBroker) -> None:
    """[4.3.3-10]: ids alone would let it come twice, as its publisher, not confirmed, sends it again after a crash.

    A publish to several partitions is stored when all of them have numbered it; one may have delivered it before.
    """
    runtime = broker.node.runtime
    cell = runtime.spawn(lambda cell: Writer(cell, broker), kind="test", name="writer", policy=ONE_CONNECTION)
    batch = MessageBatch(
        topic="t",
        topics=None,
        payloads=[b"everywhere"],
        headers=None,
        qos=EXACTLY_ONCE,
        retain=False,
        publisher="p",
        received_ms=0,
        payload_bytes=10,
    )
    publication = Publication(batch, publisher=None, token=0, partitions_count=2)
    publication.sequenced(1, 1, None)
    written: list[str] = []
    cell.actor.writes.before_exactly_once(lambda: written.append("first"), publication)
    cell.actor.writes.before_exactly_once(lambda: written.append("second"), None)
    other = await broker.connect_durable("other")
    for topic in ("a", "b"):  # each answered after a commit
        await other.subscribe(topic)
    assert written == []

    publication.sequenced(2, 1, None)

    async with asyncio.timeout(DEADLINE_S):
        while len(written) < 2:
            await asyncio.sleep(0.01)
    assert written == ["first", "second"]


async def test_a_client_that_subscribes_again_to_what_it_had_waits_for_no_commit(broker: RunningBroker) -> None:
    """[4.1.0-1]: the store has its session already, and what has it keeps through a restart."""
    client = await broker.connect_durable("again")
    await client.subscribe("a", "b")
    spool = broker.node.spool.actor
    before = spool.commits_count
    assert await client.subscribe("a", "b") == [0, 0]
    assert spool.commits_count == before
    await client.subscribe(("a", 1))
    assert spool.commits_count > before
