"""A turn of the dispatcher: what is served in it, what at its end, and what has to wait for the next one."""

from collections.abc import Callable

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.inbox import ROUNDS_PER_TURN_MAX, Dispatcher, FlushCall
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from support.cores.lone_actors import Recorder, lone_runtime, recorder, turn


def dispatcher(turns: list[Callable[[], None]]) -> Dispatcher:
    """Return a dispatcher whose turns the test makes."""

    def fail(error: BaseException) -> None:
        raise error

    return Dispatcher(call_soon=turns.append, clock=SystemClock(), on_fatal=fail)


def test_what_may_take_longer_comes_behind_all_other_work_at_the_end_of_a_turn() -> None:
    turns: list[Callable[[], None]] = []
    served = dispatcher(turns)
    order: list[str] = []
    served.at_turn_end_last(FlushCall(lambda: order.append("commit"), None))
    served.at_turn_end(FlushCall(lambda: order.append("write"), None))
    (begin,) = turns
    begin()

    assert order == ["write", "commit"]
    assert turns == [begin], "nothing is left for another turn"


class Answering(Recorder):
    """Answers each message to another actor at the end of the turn, as a commit confirms."""

    def __init__(self, cell: ActorCell, heard: list[object], others: list[ActorCell]) -> None:
        super().__init__(cell, heard)
        self._others = others

    def on_receive(self, message: object) -> None:
        super().on_receive(message)
        self.runtime.dispatcher.at_turn_end_last(FlushCall(lambda: self._answer(message), self.cell))

    def _answer(self, message: object) -> None:
        for other in self._others:
            other.inbox.post(message)


def answering(runtime: Runtime, others: list[ActorCell]) -> ActorCell:
    return runtime.spawn(lambda cell: Answering(cell, [], others), kind="test", name="spool", policy=ONE_CONNECTION)


def test_the_only_actor_that_is_answered_at_the_end_of_a_turn_hears_in_the_same_turn() -> None:
    with lone_runtime() as runtime:
        heard: list[object] = []
        answering(runtime, [recorder(runtime, heard)]).inbox.post("confirmed")
        turn(runtime)
        assert heard == ["confirmed"]


def test_where_several_are_answered_those_that_have_something_new_by_then_have_their_turn_with_them() -> None:
    with lone_runtime() as runtime:
        heard: list[object] = []
        answering(runtime, [recorder(runtime, heard), recorder(runtime, heard)]).inbox.post("confirmed")
        turn(runtime)
        assert heard == []
        turn(runtime)
        assert heard == ["confirmed", "confirmed"]


def test_actors_that_answer_each_other_for_ever_let_the_loop_serve_its_sockets() -> None:
    with lone_runtime() as runtime:
        others: list[ActorCell] = []
        cell = answering(runtime, others)
        others.append(cell)
        cell.inbox.post("again")
        turn(runtime)
        assert cell.handled_count == ROUNDS_PER_TURN_MAX
