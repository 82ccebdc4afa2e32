"""A log in a stream of three NATS servers: what they do is what the replicated log relies on."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from sluicegate.storage.replication.jetstream import JetStream, connected, stream_name
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.messages import Begin
from sluicegate.storage.replication.replica import Append, OwnershipLost, Record, Replica, Role, first_message
from sluicegate.storage.replication.stream import (
    READ_BYTES,
    StoredMessage,
    StreamFull,
    StreamRefused,
    StreamUnavailable,
)
from support.processes.nats import NatsCluster
from support.processes.nats_streams import NAMES, opened, stored, until_created
from support.storage.answers import WITHIN_S, answered

MEGABYTE = 1 << 20


@asynccontextmanager
async def stream(servers: NatsCluster, *, bytes_max: int = 64 << 20) -> AsyncIterator[JetStream]:
    """A stream of its own for a test."""
    async with opened(servers, f"broker {next(NAMES)}") as found:
        await until_created(found, bytes_max)
        yield found


async def read_on(stream: JetStream, after: int, wait_s: float) -> list[StoredMessage]:
    """Read, and again if the servers are not ready."""
    return await answered(partial(stream.read, after, wait_s))


async def test_an_append_is_stored_where_it_belongs_and_nowhere_else(servers: NatsCluster) -> None:
    async with stream(servers) as log:
        assert await stored(log, Append(0, b"one")) == 1
        assert await stored(log, Append(1, b"two")) == 2
        for misplaced in (Append(1, b"other"), Append(3, b"other"), Append(1, b"two")):  # the last is a second copy
            assert await answered(partial(log.append, misplaced)) is None
        assert [await answered(partial(log.at, sequence)) for sequence in (1, 2, 3)] == [b"one", b"two", None]
        assert (await answered(log.bounds))[:2] == (1, 2)


async def test_messages_are_read_in_order_and_waited_for(servers: NatsCluster) -> None:
    async with stream(servers) as log, opened(servers, log.broker) as other:
        assert await read_on(log, 0, 0.05) == []
        for number in range(20):
            await stored(log, Append(number, b"%d" % number * 50_000))
        read: list[tuple[int, bytes]] = []
        while len(read) < 20:
            read += await read_on(log, len(read), WITHIN_S)
        assert read == [(number + 1, b"%d" % number * 50_000) for number in range(20)]
        waiting = asyncio.create_task(read_on(log, 20, WITHIN_S))
        await asyncio.sleep(0)
        await stored(other, Append(20, b"later"))
        assert await waiting == [(21, b"later")]
        assert await read_on(log, 5, WITHIN_S) == [*read[5:], (21, b"later")]


async def test_a_reader_under_a_steady_load_asks_when_its_last_request_has_ended(servers: NatsCluster) -> None:
    """Else each request would stay open for its time, and its end be taken for that of a later one."""
    async with stream(servers) as log, opened(servers, log.broker) as other:
        asked: list[bytes] = []

        async def count(message: Msg) -> None:
            asked.append(message.data)

        watching = await other._client.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{log.name}.>", cb=count)
        through, reads_count = 0, 0
        while through < 200:
            await stored(other, Append(through, b"%d" % through))
            through += len(await read_on(log, through, WITHIN_S))
            reads_count += 1
        await watching.unsubscribe()
        assert 1 <= len(asked) < reads_count / 4


async def test_a_request_that_ends_by_its_bound_of_bytes_does_not_end_the_consumer(servers: NatsCluster) -> None:
    async with stream(servers) as log:
        count = 2 * READ_BYTES // MEGABYTE
        for number in range(2 * count):
            await stored(log, Append(number, b"%d" % (number % 10) * (MEGABYTE // 2)))
        through, consumers = 0, set()
        while through < 2 * count:
            through += len(await read_on(log, through, WITHIN_S))
            consumers.add(log._reader.next_subject())
        assert len(consumers) == 1


async def test_a_trim_deletes_what_is_before_it_and_a_late_one_nothing(servers: NatsCluster) -> None:
    async with stream(servers) as log:
        for number in range(10):
            await stored(log, Append(number, b"%d" % number))
        await answered(partial(log.trim, 7))
        await answered(partial(log.trim, 3))
        assert (await answered(log.bounds))[:2] == (7, 10)
        assert await answered(partial(log.at, 6)) is None
        assert [each.sequence for each in await read_on(log, 2, WITHIN_S)] == [7, 8, 9, 10]
        assert await stored(log, Append(10, b"next")) == 11


async def test_a_full_stream_refuses_and_takes_again_after_a_trim(servers: NatsCluster) -> None:
    async with stream(servers, bytes_max=1 << 20) as log:
        for end in range(10):
            await stored(log, Append(end, bytes(100_000)))
        with pytest.raises(StreamFull, match="maximum bytes exceeded"):
            await answered(partial(log.append, Append(10, bytes(100_000))))
        await answered(partial(log.trim, 10))
        assert await stored(log, Append(10, bytes(100_000))) == 11


async def test_a_stream_with_settings_that_lose_messages_is_told(servers: NatsCluster) -> None:
    async with stream(servers) as log:
        same = partial(log.differences, replica_count=3, bytes_max=64 << 20)
        assert await answered(same) == {}
        other = partial(log.differences, replica_count=5, bytes_max=1 << 20)
        assert await answered(other) == {"num_replicas": 3, "max_bytes": 64 << 20}
        with pytest.raises(StreamRefused, match="already in use"):
            await answered(partial(log.create, replica_count=3, bytes_max=1 << 20))


async def test_servers_that_are_away_are_told_from_a_refusal(servers: NatsCluster) -> None:
    with pytest.raises(StreamUnavailable, match=r"no NATS server at nats://127\.0\.0\.1:1 answers"):
        await connected(["nats://127.0.0.1:1"], within_s=0.5)
    client = await connected(servers.urls, WITHIN_S)
    missing = JetStream(client, "never made", answer_s=0.5)
    with pytest.raises(StreamUnavailable):
        await missing.append(Append(0, b"lost"))
    with pytest.raises(StreamRefused, match="stream not found"):
        await answered(missing.bounds)
    await client.close()


async def test_the_owner_is_fenced_by_the_next_one(servers: NatsCluster) -> None:
    async with stream(servers) as one, opened(servers, one.broker) as two:
        await stored(one, Append(0, first_message(Begin(7, "edge"), 0)))
        old, new = end_of(one, "a"), end_of(two, "b")
        await old.take_over(1)
        await old.append(b"first")
        await new.take_over(2)
        with pytest.raises(OwnershipLost, match="another replica has written message 4 of the log"):
            await old.append(b"lost")
        assert old.replica.role is Role.STANDBY
        await new.append(b"second" * 200_000)
        assert await records(one) == [b"first", b"second" * 200_000]


async def test_nothing_is_lost_or_doubled_while_servers_are_killed(servers: NatsCluster) -> None:
    """Each server in turn is killed and started again while an owner appends."""
    async with stream(servers) as messages:
        await stored(messages, Append(0, first_message(Begin(7, "edge"), 0)))
        log = end_of(messages, "a")
        await log.take_over(1)
        confirmed: list[bytes] = []
        enough = asyncio.Event()

        async def appends() -> None:
            while not enough.is_set():
                record = b"record %d" % len(confirmed)
                await log.append(record)
                confirmed.append(record)

        appending = asyncio.create_task(appends())
        for server in servers.servers:
            await more(confirmed, 20)
            server.kill()
            await more(confirmed, 20)
            server.start()
        await more(confirmed, 20)
        enough.set()
        await appending
        assert await records(messages) == confirmed


async def more(confirmed: list[bytes], number: int) -> None:
    """Wait until so many more records are confirmed."""
    wanted = len(confirmed) + number
    async with asyncio.timeout(WITHIN_S):
        while len(confirmed) < wanted:
            await asyncio.sleep(0.01)


def end_of(stream: JetStream, name: str, take: Callable[[Sequence[Record]], None] = lambda _: None) -> ReplicatedLog:
    """Return one replica's end of the log."""
    return ReplicatedLog(Replica(name, "0"), stream, wall_ms=lambda: 0, take=take, rng=random.Random(1))


async def records(stream: JetStream) -> list[bytes]:
    """Return all records, as a standby reads them."""
    found: list[bytes] = []
    standby = end_of(stream, "standby", lambda taken: found.extend([each.data for each in taken]))
    end = (await answered(stream.bounds)).last
    async with asyncio.timeout(WITHIN_S):
        while standby.replica.read_through < end:
            with contextlib.suppress(StreamUnavailable):
                await standby.read()
    return found


async def test_a_server_that_says_nothing_any_more_is_left(servers: NatsCluster) -> None:
    """As one whose machine has lost its power: its connections do not end."""
    async with stream(servers) as log:
        await stored(log, Append(0, b"0"))
        url = log._client.connected_url
        assert url is not None
        (silent,) = [each for each in servers.servers if each.port == url.port]
        silent.pause()
        try:
            assert await stored(log, Append(1, b"1")) == 2
        finally:
            silent.resume()


async def taken(client: Client, subject: str, count: int) -> list[bytes]:
    """Take messages of a consumer, as soon as the server of the connection knows the way to that."""
    inbox, found = client.new_inbox(), list[bytes]()
    arriving = await client.subscribe(inbox)
    async with asyncio.timeout(WITHIN_S):
        while len(found) < count:
            await client.publish(subject, b'{"batch": %d}' % (count - len(found)), reply=inbox)
            with contextlib.suppress(nats.errors.TimeoutError):
                while len(found) < count:
                    message = await arriving.next_msg(1.0)
                    if "Status" in (message.headers or {}):  # that there is no consumer
                        await asyncio.sleep(0.1)
                        break
                    found.append(message.data)
    return found


async def test_messages_that_went_to_a_lost_connection_are_read_again(servers: NatsCluster) -> None:
    async with stream(servers) as log, opened(servers, log.broker) as other:
        for number in range(3):
            await stored(log, Append(number, b"%d" % number))
        await answered(partial(log._reader._begin, 0))
        assert await taken(other._client, log._reader.next_subject(), 2) == [b"0", b"1"]
        assert [each.sequence for each in await read_on(log, 0, WITHIN_S)] == [1, 2, 3]


async def test_the_last_message_of_a_stream_is_read_though_it_went_to_a_lost_connection(servers: NatsCluster) -> None:
    """Nothing follows it that would tell, as when a replica takes over: it writes when it has read all."""
    async with stream(servers) as log:
        await stored(log, Append(0, b"one"))
        assert len(await read_on(log, 0, WITHIN_S)) == 1
        assert await read_on(log, 1, 0.05) == []  # a request is open
        await stored(log, Append(1, b"two"))
        async with asyncio.timeout(WITHIN_S):
            while not log._reader._arrived:
                await asyncio.sleep(0.01)
            log._reader._arrived.clear()  # as if it had not come
            while not (found := await read_on(log, 1, 0.05)):
                pass
        assert found == [StoredMessage(2, b"two")]


async def test_brokers_with_similar_names_have_streams_of_their_own(servers: NatsCluster) -> None:
    name = f"like {next(NAMES)}"
    names = [name, name.replace(" ", "_"), name.replace(" ", "."), name.replace(" ", "=20"), name + "\u00e9"]
    assert len({stream_name(each) for each in names}) == len(names)
    for each in names:
        async with opened(servers, each) as log:
            await until_created(log, 1 << 20)
            assert (await answered(log.bounds)).last == 0
            await stored(log, Append(0, each.encode()))
            assert [message.data for message in await read_on(log, 0, WITHIN_S)] == [each.encode()]
