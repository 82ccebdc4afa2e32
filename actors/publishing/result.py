"""What became of a publish at once; what the store says of it comes later, as Confirmed or PublishFailed."""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.refusals import ADMITTED, limited_text, refusal_text
from sluicegate.messaging.routing.destinations import QueueTarget

REASON_CHARS_MAX: Final = 2_000  # of what is said of the second queue that refuses, and of further ones


@final
@mypyc_attr(free_list_len=1)
class PublishResult:
    """What became of a publish at once.

    `confirmations_pending` answers (Confirmed or PublishFailed) will come to the publisher's address; with none pending
    and no refusal the publish is done. A refusal means that no queue took anything; that of a batch of several concerns
    some of them and is not counted, for then the caller publishes them again one by one. `routed` is False with nobody
    there.
    """

    def __init__(self) -> None:
        self.confirmations_pending: i64 = 0
        self.refusal: i64 = ADMITTED
        self.refused_by = ""  # the queue that said no
        self.limit = ""  # what it allows
        self.also_refused = ""  # and others that did, each with its reason
        self.routed = True
        self.retains = True  # where RETAIN asks for it; False: there is no room, and nobody to be told
        self.publication: Publication | None = None  # what is stored of it, with its later fate
        self.forwarded: ForwardingResult | None = None  # None: no definition sends it on

    def reason(self) -> str:
        """Return what the publisher is told of a refusal: each queue that said no, and why."""
        return refusal_text(self.refusal, self.refused_by, self.limit) + self.also_refused

    def text(self) -> str:
        """Return why the first queue says no, without its name."""
        return limited_text(self.refusal, self.limit)

    def refuse(self, verdict: int, refused_by: str, limit: str = "") -> None:
        """Note that a queue says no, and what it allows."""
        if self.refusal == ADMITTED:
            self.refusal = verdict
            self.refused_by = refused_by
            self.limit = limit
        elif len(self.also_refused) < REASON_CHARS_MAX:
            self.also_refused += f"; {refusal_text(verdict, refused_by, limit)}"


@final
class ForwardingResult:
    """What the definitions say that send a publish on. The counts are told once nobody refuses it."""

    def __init__(self, published_count: int) -> None:
        self.published_count = published_count  # messages, before there are copies of them
        self.missing_count = 0  # for target queues that there are not
        self.unmatched_count = 0  # copies that nobody subscribes to
        self.filtered_count = 0  # messages whose selectors leave them nobody
        self.spared: dict[QueueTarget, None] = {}
        self.is_partial = False
        self.is_concurrent = False
