"""The immediate result of a publish; the store's result comes later, as Confirmed or PublishFailed."""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.refusals import ADMITTED, limited_text, refusal_text
from sluicegate.messaging.routing.destinations import QueueTarget

REASON_CHARS_MAX: Final = 2_000  # of the text about the second queue that refuses, and further ones


@final
@mypyc_attr(free_list_len=1)
class PublishResult:
    """The immediate result of a publish.

    `confirmations_pending` answers (Confirmed or PublishFailed) will come to the publisher's address; with none pending
    and no refusal the publish is complete. A refusal means that no queue took anything; the refusal of a batch of
    several rows concerns some of them and is not counted, for then the caller publishes them again one by one. `routed`
    is False without any destination.
    """

    def __init__(self) -> None:
        self.confirmations_pending: i64 = 0
        self.refusal: i64 = ADMITTED
        self.refused_by = ""  # the queue that refused
        self.limit = ""  # its limit
        self.also_refused = ""  # more for the publisher: other queues that refused, each with its reason
        self.routed = True
        self.retains = True  # where RETAIN asks for it; False: there is no room, and the publisher is not told
        self.publication: Publication | None = None  # the stored part, with its later outcome
        self.forwarded: ForwardingResult | None = None  # None: no definition forwards it

    def reason(self) -> str:
        """Return the text for the publisher: each queue that refused, and why."""
        return refusal_text(self.refusal, self.refused_by, self.limit) + self.also_refused

    def text(self) -> str:
        """Return why the first queue refused, without its name."""
        return limited_text(self.refusal, self.limit)

    def refuse(self, verdict: int, refused_by: str, limit: str = "") -> None:
        """Record that a queue refuses, and its limit."""
        if self.refusal == ADMITTED:
            self.refusal = verdict
            self.refused_by = refused_by
            self.limit = limit
        elif len(self.also_refused) < REASON_CHARS_MAX:
            self.also_refused += f"; {refusal_text(verdict, refused_by, limit)}"


@final
class ForwardingResult:
    """What the definitions say that forward a publish. The counts are applied when no queue refuses."""

    def __init__(self, published_count: int) -> None:
        self.published_count = published_count  # messages, without their copies
        self.missing_count = 0  # for target queues that do not exist
        self.unmatched_count = 0  # copies without a subscriber
        self.filtered_count = 0  # messages whose selectors leave them no destination
        self.spared: dict[QueueTarget, None] = {}
        self.is_partial = False
        self.is_concurrent = False
