"""Apache Qpid Proton's transactions: declared, used and discharged (AMQP 1.0 part 4)."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from proton import Event, Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Transaction

from support.processes.gateway import GatewayProcess, wait_until

pytestmark = [pytest.mark.interop]

ANSWER_S = 30
MESSAGES = 3


class Mover(MessagingHandler, TransactionHandler):
    """Takes messages from one queue and sends them to another, all in one transaction, and discharges it."""

    def __init__(
        self, url: str, source: str, target: str, end: Callable[[Transaction], None], *, settles: bool
    ) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.ended = ""
        self._url = url
        self._source, self._target = source, target
        self._end = end
        self._settles = settles
        self._moved_count = 0
        self._transaction: Transaction | None = None

    def on_start(self, event: Event) -> None:
        self._container = event.container
        self._connection = event.container.connect(self._url, allowed_mechs="ANONYMOUS")
        self._sender = event.container.create_sender(self._connection, self._target)
        self._receiver = event.container.create_receiver(self._connection, self._source)
        self._guard = event.container.schedule(ANSWER_S, self)
        event.container.declare_transaction(self._connection, handler=self, settle_before_discharge=self._settles)

    def on_transaction_declared(self, event: Event) -> None:
        self._transaction = event.transaction
        self._receiver.flow(MESSAGES)

    def on_message(self, event: Event) -> None:
        assert self._transaction is not None
        assert event.delivery is not None
        self._transaction.accept(event.delivery)
        self._transaction.send(self._sender, Message(body="moved"))
        self._moved_count += 1
        if self._moved_count == MESSAGES:
            self._end(self._transaction)

    def on_transaction_committed(self, event: Event) -> None:
        self._finish("committed")

    def on_transaction_aborted(self, event: Event) -> None:
        self._finish("aborted")

    def on_timer_task(self, event: Event) -> None:
        self._finish("timed out")

    def _finish(self, ended: str) -> None:
        self.ended = ended
        self._guard.cancel()
        self._connection.close()


def move(node: GatewayProcess, end: Callable[[Transaction], None], *, settles: bool) -> tuple[str, int, int]:
    """Return how it ended, and how many messages are in the two queues then."""
    source, target = f"from-{uuid4().hex[:12]}", f"to-{uuid4().hex[:12]}"
    node.create_queue(source)
    node.create_queue(target)
    url = f"amqp://127.0.0.1:{node.amqp_port}"
    filled = Filler(url, source)
    Container(filled).run()
    assert filled.accepted_count == MESSAGES
    mover = Mover(url, source, target, end, settles=settles)
    Container(mover).run()
    wait_until(lambda: node.queue(source)["unacked_count"] == 0, within_s=ANSWER_S, what="the end of the consumer")
    counts = node.held_count(source), node.held_count(target)
    for name in (source, target):
        assert node.command("queue", "delete", name, "--yes").returncode == 0
    return mover.ended, *counts


class Filler(MessagingHandler):
    """Sends messages, and waits until they are accepted."""

    def __init__(self, url: str, queue: str) -> None:
        super().__init__()
        self.accepted_count = 0
        self._url, self._queue = url, queue
        self._sent_count = 0

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(self._url, allowed_mechs="ANONYMOUS")
        event.container.create_sender(connection, self._queue)

    def on_sendable(self, event: Event) -> None:
        assert event.sender is not None
        while event.sender.credit and self._sent_count < MESSAGES:
            event.sender.send(Message(body=self._sent_count))
            self._sent_count += 1

    def on_accepted(self, event: Event) -> None:
        self.accepted_count += 1
        if self.accepted_count == MESSAGES:
            assert event.connection is not None
            event.connection.close()


@pytest.mark.parametrize("settles", [True, False], ids=["settled before", "settled after"])
def test_a_commit_moves_everything(node: GatewayProcess, settles: bool) -> None:
    """4.4: publishes and settlements take effect together, whichever way the client settles."""
    assert move(node, lambda transaction: transaction.commit(), settles=settles) == ("committed", 0, MESSAGES)


@pytest.mark.parametrize("settles", [True, False], ids=["settled before", "settled after"])
def test_an_abort_moves_nothing(node: GatewayProcess, settles: bool) -> None:
    """4.4: what was published was never there, what was settled is there still."""
    assert move(node, lambda transaction: transaction.abort(), settles=settles) == ("aborted", MESSAGES, 0)
