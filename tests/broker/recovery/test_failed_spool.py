"""A spool that fails to write, for other reasons than space: what clients of each protocol get, and the recovery."""

import pytest
from starlette.requests import Request

import sluicegate
import support.mqtt.packets as mqtt
from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.spool.health import TRIES_MAX
from sluicegate.gateway.admin.problems import answer_error
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused
from sluicegate.protocols.amqp.codec.delivery_states import REJECTED, RELEASED, DeliveryState
from sluicegate.protocols.amqp.codec.dispositions import Disposition
from sluicegate.protocols.flow.codec import codes
from sluicegate.storage.errors import StorageError, StoreDamaged, StoreFailed
from sluicegate.storage.interface import CommitJob
from support.amqp.client import AmqpClient, body
from support.broker.inside_client import until
from support.broker.named_queues import create, shown
from support.broker.operator_views import counted, event_texts
from support.broker.running_broker import RunningBroker
from support.http.client import http_client, words
from support.mqtt.publish_answers import IMPLEMENTATION_SPECIFIC_ERROR, answer_to

DAMAGED = StoreDamaged("data.mdb is damaged where LMDB keeps its own order")
IO_ERROR = StoreFailed("input/output error")
FAILED = "503 Message Spool Failed: the broker cannot write its message spool"


class FailingStore:
    """Has the commits of a broker fail from now on, and counts them."""

    def __init__(self, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, error: StorageError) -> None:
        self.tries = 0
        self.fails = True
        commit = broker.node.services.store.commit

        def commit_or_fail(job: CommitJob) -> int:
            if not self.fails:
                return commit(job)
            self.tries += 1
            raise error

        monkeypatch.setattr(broker.node.services.store, "commit", commit_or_fail)


def lines(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(1 for each in caplog.records if each.name == "sluicegate.spool" and text in each.getMessage())


@pytest.mark.parametrize("error", [DAMAGED, IO_ERROR])
async def test_a_publisher_of_mqtt_hears_0x83_at_the_failure_and_ever_after(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, error: StorageError
) -> None:
    """MQTT 5, 3.4.2.1: valid, and the receiver is not willing to accept it."""
    await create(broker, subscriptions=["t"])
    client = await broker.connect(level=5)
    store = FailingStore(broker, monkeypatch, error)
    assert await answer_to(client) == (IMPLEMENTATION_SPECIFIC_ERROR, f"{FAILED}: {error}")
    tries = store.tries
    assert await answer_to(client) == (IMPLEMENTATION_SPECIFIC_ERROR, f"{FAILED} (q)"), "and the store is not asked"
    assert store.tries == tries
    assert await counted(broker, "sluicegate_messages_refused_total") == {"spool_failed": 1}
    health = await NodeOperations(broker.node).health()
    assert (health.live, health.ready) == (True, False)
    assert str(error) in health.reasons[0]
    store.fails = False


async def test_publishers_of_the_other_protocols_hear_it_in_their_words(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(broker, subscriptions=["t"])
    amqp = await AmqpClient.open(broker.amqp_port, "a")
    await amqp.sender("s", "q")
    FailingStore(broker, monkeypatch, DAMAGED)
    async with http_client(broker) as http, sluicegate.Client(f"flow://127.0.0.1:{broker.flow_port}") as flow:
        for text in (f"{FAILED}: {DAMAGED}", f"{FAILED} (q)"):  # at the failure, and from then on
            if text.endswith("(q)"):
                answer = await http.post("/QUEUE/q", content=b"m")
                assert answer.status_code == 503
                assert "<reason>Message Spool Failed</reason>" in answer.text
                assert words(answer) in text
            amqp.transfer(9, body("m"))
            state = (await amqp.awaited(Disposition)).state
            assert isinstance(state, DeliveryState)
            assert state.code == REJECTED
            assert state.error is not None
            assert state.error.condition == "amqp:internal-error"
            assert state.error.description == text.removesuffix(" (q)"), "the queue stands beside it"
            async with flow.publisher() as publisher:
                with pytest.raises(sluicegate.PublishRefused) as refused:
                    await publisher.publish(sluicegate.Message(b"m", queue="q"))
            assert refused.value.code == codes.NOT_STORED
            assert "Message Spool Failed" in str(refused.value)
    amqp.vanish()


async def test_a_publisher_of_mqtt_3_is_disconnected(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(broker, subscriptions=["t"])
    client = await broker.connect(level=4)
    FailingStore(broker, monkeypatch, DAMAGED)
    client.send(mqtt.publish("t", b"m", level=4, qos=1, packet_id=1))
    await client.is_closed()


async def test_a_temporary_failure_and_its_end_are_reported_once_each(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on by itself, though nobody has anything to store: each try writes something."""
    await create(broker, subscriptions=["t"])
    client = await broker.connect(level=5)
    store = FailingStore(broker, monkeypatch, IO_ERROR)
    assert (await answer_to(client))[0] == IMPLEMENTATION_SPECIFIC_ERROR
    await until(lambda: store.tries >= 3, "three attempts to commit")
    assert lines(caplog, "the spool has failed, and takes no messages: input/output error") == 1
    assert (await counted(broker, "sluicegate_spool_failed")) == {"refused": 1}
    store.fails = False
    await until(lambda: not broker.node.services.spool_gate.blocked, "the spool to accept messages")
    assert await answer_to(client) == (0, "")
    assert (await NodeOperations(broker.node).health()).ready
    assert len(await event_texts(broker, "SYSTEM_AD_MSG_SPOOL_FAILED")) == 1
    assert len(await event_texts(broker, "SYSTEM_AD_MSG_SPOOL_CHG")) == 1
    assert await counted(broker, "sluicegate_spool_failed") == {}


async def test_damage_does_not_pass_and_nothing_is_written_beside_it(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A commit that would succeed says nothing about the page that is broken."""
    await create(broker, subscriptions=["t"])
    client = await broker.connect(level=5)
    store = FailingStore(broker, monkeypatch, DAMAGED)
    assert (await answer_to(client))[0] == IMPLEMENTATION_SPECIFIC_ERROR
    store.fails = False
    health = broker.node.services.spool_health
    await until(lambda: not health.is_live(), "the node to report itself unhealthy")
    assert store.tries == 1
    assert health.tries_failed == TRIES_MAX
    assert (await answer_to(client))[0] == IMPLEMENTATION_SPECIFIC_ERROR
    assert not (await NodeOperations(broker.node).health()).live
    assert lines(caplog, "the spool has failed") == 2, "that it has, and that /health/live fails"
    assert await counted(broker, "sluicegate_spool_failed") == {"damaged": 1}


async def test_settlements_are_answered_when_the_store_is_damaged(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a commit that will not come: AMQP has `released`, for the message is there again later."""
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect(level=5)
    assert await answer_to(publisher) == (0, "")
    amqp = await AmqpClient.open(broker.amqp_port, "a")
    await amqp.receiver("r", "q", credit=1, rcv_second=True)
    delivery = await amqp.delivery()
    FailingStore(broker, monkeypatch, DAMAGED)
    amqp.settle(delivery.delivery_id, settled=False)
    said = await amqp.awaited(Disposition)
    assert said.settled
    assert isinstance(said.state, DeliveryState)
    assert said.state.code == RELEASED
    amqp.vanish()


async def test_a_worker_over_http_hears_503_for_a_settlement_that_is_not_stored(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect(level=5)
    assert await answer_to(publisher) == (0, "")
    async with http_client(broker) as http:
        got = await http.get("/QUEUE/q")
        FailingStore(broker, monkeypatch, DAMAGED)
        answer = await http.post(got.headers["sluicegate-settle"])
        assert answer.status_code == 503
        assert "<reason>Message Spool Failed</reason>" in answer.text


async def test_an_operator_who_deletes_a_queue_hears_that_it_is_not_stored(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(broker, subscriptions=["t"])
    FailingStore(broker, monkeypatch, DAMAGED)
    with pytest.raises(StoreRefused, match="damaged") as refused:
        await NodeOperations(broker.node).delete_queue("q")
    answer = await answer_error(Request({"type": "http"}), refused.value)
    assert answer.status_code == 503


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_page_that_lmdb_cannot_reach_shuts_the_spool_and_is_reported_once(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread that reads meets the damage first. Its partition is named, and its messages are not given up."""
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect(level=5)
    for _ in range(200):
        assert await answer_to(publisher, bytes(9000)) == (0, "")
    tries: list[int] = []

    def read_page(_: int, first_sequence: int) -> None:
        tries.append(first_sequence)
        raise DAMAGED

    monkeypatch.setattr(broker.node.services.store, "read_page", read_page)
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    await until(lambda: len(tries) >= 3, "three attempts to commit")
    assert lines(caplog, "pages of partition 1 cannot be read: data.mdb is damaged") == 1
    assert await counted(broker, "sluicegate_spool_failed") == {"damaged": 1}
    assert "pages of partition 1 cannot be read" in (await NodeOperations(broker.node).health()).reasons[0]
    samples = await NodeOperations(broker.node).metrics_snapshot()
    assert [each.value for each in samples if each.name == "sluicegate_spool_unread_partitions"] == [1]
    with pytest.raises(Refused, match="a damaged spool cannot be backed up"):
        await NodeOperations(broker.node).start_backup("b")
    view = await shown(broker)
    assert view.ready_count + view.unacked_count == 200
