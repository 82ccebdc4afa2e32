"""Dead-lettering: the changes to a message that moves to a dead message queue, or is restored from one.

A dead message carries a record of its death and starts afresh: its time to live begins anew, a delay is over, and it is
no longer eligible for a dead message queue. If it dies again, in a dead message queue that names another, its first
death stays, and the queue it leaves is added to its path. It never goes to a queue it died in before, so no
configuration sends messages in a circle. A restored message is as its publisher sent it.

See also: which messages die (messaging.partitions.ledger), and the move to the other queue (the actors).
"""

from sluicegate.messaging.message.headers import DeadLetter, Headers


def is_eligible(headers: Headers | None, *, respects_flag: bool) -> bool:
    """Return whether a message may go to a dead message queue. By default a queue permits each of its messages."""
    return not respects_flag or (headers is not None and headers.dmq_eligible)


def was_dead_in(dead: DeadLetter | None, target: str) -> bool:
    """Return whether a message died in that queue before."""
    return dead is not None and (target == dead.queue or target in dead.via)


def with_death(headers: Headers | None, death: DeadLetter, *, received_ms: int) -> Headers:
    """Return the headers of a message that dies now. `received_ms` is when its queue took it; times are wall clock."""
    before = None if headers is None else headers.dead
    renewed = _restarted(headers, received_ms, death.died_ms)
    renewed.dmq_eligible = False
    if before is None:
        renewed.dead = death
    else:
        renewed.dead = DeadLetter(
            reason=before.reason,
            queue=before.queue,
            partition=before.partition,
            delivery_count=before.delivery_count,
            died_ms=before.died_ms,
            client=before.client,
            cause=before.cause,
            was_eligible=before.was_eligible,
            via=(*before.via, death.queue),
        )
    return renewed


def restored(headers: Headers, *, received_ms: int, wall_ms: int) -> Headers:
    """Return the headers of a dead message that goes back to the queue it died in, or to another, to be tried again."""
    death = headers.dead
    renewed = _restarted(headers, received_ms, wall_ms)
    if death is not None:
        renewed.dead = None
        renewed.dmq_eligible = death.was_eligible
    return renewed


def _restarted(headers: Headers | None, received_ms: int, wall_ms: int) -> Headers:
    """Return a copy whose time to live begins now and that is not delayed."""
    renewed = Headers() if headers is None else headers.copy()
    renewed.not_before_ms = 0
    if renewed.expires_at_ms > 0:
        renewed.expires_at_ms = wall_ms + max(1, renewed.expires_at_ms - received_ms)
    return renewed
