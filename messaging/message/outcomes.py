"""Outcomes that a consumer gives a message, and reasons for which the broker drops one."""

from typing import Final

# Outcomes of a delivery: the words of AMQP 1.0 section 3.4 and of the flow protocol.
ACCEPTED: Final = 0  # consumed; removed
RELEASED: Final = 1  # given back untouched; delivered again, its count stays
FAILED: Final = 2  # given back after a try; delivered again, its count rises
REJECTED: Final = 3  # never to be delivered again from this queue
RELEASED_ELSEWHERE: Final = 4  # as released, but never again to this flow
FAILED_ELSEWHERE: Final = 5  # as failed, but never again to this flow

OUTCOMES: Final = ("accepted", "released", "failed", "rejected")  # those that have a name in every protocol

WHICHEVER: Final = 0  # as the delivery count that a settlement names: whichever delivery the flow holds

# Reasons for which a queue drops a message it had taken. Each is a counter.
DISCARD_EXPIRED: Final = "expired"
DISCARD_MAX_REDELIVERY: Final = "max_redelivery_exceeded"
DISCARD_REJECTED: Final = "rejected"
DISCARD_UNDELIVERABLE: Final = "undeliverable"  # every consumer that could have it wants it to go elsewhere
DISCARD_PURGED: Final = "purged"
DISCARD_DELETED: Final = "deleted"  # one by one, by an operator or a browser
DISCARD_DAMAGED: Final = "damaged"
DISCARD_REPLACED: Final = "replaced"  # by a newer one, in a last-value queue
DISCARD_NOT_STORED: Final = "not_stored"
DISCARD_PARTITION_FAILED: Final = "partition_failed"  # in memory only, and what holds it there had to be made anew
DISCARD_SESSION_ENDED: Final = "session_ended"  # it could be completed only with a client that is gone

# Of these, a queue with a dead message queue moves the message there. The rest is somebody's wish, or past saving.
DEAD_REASONS: Final = (DISCARD_EXPIRED, DISCARD_MAX_REDELIVERY, DISCARD_REJECTED, DISCARD_UNDELIVERABLE)
TO_DMQ_FAILED: Final = "_to_dmq_failed"  # behind a reason: dropped, because the dead message queue did not take it
