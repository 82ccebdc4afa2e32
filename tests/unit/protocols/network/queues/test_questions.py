"""Questions of operators over a link: what ends one that the neighbor, which shows signs of life, does not answer."""

from collections.abc import Iterator

import pytest

from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.protocols.flow.codec.frames.link_flow import LinkDeliver, LinkFlow
from sluicegate.protocols.flow.links import DELIVERIES_BYTES_MAX
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.notes import ACT, ANSWER, ASK, FlowNote, note_body, note_in
from sluicegate.protocols.network.queues.questions import (
    ANSWER_MS_MAX,
    AT_ONCE_MAX,
    SESSION,
    WAITING_MAX,
    Answerer,
    QuestionFailed,
    Questions,
)
from support.cores.lone_actors import Idle, lone_runtime, spawned, turn
from support.network.event_loops import ForwardLoop
from support.network.frame_socket import FrameSocket
from support.network.lone_wire import lone_wire

FRAME_BYTES_MAX = 1024 * 1024


class Asker:
    """The end of a link whose operators ask; `asked` has what was written to the neighbor."""

    def __init__(self, runtime: Runtime, loop: ForwardLoop) -> None:
        self._runtime = runtime
        self._loop = loop
        self._socket = FrameSocket()
        cell = spawned(runtime, Idle)
        answerer = self.answerer = Answerer()
        answerer.answers = self._looks
        answerer.actions = self._does
        self.begun: list[str] = []  # questions and actions of the neighbor
        self.questions = Questions(cell, "b", "default", answerer)
        self._cell = cell
        self._connects()

    def _connects(self) -> None:
        self._wire = lone_wire(self._cell, self._socket)
        self.questions.connected(QueuesChannel(self._wire, 1, FRAME_BYTES_MAX, 99), is_answered=True, acts=True)

    async def _looks(self, vpn: str, what: str, names: list[str]) -> tuple[str, str]:
        self.begun.append(what)
        return "{}", ""

    async def _does(self, neighbor: str, vpn: str, what: str, names: list[str]) -> tuple[str, str]:
        self.begun.append(what)
        return "done", ""

    def is_asked(self, kind: int, number: int, what: str) -> None:
        """The neighbor asks."""
        self.questions.received(note_in(note_body(kind, number, what, "q")))

    def is_slow(self) -> None:
        """From now on the socket takes nothing, and much waits for it."""
        self._wire.paused()
        self._wire.deliver(LinkDeliver(1, 1, 0, 0, 0, 0, 1, 0, b"", bytes(DELIVERIES_BYTES_MAX + 1)))

    def takes_all(self) -> None:
        """The socket takes what waits."""
        self._wire.resumed()
        self._wire.flush()

    def connects_again(self) -> None:
        """The link is lost, and back."""
        self._wire.gone("lost")
        self.questions.disconnected()
        self._connects()

    def passes(self, ms: int) -> None:
        """Let time pass: timers that are due run."""
        self._loop.ahead_ms += ms
        turn(self._runtime)
        turn(self._runtime)

    def asked(self) -> list[FlowNote]:
        """Return the questions that were written since the last time."""
        self._wire.flush()
        notes = []
        for frame in self._socket.take():
            if isinstance(frame, LinkFlow):
                notes.append(note_in(frame.batch))
        return notes

    def answers(self, number: int, text: str) -> None:
        self.questions.received(note_in(note_body(ANSWER, number, text, "")))


@pytest.fixture
def asker() -> Iterator[Asker]:
    loop = ForwardLoop()
    with lone_runtime(loop=loop) as runtime:
        yield Asker(runtime, loop)


def test_a_question_without_an_answer_fails_at_its_limit_and_not_before(asker: Asker) -> None:
    answer = asker.questions.ask("queue", ["q"])
    (note,) = asker.asked()
    assert (note.kind, note.text(0), note.text(1)) == (ASK, "queue", "q")

    asker.passes(ANSWER_MS_MAX - 500)
    assert not answer.done
    asker.passes(500)

    error = answer.error()
    assert isinstance(error, QuestionFailed)
    assert str(error) == "broker b has not answered within 10 s"


def test_an_answer_in_time_counts_and_a_late_one_does_not(asker: Asker) -> None:
    in_time, late = asker.questions.ask("queue", ["q"]), asker.questions.ask("queue", ["r"])
    first, second = (note.consumer for note in asker.asked())
    asker.passes(ANSWER_MS_MAX - 500)
    asker.answers(first, "{}")
    asker.passes(500)
    asker.answers(second, "{}")

    assert in_time.get() == "{}"
    assert isinstance(late.error(), QuestionFailed)
    again = asker.questions.ask("queue", ["r"])
    (note,) = asker.asked()
    asker.answers(second, "the late answer, once more")
    assert not again.done
    asker.answers(note.consumer, "{}")
    assert again.get() == "{}"


def test_an_action_without_an_answer_may_have_been_done_and_says_so(asker: Asker) -> None:
    """Of a question nobody needs to know."""
    late, answered = asker.questions.act("replay", ["q"]), asker.questions.act("replay", ["r"])
    first, second = asker.asked()
    assert (first.kind, second.kind, first.values) == (ACT, ACT, ["replay", "q"])
    asker.answers(second.consumer, "12")
    assert answered.get() == "12"
    asker.passes(ANSWER_MS_MAX)
    assert str(late.error()) == "broker b has not answered within 10 s; it may have been done all the same: look there"

    lost, question = asker.questions.act("replay", ["q"]), asker.questions.ask("queue", ["q"])
    asker.questions.disconnected()
    assert str(lost.error()) == "the link to broker b went down; it may have been done all the same: look there"
    assert str(question.error()) == "the link to broker b went down"
    assert str(asker.questions.act("replay", ["q"]).error()) == "the link to broker b is down"


def test_questions_wait_for_a_slow_link_and_not_without_bound(asker: Asker) -> None:
    """A broker that asks and takes no answers would make them wait in the memory of this one."""
    asker.is_asked(ASK, 1, "queue")
    asker.passes(0)
    asker.is_slow()
    for number in range(WAITING_MAX):
        asker.is_asked(ACT if number % 2 else ASK, number, "replay")
    with pytest.raises(ValueError, match="takes no answers"):
        asker.is_asked(ASK, WAITING_MAX, "queue")
    asker.passes(0)
    assert asker.begun == ["queue"]
    asker.takes_all()
    asker.passes(0)
    assert asker.begun == ["queue"] + ["replay"] * AT_ONCE_MAX
    refused = [note.text(1) for note in asker.asked() if note.text(1)]
    assert len(refused) == WAITING_MAX - AT_ONCE_MAX
    assert set(refused) == {f"the broker is answering {AT_ONCE_MAX} questions already: try again"}


def test_questions_that_wait_when_a_link_is_lost_are_answered_on_no_other(asker: Asker) -> None:
    asker.is_slow()
    asker.is_asked(ACT, 1, "replay")
    asker.connects_again()
    asker.is_asked(ASK, 1, "queue")
    asker.passes(0)
    assert asker.begun == ["queue"]


def test_a_question_that_no_frame_takes_fails_at_once(asker: Asker) -> None:
    """A client identifier may be long: it must not end the link."""
    answer = asker.questions.ask(SESSION, ["c" * FRAME_BYTES_MAX, ""])
    assert "more than the link takes" in str(answer.error())
    assert asker.asked() == []


def test_sessions_are_told_of_at_once_however_many_questions_are_being_answered(asker: Asker) -> None:
    asker.answerer.sessions = lambda vpn, client_id, user: f"{vpn} {client_id} {user}"
    for number in range(AT_ONCE_MAX):
        asker.is_asked(ASK, number, "queue")
    asker.questions.received(note_in(note_body(ASK, 900, SESSION, "mover", "ada")))
    (note,) = asker.asked()
    assert (note.kind, note.consumer, note.text(0), note.text(1)) == (ANSWER, 900, "default mover ada", "")
    assert asker.questions.answering_count == AT_ONCE_MAX
