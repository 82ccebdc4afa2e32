"""The load generator's AMQP sender over a socket: how much it sends at once."""

import select
import socket

from bench.load.amqp import CREDIT, AmqpSender
from bench.load.lanes import Lane
from bench.load.plan import AMQP, LoadPlan
from bench.wire.connections import Connection


def test_a_sender_with_a_rate_sends_all_that_is_due_as_far_as_there_is_credit() -> None:
    """A load with a rate has no window: whenever the generator was held up, several messages are due at once."""
    plan = LoadPlan(protocol=AMQP, qos=1, rate=1_000)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        select.epoll() as poll,
        Connection(server.getsockname()) as connection,
        server.accept()[0] as broker,
    ):
        connection.join(poll)
        sender = AmqpSender(connection, plan, Lane(plan, 0))
        sender.credit_until = 3
        assert sender.publish(5) == 3
        frames = broker.recv(4096)
        sender.credit_until = 10 * CREDIT
        assert sender.publish(2 * CREDIT) == CREDIT
    assert len(frames) == 3 * int.from_bytes(frames[:4], "big")
