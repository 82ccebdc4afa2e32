"""Questions of one broker's operators about queues of the other: each is asked once, and answered once.

The gateway says what an answer is; here it is a text. A question whose connection ends, or that is not answered in
time, fails: whoever asked may ask again. An action is a question whose answer tells what was done; if it fails so, it
may have been done.
"""

import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, final

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.notes import ACT, ANSWER, ASK, FlowNote, note_body

ANSWER_MS_MAX: Final = 10_000
AT_ONCE_MAX: Final = 64  # questions of one neighbor that are being answered
WAITING_MAX: Final = 1_000  # questions of one neighbor that wait until the link has taken earlier answers

log = logging.getLogger("sluicegate.network")

# Takes the message VPN here, what is asked, and names. Returns the answer, and why there is none: one is empty.
Answers = Callable[[str, str, list[str]], Coroutine[Any, Any, tuple[str, str]]]
# Takes the neighbor whose operator asks for it, and then the same. Returns what was done, and why it was not.
Actions = Callable[[str, str, str, list[str]], Coroutine[Any, Any, tuple[str, str]]]

# The one question that is not an operator's: whether the MQTT session of a client identifier is kept for a user. Many
# clients may come at once, so it is answered at once, and is none of those that are being answered.
SESSION: Final = "session"

PERHAPS_DONE: Final = "; it may have been done all the same: look there"


class QuestionFailed(Exception):
    """There is no answer; the text says why."""


@final
class Answerer:
    """Who answers the questions of all neighbors."""

    def __init__(self) -> None:
        self.answers: Answers | None = None  # None: the broker has no ports for operators
        self.actions: Actions | None = None  # the same
        # Takes the message VPN here, client identifier and user; returns what the neighbor is told of the session.
        self.sessions: Callable[[str, str, str], str] | None = None
        self.allows: Callable[[str], bool] = lambda _: True  # whether operators of a neighbor may change queues here


@final
class Questions:
    """The questions of both ends of a link, in one message VPN."""

    def __init__(self, cell: ActorCell, neighbor: str, vpn: str, answerer: Answerer) -> None:
        self.answering_count = 0  # questions and actions of the neighbor
        self._waiting: deque[tuple[int, int, str, list[str]]] = deque()  # kind, number, what, and names
        self._is_held_back = False  # too much waits for the socket: nothing is answered
        self._cell = cell
        self._neighbor = neighbor
        self._vpn = vpn
        self._answerer = answerer
        self._channel: QueuesChannel | None = None
        self._is_answered = False  # the neighbor knows questions
        self._acts = False  # the neighbor knows actions
        self._number = 0
        self._asked: dict[int, tuple[int, LoopFuture[str]]] = {}  # kinds and answers of those without, by number

    def connected(self, channel: QueuesChannel, *, is_answered: bool, acts: bool) -> None:
        """Begin on a new connection. `is_answered`: the neighbor knows questions; `acts`: it knows actions."""
        self._channel = channel
        self._is_answered = is_answered
        self._acts = acts

    def disconnected(self) -> None:
        """The connection is gone."""
        self._channel = None
        self._waiting.clear()
        self._is_held_back = False
        for number in list(self._asked):
            self._give_up(number, f"the link to broker {self._neighbor} went down")

    def ask(self, what: str, names: list[str]) -> LoopFuture[str]:
        """Ask the neighbor; return the answer, which is there later. QuestionFailed is its exception."""
        return self._put(ASK, what, names, "" if self._is_answered else "does not answer: ask there")

    def act(self, what: str, names: list[str]) -> LoopFuture[str]:
        """Have the neighbor do something; return what it says of it, which is there later.

        QuestionFailed is its exception.
        """
        return self._put(ACT, what, names, "" if self._acts else "does nothing for operators elsewhere: do it there")

    def _put(self, kind: int, what: str, names: list[str], lack: str) -> LoopFuture[str]:
        self._number += 1
        number = self._number
        answer: LoopFuture[str] = LoopFuture()
        channel = self._channel
        if channel is None:
            _fail(answer, f"the link to broker {self._neighbor} is down")
        elif lack:
            _fail(answer, f"broker {self._neighbor} is of an earlier release, which {lack}")
        elif not channel.takes(body := note_body(kind, number, what, *names)):
            _fail(answer, f"the question has {len(body)} bytes, more than the link takes")
        else:
            self._asked[number] = (kind, answer)
            channel.send(body)
            self._cell.after(ANSWER_MS_MAX, partial(self._is_late, number))
        return answer

    def received(self, note: FlowNote) -> None:
        """Handle a question or an answer of the neighbor. Raises ValueError."""
        if note.kind != ANSWER:
            channel = self._channel
            assert channel is not None, "notes come over a connection"
            names = [note.text(place) for place in range(1, len(note.values))]
            if not self._waits_for(channel):
                self._is_asked(channel, note.kind, note.consumer, note.text(0), names)
            elif len(self._waiting) < WAITING_MAX:
                self._waiting.append((note.kind, note.consumer, note.text(0), names))
            else:
                raise ValueError(f"{WAITING_MAX} questions by a broker that takes no answers, and more")
            return
        text, error = note.text(0), note.text(1)
        asked = self._asked.pop(note.consumer, None)
        if asked is None:
            return  # it is late
        if error:
            _fail(asked[1], error)
        else:
            asked[1].set(text)

    def _is_late(self, number: int) -> None:
        self._give_up(number, f"broker {self._neighbor} has not answered within {ANSWER_MS_MAX // 1000} s")

    def _give_up(self, number: int, text: str) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None:
            _fail(asked[1], text + PERHAPS_DONE if asked[0] == ACT else text)

    def _waits_for(self, channel: QueuesChannel) -> bool:
        """Return whether too much waits for the socket already; `_written` goes on then."""
        if channel.wire.holds_back and not self._is_held_back:
            self._is_held_back = True
            channel.wire.call_when_written(self._written)
        return self._is_held_back

    def _written(self) -> None:
        channel = self._channel
        self._is_held_back = False
        while channel is not None and self._waiting and not self._waits_for(channel):
            self._is_asked(channel, *self._waiting.popleft())

    def _is_asked(self, channel: QueuesChannel, kind: int, number: int, what: str, names: list[str]) -> None:
        answers, actions = self._answerer.answers, self._answerer.actions
        if kind == ASK and what == SESSION and len(names) == 2 and self._answerer.sessions is not None:
            _answer(channel, number, self._answerer.sessions(self._vpn, names[0], names[1]), "")
        elif answers is None or actions is None:
            _answer(channel, number, "", "the broker has no ports for operators, and answers for no queues")
        elif self.answering_count >= AT_ONCE_MAX:
            _answer(channel, number, "", f"the broker is answering {AT_ONCE_MAX} questions already: try again")
        else:
            self.answering_count += 1
            runtime = self._cell.runtime
            find = partial(answers, self._vpn) if kind == ASK else partial(actions, self._neighbor, self._vpn)
            runtime.keep(runtime.loop.create_task(self._find_answer(find, channel, number, what, names)))

    async def _find_answer(
        self,
        find: Callable[[str, list[str]], Coroutine[Any, Any, tuple[str, str]]],
        channel: QueuesChannel,
        number: int,
        what: str,
        names: list[str],
    ) -> None:
        """Answer when the gateway has, if this is still the connection of the question."""
        try:
            text, error = await find(what, names)
        except Exception:  # it must cost neither the link nor the broker
            log.exception("the question of neighbor %s about %s was not answered", self._neighbor, what)
            text, error = "", "the broker could not find the answer; its log says why"
        finally:
            self.answering_count -= 1
        if channel is self._channel:
            _answer(channel, number, text, error)


def _answer(channel: QueuesChannel, number: int, text: str, error: str) -> None:
    body = note_body(ANSWER, number, text, error)
    if channel.takes(body):
        channel.send(body)
    else:
        lack = f"the answer has {len(body)} bytes, more than the link takes: ask there"
        channel.note(ANSWER, number, "", lack)


def _fail(answer: LoopFuture[str], text: str) -> None:
    answer.set_exception((QuestionFailed, QuestionFailed(text), None))
