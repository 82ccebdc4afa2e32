"""Local transactions over AMQP on a whole node (part 4 of the standard): invisible until discharged, then whole."""

import pytest

from sluicegate.protocols.amqp.codec.delivery_states import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    RELEASED,
    AmqpError,
    DeliveryState,
)
from sluicegate.protocols.amqp.codec.dispositions import Disposition
from sluicegate.protocols.amqp.codec.termini import Coordinator
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, Described, Scalar, Symbol, uint, ulong
from support.amqp.client import AmqpClient, AmqpClients, body, in_transaction
from support.amqp.received import Received
from support.broker.inside_client import InsideClient, until
from support.broker.running_broker import RunningBroker

CONTROL = 9  # the handle of the coordinator
OUT = 0
IN = 1
DMQ = "#DEAD_MSG_QUEUE"


async def queue(broker: RunningBroker, name: str = "orders", **attributes: object) -> InsideClient:
    inside = InsideClient(broker, name)
    await inside.create(**attributes)
    return inside


async def client(amqp: AmqpClients, container: str = "client") -> AmqpClient:
    """Return a client with a coordinator on handle 9 and a sender to `orders` on handle 0."""
    opened = await amqp.connect(container)
    await opened.coordinator(CONTROL)
    await opened.sender("out", "orders", handle=OUT)
    return opened


async def bodies_in(broker: RunningBroker, name: str = "orders") -> list[bytes]:
    """Return what a queue holds, in order."""
    return list((await InsideClient(broker, name).read())[0].values())


async def count_in(inside: InsideClient) -> int:
    return (await inside.overview()).usage_count


async def test_the_coordinator_says_what_it_can(broker: RunningBroker, amqp: AmqpClients) -> None:
    """4.5.1; reference 18: local transactions, several in a session, and one over several sessions."""
    await queue(broker)
    peer = await amqp.connect()
    answer = await peer.coordinator(CONTROL)
    assert isinstance(answer.target, Coordinator)
    assert answer.target.capabilities == [
        "amqp:local-transactions",
        "amqp:multi-txns-per-ssn",
        "amqp:multi-ssns-per-txn",
    ]


async def test_each_declare_gets_an_id_of_its_own_and_transactions_do_not_mix(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """Case 74: declared with an id; two transactions at once are independent."""
    orders = await queue(broker)
    peer = await client(amqp)
    first, second = await peer.declare(CONTROL), await peer.declare(CONTROL)
    assert first != second
    assert max(len(first), len(second)) <= 32
    peer.transfer(OUT, body("of the first"), state=in_transaction(first, None))
    peer.transfer(OUT, body("of the second"), state=in_transaction(second, None))
    assert (await peer.discharge(CONTROL, first, fail=True)).code == ACCEPTED
    assert (await peer.discharge(CONTROL, second)).code == ACCEPTED
    assert await bodies_in(broker) == [b"of the second"]
    assert await count_in(orders) == 1


async def test_published_messages_are_visible_with_the_commit_and_not_before(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """Case 75: three publishes are invisible; with the commit all are visible."""
    orders = await queue(broker)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    sent = [peer.transfer(OUT, body(f"m{number}"), state=in_transaction(txn, None)) for number in range(3)]
    for delivery_id in sent:
        assert await peer.outcome(delivery_id) == in_transaction(txn)
    assert await count_in(orders) == 0
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    assert await bodies_in(broker) == [b"m0", b"m1", b"m2"]
    await broker.crash()
    assert await bodies_in(broker) == [b"m0", b"m1", b"m2"], "what was accepted is on the disk"


@pytest.mark.settings("spool.commit_interval_ms=1000")
async def test_a_transaction_of_publishes_consumed_at_once_is_committed_without_the_disk(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """As a publish without a transaction is: there are no settlements that have to be written with it."""
    await queue(broker)
    peer = await client(amqp)
    await peer.receiver("in", "orders", handle=IN, credit=1)
    txn = await peer.declare(CONTROL)
    peer.transfer(OUT, body("m"), state=in_transaction(txn, None))
    discharge = peer.ask_discharge(CONTROL, txn)
    peer.settle((await peer.delivery()).delivery_id)
    assert (await peer.outcome(discharge)).code == ACCEPTED
    assert (broker.node.services.planner.elided_count, broker.node.services.planner.written_count) == (1, 0)


async def test_rolled_back_publishes_are_never_visible(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 75: rolled back, none is visible."""
    orders = await queue(broker)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    delivery_id = peer.transfer(OUT, body("m"), state=in_transaction(txn, None))
    assert await peer.outcome(delivery_id) == in_transaction(txn)
    assert (await peer.discharge(CONTROL, txn, fail=True)).code == ACCEPTED
    assert (await peer.discharge(CONTROL, txn)).code == REJECTED, "it is over"
    assert await count_in(orders) == 0
    assert broker.node.amqp.transactions.used_bytes == 0


async def test_publishes_of_one_transaction_reach_several_queues_and_partitions_as_one(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """4.4: a transaction is one unit of work. One journal record, all or nothing."""
    await queue(broker, access_type="non-exclusive", partition_count=4)
    await queue(broker, "audit", subscriptions=["events/>"])
    peer = await client(amqp)
    await peer.sender("topic", "topic://events/done", handle=3)
    txn = await peer.declare(CONTROL)
    for number in range(40):
        peer.transfer(OUT, body(f"o{number}"), state=in_transaction(txn, None))
    peer.transfer(3, body("done"), state=in_transaction(txn, None))
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    await broker.crash()
    orders = InsideClient(broker, "orders")
    found = [each for number in range(4) for each in (await orders.read(partition=number))[0].values()]
    assert sorted(found) == sorted(b"o%d" % number for number in range(40))
    assert await bodies_in(broker, "audit") == [b"done"]


async def test_settled_messages_are_gone_after_the_commit(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 76: an acknowledgement in a transaction, committed; 4.4.2 both ways to retire a delivery."""
    orders = await queue(broker)
    await orders.publish(b"settled by the client", b"not yet")
    peer = await client(amqp)
    await peer.receiver("in", "orders", handle=IN, credit=100)
    first, second = await peer.deliveries(2)
    txn = await peer.declare(CONTROL)
    peer.settle(first.delivery_id, first.delivery_id, in_transaction(txn), settled=True)
    peer.settle(second.delivery_id, second.delivery_id, in_transaction(txn), settled=False)
    assert await peer.said_of(second.delivery_id) == (in_transaction(txn), False)
    assert await count_in(orders) == 2, "nothing is settled before the commit"
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    assert await peer.said_of(second.delivery_id) == (in_transaction(txn), True)
    await until(lambda: _is_empty(orders), "an empty queue")
    await broker.crash()
    assert await count_in(orders) == 0, "the settlement was written before the commit was answered"
    assert broker.node.services.credit.used == 0


async def _is_empty(inside: InsideClient) -> bool:
    return await count_in(inside) == 0


async def test_settled_messages_are_redelivered_with_a_higher_count_after_a_rollback(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """Case 76: after a rollback it is delivered to a new consumer, with its count one higher."""
    orders = await queue(broker)
    await orders.publish(b"m")
    peer = await client(amqp)
    await peer.receiver("in", "orders", handle=IN, credit=1)
    message = await peer.delivery()
    txn = await peer.declare(CONTROL)
    peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn))
    assert (await peer.discharge(CONTROL, txn, fail=True)).code == ACCEPTED
    peer.flow(IN, 1, delivery_count=1)
    again = await peer.delivery()
    assert (again.body, again.delivery_count) == (message.body, 1)


async def test_deliveries_with_an_unsettled_outcome_stay_with_the_client_after_a_rollback(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """4.4.2: the provisional outcome is gone, and the client may say another."""
    orders = await queue(broker)
    await orders.publish(b"m")
    peer = await client(amqp)
    await peer.receiver("in", "orders", handle=IN, credit=100)
    message = await peer.delivery()
    txn = await peer.declare(CONTROL)
    peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn), settled=False)
    assert (await peer.discharge(CONTROL, txn, fail=True)).code == ACCEPTED
    assert peer.nothing_waits(Received)
    assert await count_in(orders) == 1
    peer.settle(message.delivery_id, message.delivery_id, DeliveryState(ACCEPTED))
    await until(lambda: _is_empty(orders), "an empty queue")


async def test_every_outcome_takes_effect_with_the_commit(broker: RunningBroker, amqp: AmqpClients) -> None:
    """4.4.2: the outcome of a delivery is applied when the transaction is discharged, whatever it is."""
    orders = await queue(broker)
    await orders.publish(b"0", b"1", b"2", b"3")
    peer = await client(amqp)
    await peer.receiver("in", "orders", handle=IN, credit=4)
    messages = await peer.deliveries(4)
    txn = await peer.declare(CONTROL)
    outcomes = [
        DeliveryState(ACCEPTED),
        DeliveryState(RELEASED),
        DeliveryState(MODIFIED, delivery_failed=True),
        DeliveryState(REJECTED),
    ]
    for message, outcome in zip(messages, outcomes, strict=True):
        peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn, outcome))
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    peer.flow(IN, 4, delivery_count=4)
    again = await peer.deliveries(2)
    assert [(each.body, each.delivery_count) for each in again] == [(b"1", 0), (b"2", 1)]
    assert await count_in(orders) == 2


async def test_errors_and_annotations_of_outcomes_take_effect_with_the_commit(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """4.4.2, test cases 48 and 49: the cause of a rejection, and the annotations of modified."""
    orders = await queue(broker)
    await queue(broker, DMQ)
    await orders.publish(b"0", b"1", b"2")
    peer = await client(amqp)
    await peer.receiver("in", "orders", handle=IN, credit=3)
    txn = await peer.declare(CONTROL)
    outcomes = [
        DeliveryState(REJECTED, error=AmqpError("shop:broken", "no such pump")),
        DeliveryState(REJECTED, error=AmqpError("shop:lost")),
        DeliveryState(MODIFIED, delivery_failed=True, annotations=AmqpMap([(Symbol("x-why"), "too hot")])),
    ]
    for message, outcome in zip(await peer.deliveries(3), outcomes, strict=True):
        peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn, outcome))
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    peer.flow(IN, 1, delivery_count=3)
    assert b"too hot" in (await peer.delivery()).message
    await peer.receiver("dead", DMQ, handle=3, credit=2)
    first, second = await peer.deliveries(2)
    assert b"shop:broken: no such pump" in first.message
    assert b"shop:lost" in second.message


async def test_a_queues_time_to_live_begins_with_the_commit(broker: RunningBroker, amqp: AmqpClients) -> None:
    """queues.md: a message's time in a queue begins with its arrival, and before the commit it has not arrived."""
    await queue(broker, respect_ttl_enabled=True, max_ttl=20)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    peer.transfer(OUT, body("m"), state=in_transaction(txn, None))
    await peer.round_trip()
    broker.clock.forward(15)
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    broker.clock.forward(15)
    await peer.receiver("in", "orders", handle=IN, credit=1)
    assert (await peer.delivery()).body == "m"


async def test_a_publishers_time_to_live_begins_when_the_message_comes(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """3.2.1 ttl; JMS 3.4.9 (JMSExpiration): of a message sent in a transaction it is counted from the send."""
    await queue(broker, respect_ttl_enabled=True)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    for ttl_ms in (20_000, 60_000):
        header = encode(Described(ulong(0x70), [True, None, uint(ttl_ms)]))
        peer.transfer(OUT, header + body(f"{ttl_ms}"), state=in_transaction(txn, None))
    await peer.round_trip()
    broker.clock.forward(30)
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    await peer.receiver("in", "orders", handle=IN, credit=2)
    message = await peer.delivery()
    assert message.body == "60000"
    header_fields, _ = decode(message.message, 0, len(message.message))
    assert isinstance(header_fields, Described)
    assert isinstance(header_fields.value, list)
    ttl = header_fields.value[2]
    assert isinstance(ttl, Scalar)
    assert isinstance(ttl.value, int)
    assert 0 < ttl.value <= 30_000


async def test_consuming_and_publishing_in_one_transaction_survives_a_crash_as_one(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """4.4: what is taken from one queue and put into another is in one of them, in one journal record."""
    orders = await queue(broker)
    done = await queue(broker, "done")
    await orders.publish(b"work")
    peer = await client(amqp)
    await peer.sender("to done", "done", handle=3)
    await peer.receiver("in", "orders", handle=IN, credit=100)
    message = await peer.delivery()
    txn = await peer.declare(CONTROL)
    peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn))
    peer.transfer(3, body("result"), state=in_transaction(txn, None))
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    await broker.crash()
    assert (await count_in(orders), await count_in(done)) == (0, 1)


@pytest.mark.parametrize("ending", ["connection", "session", "link"])
async def test_an_undischarged_transaction_is_rolled_back_when_its_coordinator_ends(
    broker: RunningBroker, amqp: AmqpClients, ending: str
) -> None:
    """Case 77, 4.3: the end of the control link rolls back what was declared on it."""
    orders = await queue(broker)
    await orders.publish(b"m")
    peer = await amqp.connect()
    await peer.begin(1)
    await peer.coordinator(CONTROL, channel=1)
    await peer.sender("out", "orders", handle=OUT)
    await peer.receiver("in", "orders", handle=IN, credit=1)
    message = await peer.delivery()
    txn = await peer.declare(CONTROL, channel=1)
    peer.transfer(OUT, body("never seen"), state=in_transaction(txn, None))
    peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn))
    await peer.round_trip()
    if ending == "connection":
        peer.vanish()
        peer = await client(amqp)
        await peer.receiver("in", "orders", handle=IN, credit=1)
    elif ending == "session":
        await peer.ended(1)
        peer.flow(IN, 1, delivery_count=1)
    else:
        await peer.detached(CONTROL, closed=True, channel=1)
        peer.flow(IN, 1, delivery_count=1)
    again = await peer.delivery()
    assert again.delivery_count == 1
    assert await count_in(orders) == 1
    assert broker.node.amqp.transactions.rolled_back_counts == {"lost": 1}


async def test_an_id_that_was_never_declared_is_unknown(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 77, 4.5.8 unknown-id: a discharge and a publish are rejected; what was settled under it comes again."""
    orders = await queue(broker)
    await orders.publish(b"m")
    peer = await client(amqp)
    state = await peer.discharge(CONTROL, b"nobody's")
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:unknown-id"
    state = await peer.outcome(peer.transfer(OUT, body("x"), state=in_transaction(b"nobody's", None)))
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:unknown-id"
    await peer.receiver("in", "orders", handle=IN, credit=1)
    message = await peer.delivery()
    peer.settle(message.delivery_id, message.delivery_id, in_transaction(b"nobody's"))
    peer.flow(IN, 1, delivery_count=1)
    assert (await peer.delivery()).delivery_count == 1
    assert await count_in(orders) == 1


async def test_an_id_of_another_connection_is_unknown(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Reference 18: one scope per connection."""
    await queue(broker)
    peer, other = await client(amqp), await client(amqp, "other")
    txn = await peer.declare(CONTROL)
    state = await other.discharge(CONTROL, txn)
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:unknown-id"


async def test_a_commit_that_a_queue_refuses_is_rolled_back_whole(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 79: over the quota, the commit is rejected with transaction:rollback, and nothing is visible."""
    orders = await queue(broker, max_msg_size=1000)
    audit = await queue(broker, "audit")
    await audit.publish(b"m")
    peer = await client(amqp)
    await peer.sender("to audit", "audit", handle=3)
    await peer.receiver("in", "audit", handle=IN, credit=1)
    message = await peer.delivery()
    txn = await peer.declare(CONTROL)
    peer.transfer(3, body("goes with the others"), state=in_transaction(txn, None))
    peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn), settled=False)
    peer.transfer(OUT, body("x" * 2000), state=in_transaction(txn, None))
    state = await peer.discharge(CONTROL, txn)
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:rollback"
    assert "larger than the queue takes" in state.error.description
    assert (await count_in(orders), await count_in(audit)) == (0, 1)
    overview = await orders.overview()
    assert sum(overview.totals.refusals.values()) == 1
    peer.settle(message.delivery_id, message.delivery_id, DeliveryState(ACCEPTED))
    await until(lambda: _is_empty(audit), "an empty queue: the message had stayed with its consumer")


async def test_a_rejected_publish_spoils_its_transaction(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Reference 18: a transaction of which something was refused cannot be committed."""
    orders = await queue(broker)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    peer.transfer(OUT, body("good"), state=in_transaction(txn, None))
    broken = peer.transfer(OUT, b"\x00\x53\x70", state=in_transaction(txn, None))
    state = await peer.outcome(broken)
    assert state.error is not None
    assert state.error.condition == "amqp:decode-error"
    state = await peer.discharge(CONTROL, txn)
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:rollback"
    assert await count_in(orders) == 0


async def test_a_message_that_was_taken_away_meanwhile_cannot_be_settled(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """Reference 18: a commit that cannot be made undoes everything."""
    orders = await queue(broker)
    await orders.publish(b"m")
    peer = await client(amqp)
    await peer.receiver("in", "orders", handle=IN, credit=1)
    message = await peer.delivery()
    txn = await peer.declare(CONTROL)
    peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn), settled=False)
    peer.transfer(OUT, body("result"), state=in_transaction(txn, None))
    await peer.detached(IN, closed=True)
    state = await peer.discharge(CONTROL, txn)
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:rollback"
    assert await bodies_in(broker) == [b"m"]


@pytest.mark.parametrize("says_goodbye", ["detaches", "ends", "closes"])
async def test_a_client_that_detaches_ends_or_closes_after_a_declare_gets_no_answer_to_it(
    broker: RunningBroker, amqp: AmqpClients, says_goodbye: str
) -> None:
    """AMQP 2.4.3, 2.5.4, 2.6.6: the answer would come behind the broker's own goodbye."""
    await queue(broker)
    peer = await client(amqp)
    peer.transfer(CONTROL, body(Described(ulong(0x31), [])))
    if says_goodbye == "detaches":
        await peer.detached(CONTROL, closed=True)
        await peer.is_quiet()
    elif says_goodbye == "ends":
        await peer.ended(0)
        await peer.begin(0)
        await peer.is_quiet()
    else:
        await peer.close()


async def test_nothing_is_said_of_an_outcome_whose_link_is_detached_by_then(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """AMQP 2.6.6: deliveries end with their link; nor is it said of others that the client named beside them."""
    orders = await queue(broker)
    await orders.publish(b"m")
    peer = await client(amqp)
    await peer.receiver("in", "orders", handle=IN, credit=1)
    message = await peer.delivery()
    txn = await peer.declare(CONTROL)
    peer.settle(message.delivery_id, message.delivery_id + 9, in_transaction(txn), settled=False)
    said = await peer.awaited(Disposition)
    assert (said.first, said.last) == (message.delivery_id, message.delivery_id)
    peer.settle(message.delivery_id, message.delivery_id, in_transaction(txn), settled=False)
    await peer.detached(IN, closed=True)
    await peer.is_quiet()


@pytest.mark.settings("amqp.transaction_timeout_s=2")
async def test_a_transaction_in_which_nothing_is_done_is_rolled_back(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Reference 18: the coordinator is detached with transaction:timeout."""
    orders = await queue(broker)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    peer.transfer(OUT, body("m"), state=in_transaction(txn, None))
    await peer.round_trip()
    broker.clock.forward(3)
    broker.node.amqp.tick()
    await peer.is_detached("amqp:transaction:timeout")
    assert await count_in(orders) == 0
    assert broker.node.amqp.transactions.rolled_back_counts == {"timeout": 1}


@pytest.mark.settings("amqp.max_transactions=2")
async def test_a_connection_has_so_many_transactions(broker: RunningBroker, amqp: AmqpClients) -> None:
    await queue(broker)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    await peer.declare(CONTROL)
    declare = body(Described(ulong(0x31), []))
    state = await peer.outcome(peer.transfer(CONTROL, declare))
    assert state.error is not None
    assert state.error.condition == "amqp:resource-limit-exceeded"
    await peer.discharge(CONTROL, txn, fail=True)
    assert await peer.declare(CONTROL)


@pytest.mark.settings("amqp.max_transaction_messages=3", "amqp.max_transaction_size=100KiB")
@pytest.mark.parametrize("what", ["messages", "bytes"])
async def test_a_transaction_has_a_size(broker: RunningBroker, amqp: AmqpClients, what: str) -> None:
    orders = await queue(broker)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    payload = body("m") if what == "messages" else body("x" * 60_000)
    sent = [peer.transfer(OUT, payload, state=in_transaction(txn, None)) for _ in range(4 if what == "messages" else 2)]
    state = await peer.outcome(sent[-1])
    assert state.error is not None
    assert state.error.condition == "amqp:resource-limit-exceeded"
    state = await peer.discharge(CONTROL, txn)
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:rollback"
    assert await count_in(orders) == 0


async def test_a_client_that_takes_no_rejected_has_its_coordinator_detached_instead(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """4.4.3: without `rejected` among its outcomes, the error comes with a detach."""
    await queue(broker)
    peer = await amqp.connect()
    await peer.coordinator(CONTROL, outcomes=["amqp:accepted:list", "amqp:declared:list"])
    peer.ask_discharge(CONTROL, b"nobody's")
    await peer.is_detached("amqp:transaction:unknown-id")


async def test_an_invalid_request_is_rejected(broker: RunningBroker, amqp: AmqpClients) -> None:
    """4.5: declare and discharge are all that a coordinator takes; global ids are for distributed transactions."""
    await queue(broker)
    peer = await client(amqp)
    for payload, condition in [
        (body("begin"), "amqp:decode-error"),
        (body(Described(ulong(0x32), [])), "amqp:decode-error"),
        (body(Described(ulong(0x31), ["global"])), "amqp:not-implemented"),
    ]:
        state = await peer.outcome(peer.transfer(CONTROL, payload))
        assert state.error is not None
        assert state.error.condition == condition
    peer.transfer(CONTROL, body(Described(ulong(0x31), [])), settled=True)
    await peer.is_detached("amqp:precondition-failed")


async def test_acquiring_in_a_transaction_is_not_implemented(broker: RunningBroker, amqp: AmqpClients) -> None:
    """4.4.4; reference 18: the link is detached, so nobody believes it."""
    await queue(broker)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    await peer.receiver("in", "orders", handle=IN, credit=0)
    peer.flow(IN, 1, properties=AmqpMap([(Symbol("txn-id"), txn)]))
    await peer.is_detached("amqp:not-implemented")


async def test_a_transaction_spans_sessions(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Reference 18: amqp:multi-ssns-per-txn."""
    await queue(broker)
    peer = await client(amqp)
    await peer.begin(1)
    await peer.sender("other", "orders", handle=OUT, channel=1)
    txn = await peer.declare(CONTROL)
    peer.transfer(OUT, body("a"), state=in_transaction(txn, None))
    delivery_id = peer.transfer(OUT, body("b"), state=in_transaction(txn, None), channel=1)
    await peer.outcome(delivery_id, channel=1)
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    assert await bodies_in(broker) == [b"a", b"b"]


async def test_neighbours_outside_of_the_transaction_do_not_wait_for_it(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """4.4: what carries no transactional state takes effect at once."""
    await queue(broker)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    peer.transfer(OUT, body("inside"), state=in_transaction(txn, None))
    assert (await peer.outcome(peer.transfer(OUT, body("outside")))).code == ACCEPTED
    assert await bodies_in(broker) == [b"outside"]
    assert (await peer.discharge(CONTROL, txn)).code == ACCEPTED
    assert await bodies_in(broker) == [b"outside", b"inside"]


async def test_discharge_and_declare_may_be_sent_without_waiting(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Reference 18: Qpid JMS declares the next transaction right behind a discharge; commits keep their order."""
    await queue(broker)
    peer = await client(amqp)
    txn = await peer.declare(CONTROL)
    requests: list[int] = []
    for number in range(5):
        peer.transfer(OUT, body(f"m{number}"), state=in_transaction(txn, None))
        requests.append(peer.ask_discharge(CONTROL, txn))
        txn = await peer.declare(CONTROL)
    for request in requests:
        assert (await peer.outcome(request)).code == ACCEPTED
    assert await bodies_in(broker) == [b"m%d" % number for number in range(5)]
