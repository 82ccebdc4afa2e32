"""Error codes for requests that actors refuse, and which of them a client may retry."""

from typing import Final

from sluicegate.messaging.bulk import durable_cursors as cursors
from sluicegate.messaging.bulk import staging
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.peer import FlowPeer

RETRY_AFTER_MS: Final = 1_000  # when a client may retry a request that is refused for now

# For cursors and transactions; a reason that both have has the same text.
REFUSAL_CODES: Final[dict[str, int]] = {
    cursors.BAD_CURSOR: codes.REQUEST_INVALID,
    cursors.FENCED: codes.FENCED,
    cursors.NO_SUCH_QUEUE: codes.NOT_FOUND,
    cursors.NOT_DURABLE: codes.REQUEST_INVALID,
    cursors.MODE_DIFFERS: codes.REQUEST_INVALID,
    cursors.TOO_MANY: codes.TOO_MANY,
    cursors.QUEUE_IN_USE: codes.IN_USE,
    cursors.NOT_STORED: codes.NOT_STORED,
    cursors.NO_SUCH_CURSOR: codes.NOT_FOUND,
    cursors.NO_SUCH_PARTITION: codes.NOT_FOUND,
    cursors.AHEAD: codes.REQUEST_INVALID,
    staging.BAD_TRANSACTION: codes.REQUEST_INVALID,
    staging.TOO_LARGE: codes.MESSAGE_TOO_LARGE,
    staging.TOO_MUCH_STAGED: codes.SPOOL_FULL,
    staging.NOT_STAGED: codes.NOT_FOUND,
    staging.BUSY: codes.IN_USE,
    staging.NOT_PUBLISHED: codes.NOT_PUBLISHED,
    staging.STAGE_DAMAGED: codes.UNREADABLE,
    staging.OF_ANOTHER: codes.PERMISSION_DENIED,
}

_FOR_NOW: Final = frozenset({codes.TOO_MANY, codes.IN_USE, codes.NOT_STORED, codes.SPOOL_FULL, codes.NOT_PUBLISHED})


def refuse(peer: FlowPeer, flow_id: int, request_id: int, code: int, text: str) -> None:
    """Answer a request with an ERROR that says whether a retry makes sense."""
    peer.refuse_request(flow_id, request_id, code, text, RETRY_AFTER_MS if code in _FOR_NOW else None)
