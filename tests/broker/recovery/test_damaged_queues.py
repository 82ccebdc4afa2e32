"""What becomes of queues when some of what the store has of them cannot be read: the rest is served."""

import pytest

from sluicegate.storage.catalog.queues import COUNTER_ROW
from sluicegate.storage.environment.databases import PARTITION_KEY
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.storage.spool_file import flip_raw


@pytest.fixture(autouse=True)
def expect_the_damage(caplog: pytest.LogCaptureFixture) -> None:
    """The node tells of it, as an error."""
    caplog.handler.addFilter(lambda record: "set aside" not in record.getMessage())


async def test_a_queue_gets_no_partition_of_another_when_the_count_of_partitions_is_lost(
    broker: RunningBroker,
) -> None:
    """Two queues on one partition of the store would have each other's messages after the next start."""
    await create(broker, "old", subscriptions=["old"])
    await (await broker.connect()).publish("old", b"of the old one")
    await broker.all_vanish()
    await broker.stop()
    flip_raw(broker.config.data.path, "catalog", COUNTER_ROW, -1)
    await broker.start()

    await create(broker, "new", subscriptions=["new"])
    await (await broker.connect()).publish("new", b"of the new one")
    await broker.restart()

    for name in ("old", "new"):
        client = await broker.connect(level=5)
        await client.subscribe(f"$queue/{name}", qos=1)
        assert (await client.message()).payload == f"of the {name} one".encode()
        await client.is_quiet()


async def test_a_queue_goes_on_without_the_place_of_its_partition(broker: RunningBroker) -> None:
    """What was delivered is not known, so it may come again, and says so; so does what comes after the next crash."""
    await create(broker, subscriptions=["t"])
    await (await broker.connect()).publish("t", b"before")
    await broker.all_vanish()
    await broker.stop()
    flip_raw(broker.config.data.path, "cursors", PARTITION_KEY.pack(1), -1)
    await broker.start()
    await (await broker.connect()).publish("t", b"after")
    await broker.crash()

    client = await broker.connect(level=5)
    await client.subscribe("$queue/q", qos=1)
    assert await client.payloads(2) == [b"before", b"after"]
