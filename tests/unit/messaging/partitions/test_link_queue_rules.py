"""The partition of a link queue: what it delivers before the commit, what it does not, and that it keeps one order."""

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from support.cores.messages import batch_of, flow_of, published, sequences_of


class LinkQueue:
    """The ledger of a link queue, and the link as its consumer."""

    def __init__(self) -> None:
        self.ledger = Ledger(durable=True, rules=DeliveryRules(passes_on=True, expires_once_delivered=False))
        self.ledger.attach(flow_of(1, limit=1000), epoch=1)

    def append(
        self, batch: MessageBatch, *, rows: bool = False, settles: bool = False, is_transaction: bool = False
    ) -> Publication:
        publication = published(batch)
        publication.session_rows = [(b"k", b"v")] if rows else None
        publication.settlements = [(9, 1, 2)] if settles else None
        publication.is_transaction = is_transaction
        publication.sequenced(1, self.ledger.append(batch, publication), None)
        return publication

    def delivered(self, wall_ms: int = 0) -> list[int]:
        deliveries = self.ledger.deliver(wall_ms)
        self.ledger.check()
        return [sequence for delivery in deliveries for sequence in sequences_of(delivery)]


def test_an_ordinary_message_crosses_before_its_commit() -> None:
    queue = LinkQueue()
    publication = queue.append(batch_of([b"a"]))
    assert queue.delivered() == [1]
    assert publication.may_be_spared(), "it need not be written if the neighbor answers in time"


def test_a_message_of_an_exactly_once_publisher_crosses_after_its_commit() -> None:
    """After a crash before the commit the publisher sends it again, and the neighbor could not tell that it has it."""
    queue = LinkQueue()
    publication = queue.append(batch_of([b"a"]), rows=True)
    assert queue.delivered() == []
    publication.confirmed = True
    assert queue.delivered() == [1]


def test_nothing_of_a_transaction_crosses_before_its_commit() -> None:
    queue = LinkQueue()
    publication = queue.append(batch_of([b"a", b"b"]), is_transaction=True)
    assert queue.delivered() == []
    publication.confirmed = True
    assert queue.delivered() == [1, 2]


def test_nothing_overtakes_a_message_that_waits_for_its_commit() -> None:
    queue = LinkQueue()
    queue.append(batch_of([b"a"]))
    waiting = queue.append(batch_of([b"b"]), settles=True)
    behind = queue.append(batch_of([b"c"]))
    assert queue.delivered() == [1]
    behind.confirmed = True
    assert queue.delivered() == []
    waiting.confirmed = True
    assert queue.delivered() == [2, 3]
    queue.append(batch_of([b"d"]))
    assert queue.delivered() == [4], "elision is possible again"


def test_a_delayed_message_crosses_at_once_and_in_order() -> None:
    queue = LinkQueue()
    delayed = batch_of([b"a"]).with_headers([Headers(not_before_ms=5_000)])
    queue.append(delayed)
    queue.append(batch_of([b"b"]))
    assert queue.delivered(1_000) == [1, 2]
