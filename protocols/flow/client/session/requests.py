"""Requests that belong to no flow: subscriptions, queues, cursors, staged rows. Each is answered, or fails, once.

Flow: subscriptions, bulk. Requests may be pipelined, as many as the gateway accepts unanswered. If the connection
breaks a request is sent again on the next one, because repeating it has the same effect; except for those that are not
idempotent, such as STAGE, which would keep its rows twice. A queue's broker that cannot be reached for a moment is like
a lost connection: a request that is refused for it is sent again when the gateway says, for as long as the client would
try to connect. Other refusals with a time to retry are for the program, which knows what else it can do.
"""

from collections import deque
from collections.abc import Callable
from typing import final

from sluicegate.protocols.flow.client.errors import FlowClientError, MessageTooLarge, RequestInterrupted, RequestRefused
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.cursor import Positions, RangeCut
from sluicegate.protocols.flow.codec.frames.provision import Provisioned
from sluicegate.protocols.flow.codec.frames.session import Error
from sluicegate.protocols.flow.codec.frames.stage import StagingAnswer
from sluicegate.protocols.flow.codec.frames.subscription import Subscribed
from sluicegate.protocols.flow.codec.limits import REQUESTS_MAX, STAGES_MAX
from sluicegate.protocols.flow.engine.engine import FlowEngine

Answer = Positions | RangeCut | StagingAnswer | Subscribed | Provisioned


@final
class Request:
    """One request, until it is answered."""

    __slots__ = ("again_at_ms", "answer", "error", "frame_of", "is_stage", "may_repeat", "refused_ms")

    def __init__(self, frame_of: Callable[[int], bytes], *, is_stage: bool = False, may_repeat: bool = True) -> None:
        self.frame_of = frame_of  # given a request id
        self.is_stage = is_stage
        self.may_repeat = may_repeat and not is_stage  # done twice, it is as if it were done once
        self.answer: Answer | None = None
        self.error: FlowClientError | None = None
        self.refused_ms: int | None = None  # when it was refused for now, the first time
        self.again_at_ms = 0  # when to send it again after that


@final
class Requests:
    """The requests of one session.

    Invariant: at most REQUESTS_MAX are sent and unanswered, and at most STAGES_MAX of them keep rows.
    """

    def __init__(self, give_up_ms: int) -> None:
        """`give_up_ms` is how long a request is sent again that is refused for now; 0: for ever."""
        self.done: list[Request] = []  # for the owner to take
        self._give_up_ms = give_up_ms
        self._waiting: deque[Request] = deque()
        self._refused: list[Request] = []  # for now, each waits for its time
        self._unanswered: dict[int, Request] = {}
        self._stages_count = 0  # of the unanswered ones

    def add(self, request: Request) -> None:
        """Take a request; `pump` sends it."""
        self._waiting.append(request)

    def pump(self, engine: FlowEngine, take_id: Callable[[], int], frame_bytes_max: int) -> None:
        """Send what may be sent now. Requests of either kind stay in their order.

        One that needs a larger frame than the gateway takes fails by itself: sent, it would end the connection for all.
        """
        passed_over: list[Request] = []
        while self._waiting and len(self._unanswered) < REQUESTS_MAX:
            request = self._waiting.popleft()
            if request.is_stage and self._stages_count == STAGES_MAX:
                passed_over.append(request)
                continue
            request_id = take_id()
            frame = request.frame_of(request_id)
            if len(frame) > frame_bytes_max:
                text = f"the request needs {len(frame)} bytes, more than the {frame_bytes_max} of a frame"
                self._fail(request, MessageTooLarge(text))
                continue
            self._stages_count += request.is_stage
            self._unanswered[request_id] = request
            engine.send(frame)
        self._waiting.extendleft(reversed(passed_over))

    def answered(self, answer: Answer) -> None:
        """Take an answer."""
        request = self._take(answer.request_id)
        if request is not None:
            request.answer = answer
            self.done.append(request)

    def refused(self, error: Error, now_ms: int) -> None:
        """Take an error that answers a request."""
        request = self._take(error.request_id)
        if request is None:
            return
        if request.may_repeat and error.code == codes.DISABLED and error.retry_after_ms is not None:
            if request.refused_ms is None:
                request.refused_ms = now_ms
            if not self._give_up_ms or now_ms - request.refused_ms < self._give_up_ms:
                request.again_at_ms = now_ms + error.retry_after_ms
                self._refused.append(request)
                return
        self._fail(request, RequestRefused(error.code, error.text, error.retry_after_ms))

    def tick(self, now_ms: int) -> None:
        """Bring time: `pump` sends again what was refused for now."""
        if self._refused:
            self._waiting.extend([each for each in self._refused if each.again_at_ms <= now_ms])
            self._refused = [each for each in self._refused if each.again_at_ms > now_ms]

    def interrupted(self) -> None:
        """The connection is gone: send unanswered requests again on the next one."""
        again: list[Request] = []
        for request in self._unanswered.values():
            if request.may_repeat:
                again.append(request)
            else:
                text = "the connection broke before the answer: whether the request was carried out is not known"
                self._fail(request, RequestInterrupted(text))
        self._waiting.extendleft(reversed(again))
        self._unanswered.clear()
        self._stages_count = 0

    def end(self, error: FlowClientError) -> None:
        """The session is over."""
        for request in [*self._unanswered.values(), *self._refused, *self._waiting]:
            self._fail(request, error)
        self._unanswered.clear()
        self._refused.clear()
        self._waiting.clear()

    def _take(self, request_id: int) -> Request | None:
        request = self._unanswered.pop(request_id, None)
        if request is not None:
            self._stages_count -= request.is_stage
        return request

    def _fail(self, request: Request, error: FlowClientError) -> None:
        request.error = error
        self.done.append(request)

    def __repr__(self) -> str:
        return f"Requests({len(self._unanswered)} unanswered, {len(self._waiting) + len(self._refused)} waiting)"
