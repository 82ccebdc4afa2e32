"""Staged publishing over the flow protocol: rows in columns, and one commit that publishes all of them once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sluicegate.messaging.clients.rights import TRANSACTION_OF_ANOTHER
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.columns import ColumnWriter
from sluicegate.protocols.flow.codec.frames.stage import write_stage
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient, rows_of
from support.flow.client import Refused


async def test_only_the_attempts_that_are_named_are_published_in_the_order_of_their_parts(
    broker: RunningBroker,
) -> None:
    """Flow: staged publishing. Nothing is seen before the commit, and nothing comes twice."""
    await create(broker, subscriptions=["a/>"])
    async with BulkClient(broker.flow_port) as client:
        assert (await client.stages("t", 1, rows_of(["a/1"] * 2, [b"3", b"4"]), 2)).messages_count == 2
        await client.stages("t", 0, rows_of(["a/1"], [b"wrong"]), 1)
        await client.stages("t", 0, rows_of(["a/1", "a/2"], [b"1", b"2"]), 2, attempt=1)
        assert (await shown(broker)).ready_count == 0

        done = await client.commits("t", (0, 1), (1, 0))

        assert (done.messages_count, done.already) == (4, False)
        assert await client.reads() == [b"1", b"2", b"3", b"4"]
        again = await client.commits("t", (0, 1), (1, 0))
        assert (again.messages_count, again.already) == (4, True)
        assert (await client.stages("t", 2, rows_of(["a/1"], [b"5"]), 1)).already
        assert (await client.aborts("t")).already
        assert (await shown(broker)).ready_count == 4


async def test_staged_rows_can_be_committed_after_a_restart(broker: RunningBroker) -> None:
    """Flow: staged publishing. The answer to STAGE means that it is on the disk."""
    await create(broker)
    async with BulkClient(broker.flow_port) as client:
        await client.stages("t", 0, rows_of(["q"] * 3, [b"1", b"2", b"3"]), 3, to_queues=True)
    await broker.restart()
    async with BulkClient(broker.flow_port) as client:
        assert (await client.commits("t", (0, 0))).messages_count == 3
        assert await client.reads() == [b"1", b"2", b"3"]


async def test_an_aborted_transaction_leaves_nothing(broker: RunningBroker) -> None:
    """Flow: staged publishing."""
    await create(broker)
    async with BulkClient(broker.flow_port) as client:
        await client.stages("t", 0, rows_of(["q"], [b"1"]), 1, to_queues=True)
        assert not (await client.aborts("t")).already
        with pytest.raises(Refused) as refusal:
            await client.commits("t", (0, 0))
        assert refusal.value.error.code == codes.NOT_FOUND


async def test_a_staged_row_says_what_a_publish_could_say(broker: RunningBroker) -> None:
    """Flow: columns of STAGE. Each column comes out of ROWS as it went into STAGE."""
    await create(broker)
    columns = ColumnWriter()
    columns.put_values(c.TOPIC, [b"q", b"q"])
    columns.put_values(c.PAYLOAD, [b"1", b""])
    columns.put_optional(c.PARTITION_KEY, [None, b"k"])
    columns.put(c.PRIORITY, [bytes([4, 9])])
    columns.put(c.FLAGS, [bytes([0, 0x0F])])
    columns.put_numbers(c.EXPIRY_MS, [0, 3_600_000])
    columns.put_numbers(c.TIMESTAMP_MS, [5, 0])
    columns.put_optional(c.MESSAGE_ID, [b"m", None])
    columns.put_optional(c.CORRELATION, [b"\xff", None])
    columns.put_optional(c.REPLY_TO, [None, b"a/b"])
    columns.put_optional(c.CONTENT_TYPE, [b"text/plain", None])
    columns.put_map(c.PROPERTIES, [0, 3], [b"i", b"t", b"b"], bytes([3, 6, 7]), [b"-7", b"x", b"/w=="])
    async with BulkClient(broker.flow_port, name="job") as client:
        await client.stages("t", 0, columns, 2, to_queues=True)
        await client.commits("t", (0, 0))
        (chunk,) = await client.rest((await client.begins_to_read(columns=c.ALL)).flow_id)
        flow_id = await client.binds("q")
        first, second = await client.receives_in_all(2, flow_id)

    rows = chunk.columns
    assert rows.values(c.PUBLISHER) == [b"job", b"job"]
    assert rows.optional_values(c.PARTITION_KEY) == [None, b"k"]
    assert (rows.numbers(c.PRIORITY), rows.numbers(c.FLAGS)) == ([4, 9], [0, 15])
    assert rows.numbers(c.EXPIRY_MS)[0] == 0
    assert 0 < rows.numbers(c.EXPIRY_MS)[1] - broker.clock.wall_ms() <= 3_600_000
    assert rows.numbers(c.TIMESTAMP_MS) == [5, 0]
    assert rows.optional_values(c.MESSAGE_ID) == [b"m", None]
    assert rows.optional_values(c.CORRELATION) == [b"\xff", None]
    assert rows.optional_values(c.REPLY_TO) == [None, b"a/b"]
    assert rows.optional_values(c.CONTENT_TYPE) == [b"text/plain", None]
    assert first.headers is not None
    assert second.headers is not None
    assert first.headers.message_id == "m"
    assert second.headers.user_properties == [("i", -7), ("t", "x"), ("b", b"\xff")]


def unordered() -> ColumnWriter:
    """Return columns whose offsets go back."""
    columns = rows_of(["q", "q"], [b"", b"x"])
    broken = ColumnWriter()
    broken.put_values(c.TOPIC, [b"q", b"q"])
    broken.put(c.PAYLOAD, [b"\0\0\0\0\2\0\0\0\1\0\0\0", b"x"])
    assert len(broken.encoded()) == len(columns.encoded())
    return broken


def with_priority(priority: int) -> ColumnWriter:
    columns = rows_of(["t", "t"], [b"", b""])
    columns.put(c.PRIORITY, [bytes([4, priority])])
    return columns


@pytest.mark.parametrize(
    ("columns", "code", "text"),
    [
        (rows_of(["a", "a/+"], [b"", b""]), codes.TOPIC_INVALID, "row 1"),
        (rows_of(["$queue/q", "a"], [b"", b""]), codes.TOPIC_INVALID, "row 0"),
        (unordered(), codes.MALFORMED, "from 2 to 1"),
        (with_priority(10), codes.MALFORMED, "row 1 with priority 10"),
    ],
    ids=["no topic", "a topic of the gateway", "offsets", "priority"],
)
async def test_one_row_that_cannot_be_published_refuses_the_request(
    broker: RunningBroker, columns: ColumnWriter, code: int, text: str
) -> None:
    """Flow: staged publishing. Nothing of it is kept, and the connection goes on."""
    async with BulkClient(broker.flow_port) as client:
        with pytest.raises(Refused) as refusal:
            await client.stages("t", 0, columns, 2)
        assert refusal.value.error.code == code
        assert text in refusal.value.error.text
        with pytest.raises(Refused) as refusal:
            await client.commits("t", (0, 0))
        assert refusal.value.error.code == codes.NOT_FOUND


async def test_a_queue_that_is_not_there_refuses_the_commit(broker: RunningBroker) -> None:
    """Flow: staged publishing. What is staged stays, so that the commit can be tried again."""
    await create(broker)
    async with BulkClient(broker.flow_port) as client:
        await client.stages("t", 0, rows_of(["q"], [b"1"]), 1, to_queues=True)
        await client.stages("t", 1, rows_of(["other"], [b"2"]), 1, to_queues=True)
        with pytest.raises(Refused) as refusal:
            await client.commits("t", (0, 0), (1, 0))
        assert refusal.value.error.code == codes.NOT_PUBLISHED
        assert "other" in refusal.value.error.text
        assert (await shown(broker)).ready_count == 0

        await create(broker, "other")
        assert (await client.commits("t", (0, 0), (1, 0))).messages_count == 2


async def test_stages_without_answer_are_so_many(broker: RunningBroker) -> None:
    """Flow: bulk. Each holds its rows until they are on the disk."""
    async with BulkClient(broker.flow_port) as client:
        columns = rows_of(["a"], [bytes(1000)])
        data = columns.encoded()
        client.send(  # at once: what is answered before the next is read holds nothing
            b"".join(
                [
                    write_stage(1000 + part, "t", part, 0, to_queues=False, count=1, columns=columns.columns, data=data)
                    for part in range(5)
                ]
            )
        )
        with pytest.raises(Refused) as refusal:
            await client.commits("none")
        assert (refusal.value.error.request_id, refusal.value.error.code) == (1004, codes.TOO_MANY)


@asynccontextmanager
async def writer(broker: RunningBroker, user: str, password: str) -> AsyncIterator[BulkClient]:
    client = BulkClient(broker.flow_port, name=user)
    await client.connect()
    await client.authenticate("PLAIN", f"\0{user}\0{password}".encode())
    yield client
    await client.close()


@pytest.mark.accounts(ada="a", bob="b")
async def test_a_transaction_is_its_users_also_after_a_restart(broker: RunningBroker) -> None:
    """Else who knows its name ends it, or commits nothing under it, and its writer believes that all is published."""
    await create(broker, subscriptions=["t"])
    for restarts, commits in ((False, False), (True, False), (False, True), (True, True)):
        if restarts:
            await broker.restart()
        async with writer(broker, "ada", "a") as ada, writer(broker, "bob", "b") as bob:
            if commits:
                await ada.commits("job/7", (0, 0))
            elif not restarts:
                await ada.stages("job/7", 0, rows_of(["t"], [b"x"]), 1)
            for request in (
                bob.stages("job/7", 0, rows_of(["t"], [b"y"]), 1),
                bob.commits("job/7"),
                bob.aborts("job/7"),
            ):
                with pytest.raises(Refused) as refusal:
                    await request
                assert refusal.value.error.code == codes.PERMISSION_DENIED
    async with writer(broker, "ada", "a") as ada:
        assert (await ada.commits("job/7", (0, 0))).already
    assert (await shown(broker)).ready_count == 1
    assert broker.node.default.clients.denials.counts == {TRANSACTION_OF_ANOTHER: 3}
