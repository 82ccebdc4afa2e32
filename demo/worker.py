"""A worker of the demo: consumes readings with AMQP 1.0, converts them to metric units, and sends the results.

`python -m demo.worker URL SOURCE TARGET` runs as a separate process, because the demo kills one worker. A transaction
covers both the consumed and the sent messages: when the worker dies, both took effect or neither. It runs until it is
ended.
"""

import json
import sys
from collections import deque
from typing import Any, Final, final

from proton import Event, Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Transaction

from demo.readings import FAHRENHEIT

MESSAGES_MAX: Final = 100  # of a transaction; also the credit
COMMIT_EVERY_S: Final = 0.1  # for transactions that do not fill


@final
class Worker(MessagingHandler, TransactionHandler):
    """Moves messages from a queue to another, one transaction after the other."""

    def __init__(self, url: str, source: str, target: str) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self._url, self._source, self._target = url, source, target
        self._transaction: Transaction | None = None
        self._waiting: deque[tuple[Message, Any]] = deque()  # came, and belongs to no transaction yet
        self._moved_count = 0  # in the transaction

    def on_start(self, event: Event) -> None:
        """Connect, and begin."""
        self._container = event.container
        self._connection = event.container.connect(self._url, allowed_mechs="ANONYMOUS")
        self._sender = event.container.create_sender(self._connection, self._target)
        self._receiver = event.container.create_receiver(self._connection, self._source)
        self._receiver.flow(MESSAGES_MAX)
        self._declare()
        self.on_timer_task(event)

    def on_transaction_declared(self, event: Event) -> None:
        """Work on what came meanwhile."""
        self._transaction = event.transaction
        self._work()

    def on_message(self, event: Event) -> None:
        """Work on it as soon as there is a transaction."""
        self._waiting.append((event.message, event.delivery))
        self._work()

    def on_sendable(self, event: Event) -> None:
        """Go on; without credit a message would wait in proton, and come after the commit."""
        self._work()

    def on_timer_task(self, event: Event) -> None:
        """Commit what there is, again and again."""
        if self._moved_count and self._transaction is not None:
            self._commit()
        self._container.schedule(COMMIT_EVERY_S, self)

    def on_transaction_committed(self, event: Event) -> None:
        """Ask for as many as were moved, and begin the next."""
        self._receiver.flow(self._moved_count)
        self._moved_count = 0
        self._declare()

    def on_transaction_commit_failed(self, event: Event) -> None:
        """End; what this worker had comes to another."""
        sys.exit("the gateway refused a commit")

    def _declare(self) -> None:
        self._container.declare_transaction(self._connection, handler=self)

    def _work(self) -> None:
        while self._transaction is not None and self._waiting and self._sender.credit:
            message, delivery = self._waiting.popleft()
            self._transaction.accept(delivery)
            self._transaction.send(self._sender, worked_on(message))
            self._moved_count += 1
            if self._moved_count == MESSAGES_MAX:
                self._commit()

    def _commit(self) -> None:
        transaction, self._transaction = self._transaction, None
        assert transaction is not None, "what moves, moves in one"
        transaction.commit()


def worked_on(message: Message) -> Message:
    """Return the result for a reading, with its key and identity."""
    body: Any = message.body  # a view of bytes, which proton's types do not know of
    reading = json.loads(bytes(body))
    if reading["unit"] == FAHRENHEIT:
        reading |= {"value": round((reading["value"] - 32) / 1.8, 2), "unit": "C"}
    return Message(
        body=json.dumps(reading).encode(),
        inferred=True,  # bytes as they are, and no value of AMQP
        durable=True,
        content_type="application/json",
        group_id=message.group_id,
        correlation_id=message.correlation_id,
    )


if __name__ == "__main__":
    Container(Worker(*sys.argv[1:])).run()
