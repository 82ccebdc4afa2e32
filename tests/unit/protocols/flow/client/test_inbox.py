"""What a consumer of the client library may get: credit that is granted, taken back, and granted again."""

from sluicegate.protocols.flow.client.session.inbox import OVERHEAD_BYTES, Inbox
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.flow import Bound
from sluicegate.protocols.flow.codec.frames.settle import Credit
from support.flow.engine_pair import NOW_MS, open_client

FLOW = 3
WINDOW, WINDOW_BYTES = 10, 2 * OVERHEAD_BYTES
SPOOL = 0x5B001  # its incarnation


def delivered(delivery_id: int) -> Delivered:
    return Delivered(
        flow_id=FLOW,
        delivery_id=delivery_id,
        message_id=delivery_id,
        partition=0,
        epoch=1,
        delivery_count=1,
        redelivered=False,
        was_direct=False,
        first_of_group=False,
        received_ms=NOW_MS,
        topic="t",
        headers=None,
        payload=b"",
    )


def test_an_answer_to_a_recall_says_nothing_of_what_was_granted_behind_it() -> None:
    """Flow: consuming, credit. A consumer that takes everything at once may recall again before it is answered."""
    engine = open_client()
    inbox = Inbox("q", window=WINDOW, window_bytes=WINDOW_BYTES, unsettled_max=0, renew_every_ms=0)
    inbox.request(1, FLOW)
    inbox.opened(Bound(FLOW, 1, 100, SPOOL))
    for first in (1, 4):
        inbox.delivered([delivered(each) for each in range(first, first + 3)])
        inbox.pump(engine)  # too many bytes lie here: it takes its credit back
        inbox.take(3)
        inbox.pump(engine)
    inbox.delivered([delivered(each) for each in range(7, 10)])
    inbox.pump(engine)

    inbox.credited(Credit(FLOW, 3, False, True))

    inbox.delivered([delivered(10)])
    inbox.check()
