"""AMQP transactions while queues change: number of partitions, deletion, a store that refuses writes."""

import pytest

from sluicegate.actors.messages.directory import DeleteQueue
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED, ACCEPTED_STATE, MODIFIED, RELEASED, DeliveryState
from sluicegate.protocols.amqp.codec.performatives import Detach
from sluicegate.storage.errors import StoreFailed
from sluicegate.storage.interface import CommitJob
from support.amqp.client import AmqpClient, AmqpClients, body, in_transaction
from support.amqp.received import Received
from support.broker.inside_client import InsideClient, until
from support.broker.named_queues import change, create, shows
from support.broker.running_broker import RunningBroker

CONTROL, OUT, IN, OTHER = 9, 0, 1, 3
MESSAGES = 20


async def filled(broker: RunningBroker, amqp: AmqpClients, **attributes: object) -> AmqpClient:
    """Return a client with all messages of the queue `q`, a sender to it, and a coordinator."""
    await create(broker, "q", subscriptions=["q/>"], **attributes)
    await InsideClient(broker, "q").publish(*[b"old"] * MESSAGES, keys=[f"k{number}" for number in range(MESSAGES)])
    peer = await amqp.connect()
    await peer.coordinator(CONTROL)
    await peer.sender("out", "q", handle=OUT)
    await peer.receiver("in", "q", handle=IN, credit=MESSAGES)
    return peer


async def filled_beside_another(broker: RunningBroker, amqp: AmqpClients) -> tuple[AmqpClient, bytes]:
    """Return the same, with a sender to the queue `other` as well, and a transaction."""
    peer = await filled(broker, amqp)
    await create(broker, "other")
    await peer.sender("to other", "other", handle=OTHER)
    return peer, await peer.declare(CONTROL)


async def settle_all(peer: AmqpClient, txn: bytes) -> None:
    """Settle everything in a transaction, every other message without the client having settled it."""
    for message in await peer.deliveries(MESSAGES):
        by_client = message.delivery_id % 2 == 0
        peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn), settled=by_client)


async def comes_again(broker: RunningBroker, peer: AmqpClient) -> list[Received]:
    """Let everything that the client holds be late; return the deliveries that come for it."""
    await change(broker, consumer_ack_timeout_ms=20_000)
    broker.clock.forward(25)  # a sixteenth of the time may be added; transactions have longer
    await shows(broker, lambda view: view.unacked_count == 0)
    peer.flow(IN, MESSAGES, delivery_count=MESSAGES)
    return await peer.deliveries(MESSAGES)


async def is_rolled_back(broker: RunningBroker, peer: AmqpClient, txn: bytes) -> None:
    """A commit with a message to another queue is refused, and nothing of it is seen."""
    peer.transfer(OTHER, body("m"), state=in_transaction(txn, None))
    state = await peer.discharge(CONTROL, txn)
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:rollback"
    assert (await count_in(broker), await count_in(broker, "other")) == (MESSAGES, 0)


async def count_in(broker: RunningBroker, name: str = "q") -> int:
    return (await InsideClient(broker, name).overview()).usage_count


@pytest.mark.parametrize("count", [1, 6])
async def test_a_transaction_outlives_a_change_of_the_number_of_partitions(
    broker: RunningBroker, amqp: AmqpClients, count: int
) -> None:
    """What it settles is where it was, what it publishes goes by the map at the commit."""
    peer = await filled(broker, amqp, access_type="non-exclusive", partition_count=3, partition_rebalance_delay_s=0)
    txn = await peer.declare(CONTROL)
    await settle_all(peer, txn)
    for _ in range(MESSAGES):
        peer.transfer(OUT, body("new"), state=in_transaction(txn, None))
    await peer.round_trip()
    await change(broker, partition_count=count)
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED

    view = await shows(broker, lambda view: view.scale_status == "ready" and view.partition_operational_count == count)
    assert view.ready_count + view.unacked_count == MESSAGES
    peer.flow(IN, MESSAGES, delivery_count=MESSAGES)
    assert [each.body for each in await peer.deliveries(MESSAGES)] == ["new"] * MESSAGES


@pytest.mark.parametrize("discharged", [1, 2])
async def test_a_provisional_outcome_does_not_prevent_a_settlement_outside_the_transaction(
    broker: RunningBroker, amqp: AmqpClients, discharged: int
) -> None:
    """4.4.2: an outcome that is not settled binds nobody, so the client may settle without it, or under another id."""
    peer = await filled(broker, amqp, access_type="non-exclusive")
    messages = await peer.deliveries(MESSAGES)
    ids = [await peer.declare(CONTROL) for _ in range(discharged)]
    first, last = messages[0].delivery_id, messages[-1].delivery_id
    for txn in ids:
        peer.settle(first, last, in_transaction(txn, DeliveryState(RELEASED)), settled=False)
    if discharged == 1:
        peer.settle(first, last, DeliveryState(ACCEPTED))
    for txn in ids:
        assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    assert broker.node.services.credit.used == 0
    left_count = 0 if discharged == 1 else MESSAGES
    assert await count_in(broker) == left_count
    peer.transfer(OUT, body("new"))
    peer.flow(IN, MESSAGES + 1, delivery_count=MESSAGES)
    assert (await peer.deliveries(left_count + 1))[-1].body == "new"


async def test_a_queue_that_is_deleted_takes_the_transaction_with_it(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Reference 18: a commit that cannot be made undoes everything."""
    peer, txn = await filled_beside_another(broker, amqp)
    await settle_all(peer, txn)
    peer.transfer(OTHER, body("m"), state=in_transaction(txn, None))
    await peer.round_trip()
    await broker.node.default.queues.ask(DeleteQueue("q"))
    state = await peer.discharge(CONTROL, txn)
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:rollback"
    assert await count_in(broker, "other") == 0


async def test_a_commit_that_settles_messages_of_a_link_the_broker_ended_is_rolled_back(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """The client had not heard of it. The messages come again, so their work must not be done by this commit."""
    peer, txn = await filled_beside_another(broker, amqp)
    held = await peer.deliveries(MESSAGES)
    await change(broker, egress_enabled=False)
    await peer.awaited(Detach)
    peer.settle(held[0].delivery_id, held[-1].delivery_id, in_transaction(txn), settled=True)
    await is_rolled_back(broker, peer, txn)


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("is_named_first", [True, False])
async def test_a_commit_that_settles_messages_redelivered_before_it_is_rolled_back(
    broker: RunningBroker, amqp: AmqpClients, settled: bool, is_named_first: bool
) -> None:
    """It was late. What is said of it is not said of the delivery that came after it, so its work must not be done."""
    peer, txn = await filled_beside_another(broker, amqp)
    late = await peer.deliveries(MESSAGES)
    again = [] if is_named_first else await comes_again(broker, peer)
    peer.settle(late[0].delivery_id, late[-1].delivery_id, in_transaction(txn), settled=settled)
    await peer.round_trip()
    again = again or await comes_again(broker, peer)
    await is_rolled_back(broker, peer, txn)
    peer.settle(again[0].delivery_id, again[-1].delivery_id, ACCEPTED_STATE)
    await shows(broker, lambda view: view.ready_count + view.unacked_count == 0)


@pytest.mark.parametrize("fail", [True, False])
async def test_a_transaction_that_released_a_late_delivery_does_not_release_the_next_one(
    broker: RunningBroker, amqp: AmqpClients, fail: bool
) -> None:
    peer, txn = await filled_beside_another(broker, amqp)
    late = await peer.deliveries(MESSAGES)
    state = in_transaction(txn, DeliveryState(RELEASED))
    peer.settle(late[0].delivery_id, late[-1].delivery_id, state, settled=True)
    await peer.round_trip()
    await comes_again(broker, peer)
    assert (await peer.discharge(CONTROL, txn, fail=fail)).code == ACCEPTED
    view = await shows(broker, lambda view: view.unacked_count == MESSAGES)
    assert view.ready_count == 0


async def test_a_message_that_was_given_back_outside_of_the_transaction_may_be_settled_in_it_again(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """What counts is the last that was said, also where messages that were tried more often came in between."""
    peer, txn = await filled_beside_another(broker, amqp)
    held = await peer.deliveries(MESSAGES)
    for each in held:
        failed = each.delivery_id % 2 == 1
        if not failed:
            peer.settle(each.delivery_id, each.delivery_id, in_transaction(txn), settled=False)
        state = DeliveryState(MODIFIED, delivery_failed=True) if failed else DeliveryState(RELEASED)
        peer.settle(each.delivery_id, each.delivery_id, state)
    await peer.round_trip()
    peer.flow(IN, MESSAGES, delivery_count=MESSAGES)
    again = await peer.deliveries(MESSAGES)
    peer.settle(again[0].delivery_id, again[-1].delivery_id, in_transaction(txn), settled=True)
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    assert await count_in(broker) == 0


async def test_settling_messages_again_that_were_settled_before_their_link_ended_is_accepted(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    peer = await filled(broker, amqp)
    held = await peer.deliveries(MESSAGES)
    peer.settle(held[0].delivery_id, held[9].delivery_id, ACCEPTED_STATE, settled=True)
    await change(broker, egress_enabled=False)
    await peer.awaited(Detach)
    txn = await peer.declare(CONTROL)
    peer.settle(held[0].delivery_id, held[9].delivery_id, in_transaction(txn), settled=True)
    state = await peer.discharge(CONTROL, txn)
    assert state.error is None
    assert await count_in(broker) == MESSAGES - 10


async def test_a_queue_that_is_deleted_before_the_commit_cannot_be_published_to(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """Case 79: the commit is refused whole, and says which queue it was for."""
    peer, txn = await filled_beside_another(broker, amqp)
    peer.transfer(OUT, body("new"), state=in_transaction(txn, None))
    peer.transfer(OTHER, body("m"), state=in_transaction(txn, None))
    await peer.round_trip()
    await broker.node.default.queues.ask(DeleteQueue("other"))
    state = await peer.discharge(CONTROL, txn)
    assert state.error is not None
    assert "$queue/other" in state.error.description
    assert await count_in(broker) == MESSAGES


async def test_a_transaction_that_the_store_refuses_is_rolled_back_and_its_messages_stay_with_the_consumer(
    broker: RunningBroker, amqp: AmqpClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk refuses publishers, and lets consumers go on."""
    peer = await filled(broker, amqp)
    txn = await peer.declare(CONTROL)
    await settle_all(peer, txn)
    peer.transfer(OUT, body("new"), state=in_transaction(txn, None))
    store = broker.node.services.store
    commit = store.commit
    refused: list[CommitJob] = []

    def commit_or_fail(job: CommitJob) -> int:
        if not job.uses_reserve and not refused:
            refused.append(job)
            raise StoreFailed("no space left on device")
        return commit(job)

    monkeypatch.setattr(store, "commit", commit_or_fail)
    state = await peer.discharge(CONTROL, txn)
    assert state.error is not None
    assert "no space left" in state.error.description

    async def only_the_old_ones() -> bool:
        return await count_in(broker) == MESSAGES

    await until(only_the_old_ones, "the withdrawal of what was published")
    peer.flow(IN, MESSAGES // 2, delivery_count=MESSAGES)
    again = await peer.deliveries(MESSAGES // 2)
    assert [(each.body, each.delivery_count) for each in again] == [(b"old", 1)] * (MESSAGES // 2)
    peer.settle(0, MESSAGES + MESSAGES // 2 - 1, DeliveryState(ACCEPTED))

    async def is_empty() -> bool:
        return await count_in(broker) == 0

    await until(is_empty, "an empty queue")
