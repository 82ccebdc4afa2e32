"""Staged publishing on a whole node: invisible until the commit, then all of it, once."""

import pytest

from sluicegate.actors.messages.spool import WriteTables
from sluicegate.actors.messages.staging import AbortStaged, Stage, StagedCommitted
from sluicegate.messaging.bulk.staging import NOT_PUBLISHED, NOT_STAGED, TOO_MUCH_STAGED, StagingRefused
from sluicegate.storage.catalog.staging import Decision, decision_row
from sluicegate.storage.errors import StoreFailed, StoreFull
from sluicegate.storage.interface import CommitJob
from sluicegate.storage.records.page import PageRuns
from support.broker.inside_client import InsideClient, batch_on, until
from support.broker.message_usage import usage_of
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker


async def orders_of(broker: RunningBroker, **attributes: object) -> InsideClient:
    orders = InsideClient(broker, "orders")
    await orders.create(**attributes)
    return orders


async def test_nothing_is_seen_before_the_commit_and_the_named_attempts_after_it_in_the_order_of_parts(
    broker: RunningBroker,
) -> None:
    orders = await orders_of(broker)
    await orders.stage("job/7", 1, b"second")
    await orders.stage("job/7", 0, b"failed", attempt=0)
    await orders.stage("job/7", 0, b"first", attempt=1)
    await orders.stage("job/7", 1, b"third")
    assert (await orders.overview()).usage_count == 0

    committed = await orders.commit("job/7", (1, 0), (0, 1))

    assert committed == StagedCommitted(3, already=False)
    assert list((await orders.read())[0].values()) == [b"first", b"second", b"third"]
    overview = await orders.staging()
    assert (overview.open_count, overview.staged_bytes, overview.staged_pages_count) == (0, 0, 0)
    assert broker.node.services.spool_gate.usage_bytes == (await orders.overview()).usage_bytes


async def test_a_second_commit_of_the_same_name_does_nothing(broker: RunningBroker) -> None:
    orders = await orders_of(broker)
    await orders.stage("job/7", 0, b"x")
    await orders.commit("job/7", (0, 0))
    await broker.restart()

    assert (await orders.stage("job/7", 0, b"x", attempt=5)).already
    assert await orders.commit("job/7", (0, 5)) == StagedCommitted(1, already=True)
    assert len((await orders.read())[0]) == 1


async def test_an_abort_drops_what_is_staged_and_changes_nothing_after_the_commit(broker: RunningBroker) -> None:
    orders = await orders_of(broker)
    await orders.stage("job/7", 0, b"x")
    assert await broker.node.default.staging.ask(AbortStaged("job/7"))
    with pytest.raises(StagingRefused, match="part 0, attempt 0: it was never staged") as refused:
        await orders.commit("job/7", (0, 0))
    assert refused.value.code == NOT_STAGED

    await orders.stage("job/8", 0, b"y")
    await orders.commit("job/8", (0, 0))
    assert not await broker.node.default.staging.ask(AbortStaged("job/8"))
    assert list((await orders.read())[0].values()) == [b"y"]


async def test_a_commit_is_for_all_queues_or_for_none(broker: RunningBroker) -> None:
    """A publish to several queues is all or nothing."""
    orders = await orders_of(broker)
    shut = InsideClient(broker, "shut")
    await shut.create(ingress_enabled=False, reject_msg_to_sender_on_discard_behavior="always")
    await orders.stage("job/7", 0, b"x")
    await shut.stage("job/7", 1, b"y")

    with pytest.raises(StagingRefused, match="queue 'shut'") as refused:
        await orders.commit("job/7", (0, 0), (1, 0))

    assert refused.value.code == NOT_PUBLISHED
    assert (await orders.overview()).usage_count == 0
    assert await orders.commit("job/7", (0, 0)) == StagedCommitted(1, already=False), "what is staged stays"


@pytest.mark.parametrize("crashes", [True, False])
async def test_staged_rows_survive_restarts_and_crashes(broker: RunningBroker, crashes: bool) -> None:
    orders = await orders_of(broker, access_type="non-exclusive", partition_count=3)
    await orders.stage("job/7", 0, *[b"%d" % number for number in range(100)])
    await (broker.crash() if crashes else broker.restart())
    await orders.stage("job/7", 1, b"last")

    await orders.commit("job/7", (0, 0), (1, 0))

    found = [payload for number in range(3) for payload in (await orders.read(partition=number))[0].values()]
    assert sorted(found) == sorted([*[b"%d" % number for number in range(100)], b"last"])
    await broker.crash()
    assert (await orders.staging()).staged_pages_count == 0


async def test_an_empty_transaction_is_committed_by_name(broker: RunningBroker) -> None:
    """A Spark batch without rows has no parts."""
    orders = await orders_of(broker)
    assert await orders.commit("job/7") == StagedCommitted(0, already=False)
    assert await orders.commit("job/7") == StagedCommitted(0, already=True)


@pytest.mark.settings(
    "virtual_destinations.composite_topics=[{name: in, forward_to: [{queue: gathered}, {topic: VirtualTopic.O}]}]"
)
async def test_a_commit_decided_before_a_crash_waits_for_definitions_and_sessions(
    broker: RunningBroker,
) -> None:
    """All who want it get it, or nobody does: at the start it waits for those who have yet to be brought back."""
    away = await broker.connect_durable("away")
    await away.subscribe("VirtualTopic.O", qos=1)
    await away.leave()
    consumer_queue = "Consumer.A.VirtualTopic.O"
    await create(broker, consumer_queue)
    node = broker.node
    staged = Stage("job/7", 0, 0, [batch_on("in", [b"x"])])
    await node.default.staging.ask(staged)
    decision = decision_row(Decision("job/7", node.services.clock.wall_ms(), 1, [(0, 0)]))
    node.services.spool.inbox.post(WriteTables([decision], None, 0))

    await broker.crash()

    await shows(broker, lambda view: view.ready_count == 1, "gathered")
    await shows(broker, lambda view: view.ready_count == 1, consumer_queue)
    again = await broker.connect_durable("away")
    assert await again.payloads(1) == [b"x"]


@pytest.mark.settings("transactions.stage_ttl_s=60", "transactions.names_kept_s=60")
async def test_transactions_expire_and_names_are_forgotten(broker: RunningBroker) -> None:
    orders = await orders_of(broker)
    await orders.stage("old", 0, b"x")
    await orders.commit("done")
    broker.forward(120)

    async def is_forgotten() -> bool:
        overview = await orders.staging()
        return (overview.open_count, overview.committed_names_count, overview.expired_count) == (0, 0, 1)

    await until(is_forgotten, "the end of the old ones")


async def test_staged_messages_arrive_in_their_queues_at_the_commit(broker: RunningBroker) -> None:
    """Solace 4.9: maxTtl counts from the arrival on the endpoint; nobody sees what is staged, so it has not arrived."""
    orders = InsideClient(broker, "orders")
    await orders.create(respect_ttl_enabled=True, max_ttl=60)
    await orders.stage("job/7", 0, b"x")
    broker.forward(120)
    assert await orders.commit("job/7", (0, 0)) == StagedCommitted(1, already=False)
    broker.forward(30)

    assert (await orders.consume_all()).payloads() == [b"x"]


@pytest.mark.settings("transactions.staged_bytes_max=1MiB")
async def test_staged_bytes_are_limited(broker: RunningBroker) -> None:
    orders = await orders_of(broker)
    held = usage_of("orders/t", b"x" * 900_000)
    await orders.stage("a", 0, b"x" * 900_000)

    with pytest.raises(StagingRefused, match=f"{held} bytes in 1 pages are staged; allowed: 1048576") as refused:
        await orders.stage("b", 0, b"x" * 200_000)

    assert refused.value.code == TOO_MUCH_STAGED


async def test_a_store_that_cannot_be_read_now_delays_a_commit_and_loses_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = await orders_of(broker)
    await orders.stage("job/7", 0, b"x")
    store = broker.node.services.store
    read_page, fails = store.read_page, [True, True]

    def read_or_fail(partition_id: int, first_sequence: int) -> PageRuns:
        if fails and fails.pop():
            raise StoreFailed("input/output error")
        return read_page(partition_id, first_sequence)

    monkeypatch.setattr(store, "read_page", read_or_fail)

    assert await orders.commit("job/7", (0, 0)) == StagedCommitted(1, already=False)
    assert list((await orders.read())[0].values()) == [b"x"]


async def test_a_store_that_refuses_the_end_of_a_transaction_keeps_nothing_of_it_in_the_end(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages went with a later commit, but not their rows: the next start reported what was published as lost."""
    orders = await orders_of(broker)
    await orders.stage("job/7", 0, b"x")
    store = broker.node.services.store
    commit, refused = store.commit, list[CommitJob]()

    def refuse_once(job: CommitJob) -> int:
        if any(write.value is None for write in job.table_writes) and not refused:
            refused.append(job)
            raise StoreFull("disk", "no room")
        return commit(job)

    monkeypatch.setattr(store, "commit", refuse_once)
    await orders.commit("job/7", (0, 0))
    assert len(refused) == 1
    await until(lambda: not broker.node.services.spool_gate.blocked, "the store has room again")
    await broker.restart()
    assert list((await orders.read())[0].values()) == [b"x"]


async def test_staging_is_refused_when_it_could_not_be_written_and_leaves_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page and row are written together, or neither is."""
    orders = await orders_of(broker)
    store = broker.node.services.store
    commit, refused = store.commit, list[CommitJob]()

    def refuse_the_page(job: CommitJob) -> int:
        if job.staged_pages:
            refused.append(job)
            raise StoreFailed("input/output error")
        return commit(job)

    monkeypatch.setattr(store, "commit", refuse_the_page)
    with pytest.raises(StagingRefused, match="input/output error"):
        await orders.stage("job/7", 0, b"x")

    assert [len(job.table_writes) for job in refused] == [1]
    assert (await orders.staging()).staged_pages_count == 0
    await until(lambda: not broker.node.services.spool_gate.blocked, "the store has room again")
    await broker.restart()
    assert (await orders.staging()).staged_pages_count == 0
