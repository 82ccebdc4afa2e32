"""AMQP senders whose links have `rcv-settle-mode` second: they hear the outcome, and settle then."""

from amqp_client import AmqpClient
from inside_client import InsideClient
from protocols.amqp.dispositions import Disposition, disposition_bytes
from protocols.amqp.encoding import encode_composite
from protocols.amqp.message_in import BODY_DATA, body_bytes_of
from protocols.amqp.outcomes import ACCEPTED, REJECTED
from protocols.amqp.performatives import RECEIVER_SECOND, TRANSFER, Detach
from protocols.amqp.values import AmqpValue, ubyte, uint
from running_broker import RunningBroker

HANDLE = 9


async def sender(broker: RunningBroker) -> AmqpClient:
    """Return a client that sends to the queue `q` and settles by itself."""
    await InsideClient(broker, "q").create()
    client = await AmqpClient.open(broker.amqp_port)
    answer = await client.sender("s", "q", handle=HANDLE, rcv_second=True)
    assert answer.receiver_settle_mode == RECEIVER_SECOND
    return client


def message(number: int) -> bytes:
    return body_bytes_of(BODY_DATA, b"%d" % number)


def said_at_length(client: AmqpClient, mode: int) -> None:
    """Send a message whose transfer has a mode of its own."""
    number = client.sent_count
    client.sent_count += 1
    fields: list[AmqpValue] = [uint(HANDLE), uint(number), b"%d" % number, uint(0), False, False, ubyte(mode)]
    client.send(encode_composite(TRANSFER, fields) + message(number))


async def heard_of(client: AmqpClient, count: int) -> list[Disposition]:
    """Return the dispositions of so many deliveries, in order."""
    heard: list[Disposition] = []
    while sum(each.last - each.first + 1 for each in heard) < count:
        heard.append(await client.awaited(Disposition))
    return heard


async def test_the_outcome_of_a_message_is_left_to_its_sender_to_settle(broker: RunningBroker) -> None:
    """AMQP 2.6.12: when the message is safe, as in mode first; what the sender says then is not answered."""
    client = await sender(broker)
    for number in range(3):
        client.transfer(HANDLE, message(number))
    for each in await heard_of(client, 3):
        assert each.is_receiver
        assert not each.settled
        assert each.state is not None
        assert each.state.code == ACCEPTED
    client.send(disposition_bytes(is_receiver=False, first=0, last=2, settled=True, state=None))
    await client.receiver("r", "q", credit=3)
    assert [each.payload for each in await client.deliveries(3)] == [b"0", b"1", b"2"]
    client.settle(0, 2)
    await client.is_quiet()
    await client.close()


async def test_a_rejection_is_left_to_its_sender_as_well(broker: RunningBroker) -> None:
    """AMQP 2.6.12. The link goes on, with its credit."""
    client = await sender(broker)
    client.transfer(HANDLE, b"no message")
    client.transfer(HANDLE, message(1))
    rejected, accepted = await heard_of(client, 2)
    assert (rejected.settled, accepted.settled) == (False, False)
    assert rejected.state is not None
    assert rejected.state.code == REJECTED
    await client.close()


async def test_a_transfer_may_ask_for_mode_first(broker: RunningBroker) -> None:
    """AMQP 2.7.5: for one delivery the mode may be lowered, and then we settle."""
    client = await sender(broker)
    said_at_length(client, mode=0)
    said_at_length(client, mode=1)
    first, second = await heard_of(client, 2)
    assert (first.first, first.settled) == (0, True)
    assert (second.first, second.settled) == (1, False)
    await client.close()


async def test_a_transfer_cannot_ask_for_mode_second_on_a_link_that_is_first(broker: RunningBroker) -> None:
    """AMQP 2.7.5."""
    await InsideClient(broker, "q").create()
    client = await AmqpClient.open(broker.amqp_port)
    assert (await client.sender("s", "q", handle=HANDLE)).receiver_settle_mode != RECEIVER_SECOND
    said_at_length(client, mode=1)
    detach = await client.awaited(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:invalid-field"
    await client.close()
