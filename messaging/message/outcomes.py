"""The outcomes that a consumer gives a message, and the reasons for which the broker drops one."""

from typing import Final

# Outcomes of a delivery: the words of AMQP 1.0 section 3.4 and of the flow protocol.
ACCEPTED: Final = 0  # consumed; the queue removes it
RELEASED: Final = 1  # returned untouched; delivered again with the same delivery count
FAILED: Final = 2  # returned after a try; delivered again with a higher delivery count
REJECTED: Final = 3  # this queue never delivers it again
RELEASED_ELSEWHERE: Final = 4  # as RELEASED, but never again to this flow
FAILED_ELSEWHERE: Final = 5  # as FAILED, but never again to this flow

OUTCOMES: Final = ("accepted", "released", "failed", "rejected")  # the outcomes with a name in every protocol

WHICHEVER: Final = 0  # a settlement with this delivery count applies to any delivery that the flow holds

# Reasons for which a queue drops a message that it had taken. Each has a counter.
DISCARD_EXPIRED: Final = "expired"
DISCARD_MAX_REDELIVERY: Final = "max_redelivery_exceeded"
DISCARD_REJECTED: Final = "rejected"
DISCARD_UNDELIVERABLE: Final = "undeliverable"  # every consumer that could have it wants it delivered elsewhere
DISCARD_PURGED: Final = "purged"
DISCARD_DELETED: Final = "deleted"  # one by one, by an operator or a browser
DISCARD_DAMAGED: Final = "damaged"
DISCARD_REPLACED: Final = "replaced"  # by a newer one, in a last-value queue
DISCARD_NOT_STORED: Final = "not_stored"
DISCARD_PARTITION_FAILED: Final = "partition_failed"  # in memory only, and what holds it there had to be made anew
DISCARD_SESSION_ENDED: Final = "session_ended"  # only a client that is gone could complete it

# For these reasons a queue with a dead message queue moves the message there. The others are wanted, or beyond help.
DEAD_REASONS: Final = (DISCARD_EXPIRED, DISCARD_MAX_REDELIVERY, DISCARD_REJECTED, DISCARD_UNDELIVERABLE)
TO_DMQ_FAILED: Final = "_to_dmq_failed"  # suffix of a reason: dropped, because the dead message queue did not take it
