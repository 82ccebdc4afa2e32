"""Messages that are handled in their sender's turn: only where nothing waits, and supervised as any other."""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pykka
import pytest

from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.inbox import Dispatcher, FlushCall
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION, RESTARTED
from support.cores.lone_actors import lone_runtime, turn


class Recorder(LoopActor):
    """Keeps what it is told; `fail` it cannot bear, at `stop` it stops, and `tell me more` comes back to it."""

    heard: list[object]

    def __init__(self, cell: ActorCell, heard: list[object]) -> None:
        super().__init__(cell)
        self.heard = heard

    def on_receive(self, message: object) -> None:
        self.heard.append(message)
        if message == "fail":
            raise ValueError("not that")
        if message == "stop":
            self.cell.stop()
        if message == "tell me more":
            self.cell.inbox.deliver_now("more")

    def on_turn_ended(self) -> None:
        self.heard.append("drained")


class ByType(LoopActor):
    """Keeps texts, by a handler of its own."""

    def __init__(self, cell: ActorCell, heard: list[object]) -> None:
        super().__init__(cell)
        self._heard = heard
        self.handlers = {str: self._hear}

    def _hear(self, text: str) -> None:
        self._heard.append(text)


class Doing(Recorder):
    """Does what it is told as work that no message brings."""

    def on_receive(self, message: Any) -> None:
        self.cell.do(message)


class Broken(Recorder):
    """Fails over its failure, too."""

    def on_failure(self, *_: object) -> None:
        raise ValueError("nor that")


class Flushing(LoopActor):
    """Notes the end of each of its turns; its first one fails."""

    def __init__(self, cell: ActorCell, heard: list[object]) -> None:
        super().__init__(cell)
        self._heard = heard

    def on_receive(self, message: object) -> None:
        self._heard.append(message)
        self.runtime.dispatcher.at_turn_end(FlushCall(self.flush, self.cell))

    def flush(self) -> None:
        self._heard.append("flushed")
        if self._heard.count("flushed") == 1:
            raise ValueError("not the first time")


class Sender(LoopActor):
    """Hands something on when it has its turn."""

    def __init__(self, cell: ActorCell, receiver: ActorCell) -> None:
        super().__init__(cell)
        self._receiver = receiver

    def on_receive(self, message: object) -> None:
        self._receiver.inbox.deliver_now_if_idle("last")


@pytest.fixture
def told() -> list[BaseException]:
    """Return what no supervisor could answer."""
    return []


@pytest.fixture
def runtime(told: list[BaseException]) -> Iterator[Runtime]:
    with lone_runtime(told.append) as made:
        yield made


def spawned(runtime: Runtime, heard: list[object], *, takes_at_once: bool = True) -> ActorCell:
    cell = runtime.spawn(lambda cell: Recorder(cell, heard), kind="test", name="recorder", policy=ONE_CONNECTION)
    cell.inbox.accepts_inline = takes_at_once
    return cell


def test_an_idle_actor_that_takes_at_once_handles_what_it_is_handed(runtime: Runtime) -> None:
    heard: list[object] = []
    spawned(runtime, heard).inbox.deliver_now("now")
    assert heard == ["now", "drained"]


def test_messages_delivered_now_do_not_overtake_posted_ones(runtime: Runtime) -> None:
    heard: list[object] = []
    cell = spawned(runtime, heard)
    cell.inbox.post("first")
    cell.inbox.deliver_now("second")
    assert heard == []
    turn(runtime)
    assert heard == ["first", "second", "drained"]


def test_an_actor_that_gathers_is_handed_nothing_at_once(runtime: Runtime) -> None:
    heard: list[object] = []
    cell = spawned(runtime, heard, takes_at_once=False)
    cell.inbox.deliver_now("later")
    assert heard == []
    turn(runtime)
    assert heard == ["later", "drained"]


@pytest.mark.parametrize("kind", [Recorder, ByType])
def test_a_stopped_actor_is_let_go_of_by_all_that_it_knows(runtime: Runtime, kind: type[Recorder | ByType]) -> None:
    """Its cell, its inbox, its handlers: connections and queues come and go, and the cycle collector hardly ever looks
    at what has been there for long."""

    def make(cell: ActorCell) -> LoopActor:
        return kind(cell, [])

    parent = spawned(runtime, [])
    cell = runtime.spawn(make, kind="test", name="child", policy=RESTARTED, parent=parent)
    cell.inbox.post("heard")
    turn(runtime)
    inbox, actor, kept_by_the_cell = cell.inbox, weakref.ref(cell.actor), weakref.ref(make)
    gc.disable()
    cell.stop()
    del make
    left = (actor(), kept_by_the_cell())
    gc.enable()
    assert left == (None, None)
    inbox.post("too late")
    assert inbox.dead_letters == 1


def test_a_message_to_one_actor_reaches_no_other(runtime: Runtime) -> None:
    """Inboxes in which nothing waits have their empty list in common."""
    heard: list[list[object]] = [[], [], []]
    one, other, last = (spawned(runtime, each) for each in heard)
    one.inbox.post("first")
    assert (one.inbox.items, other.inbox.items) == (["first"], [])
    turn(runtime)
    one.inbox.post("second")
    other.inbox.post("mine")
    last.stop()
    turn(runtime)
    assert heard == [["first", "drained", "second", "drained"], ["mine", "drained"], []]


def test_pykkas_reference_knows_whether_the_actor_has_stopped(runtime: Runtime) -> None:
    cell = spawned(runtime, [])
    reference = cell.actor.actor_ref
    assert reference.is_alive()
    cell.stop()
    assert not reference.is_alive()


def test_actors_of_one_name_are_distinguished_by_number(runtime: Runtime) -> None:
    parent = spawned(runtime, [])
    for number in (1, 2):
        runtime.spawn(
            lambda cell: Recorder(cell, []), kind="test", name="m", number=number, policy=ONE_CONNECTION, parent=parent
        )
    assert [child.name for child in parent.overview().children] == ["m-1", "m-2"]
    assert [child.path() for child in parent.children or ()] == ["recorder/m-1", "recorder/m-2"]


def test_a_runtime_stops_whose_root_has_stopped_before(runtime: Runtime) -> None:
    cell = spawned(runtime, [])
    reference = cell.actor.actor_ref
    cell.inbox.deliver_now("fail")
    assert cell.is_stopped()
    runtime.stop()
    assert runtime.roots == []
    assert reference not in pykka.ActorRegistry.get_all()


def test_messages_queued_after_a_stop_are_refused(runtime: Runtime) -> None:
    """It has let go of what it would be handled with. An HTTP flow gave its window credit that it had given back."""
    heard: list[object] = []
    cell = spawned(runtime, heard)
    cell.inbox.post("first")
    cell.inbox.post("stop")
    cell.inbox.post("last")
    answer = cell.ask("and?")
    turn(runtime)
    assert heard == ["first", "stop"]
    assert isinstance(answer.error(), pykka.ActorDeadError)
    assert cell.inbox.dead_letters == 2


@pytest.mark.parametrize("call", [lambda cell: cell.inbox.deliver_now("stop"), lambda cell: cell.ask_now("stop")])
def test_an_actor_that_stops_over_what_it_is_handed_ends_no_turn(
    runtime: Runtime, call: Callable[[ActorCell], object]
) -> None:
    heard: list[object] = []
    cell = spawned(runtime, heard)
    call(cell)
    assert heard == ["stop"]


def test_messages_delivered_while_the_actor_handles_one_wait(runtime: Runtime) -> None:
    heard: list[object] = []
    cell = spawned(runtime, heard)
    cell.inbox.deliver_now("tell me more")
    assert heard == ["tell me more", "drained"]
    turn(runtime)
    assert heard == ["tell me more", "drained", "more", "drained"]


def test_messages_delivered_in_the_actors_own_turn_wait(runtime: Runtime) -> None:
    heard: list[object] = []
    cell = spawned(runtime, heard)
    cell.inbox.post("tell me more")
    turn(runtime)
    assert heard == ["tell me more", "drained", "more", "drained"]


def test_a_message_is_handled_at_once_when_the_inbox_is_empty(runtime: Runtime) -> None:
    heard: list[object] = []
    first, second = spawned(runtime, heard), spawned(runtime, heard)
    second.inbox.deliver_now_if_idle("alone")
    assert heard == ["alone", "drained"]
    first.inbox.post("before")
    second.inbox.deliver_now_if_idle("behind")
    turn(runtime)
    assert heard == ["alone", "drained", "before", "drained", "behind", "drained"]


def test_a_message_overtakes_none_that_waits_behind_its_sender(runtime: Runtime) -> None:
    """The sender is served, and so was the line that it stood in: who is left of that waits all the same."""
    heard: list[object] = []
    behind, last = spawned(runtime, heard), spawned(runtime, heard)
    sender = runtime.spawn(lambda cell: Sender(cell, last), kind="test", name="sender", policy=ONE_CONNECTION)
    sender.inbox.post("begin")
    behind.inbox.post("behind")
    turn(runtime)
    assert heard == ["behind", "drained", "last", "drained"]


def test_a_failure_over_what_was_handed_is_the_receivers(runtime: Runtime) -> None:
    """The sender goes on, and what it hands to the stopped actor is counted."""
    heard: list[object] = []
    cell = spawned(runtime, heard)
    cell.inbox.deliver_now("fail")
    assert cell.overview().state == "stopped"
    cell.inbox.deliver_now("more")
    assert heard == ["fail"]
    assert cell.inbox.dead_letters == 1


def test_a_failure_at_the_end_of_a_turn_is_that_of_the_actor_whose_work_it_was(runtime: Runtime) -> None:
    """What others do at the end of the same turn is done, and everybody has turns again."""
    heard: list[object] = []
    failing = runtime.spawn(lambda cell: Flushing(cell, heard), kind="test", name="failing", policy=ONE_CONNECTION)
    other = runtime.spawn(lambda cell: Flushing(cell, heard), kind="test", name="other", policy=ONE_CONNECTION)
    failing.inbox.post("fail")
    other.inbox.post("one")
    turn(runtime)
    assert heard == ["fail", "one", "flushed", "flushed"]
    assert (failing.overview().state, other.overview().state) == ("stopped", "running")

    other.inbox.post("two")
    turn(runtime)
    assert heard[4:] == ["two", "flushed"]


def test_a_failure_outside_of_actors_is_reported_and_turns_go_on(told: list[BaseException], runtime: Runtime) -> None:
    heard: list[object] = []

    def nobodys() -> None:
        raise ValueError("and who are you?")

    runtime.dispatcher.at_turn_end(FlushCall(nobodys, None))
    turn(runtime)
    assert [str(error) for error in told] == ["and who are you?"]
    spawned(runtime, heard).inbox.post("on")
    turn(runtime)
    assert heard == ["on", "drained"]


def test_an_actor_that_fails_over_its_failure_costs_no_other_actor_a_turn(runtime: Runtime) -> None:
    """A connection that is not whole any more may fail to say goodbye."""
    heard: list[object] = []
    failing = runtime.spawn(lambda cell: Broken(cell, heard), kind="test", name="failing", policy=ONE_CONNECTION)
    behind = spawned(runtime, heard)
    failing.inbox.post("fail")
    behind.inbox.post("on")
    turn(runtime)
    assert heard == ["fail", "on", "drained"]
    assert failing.overview().state == "stopped"


def test_messages_queued_after_a_restart_go_to_the_new_instance(runtime: Runtime) -> None:
    """Part of its work failed, as what waits for a request does, and the message itself did not."""
    first: list[object] = []
    second: list[object] = []
    lives = iter((first, second))

    def fail() -> None:
        first.append("failed")
        raise ValueError("not that")

    cell = runtime.spawn(lambda cell: Doing(cell, next(lives)), kind="test", name="doing", policy=RESTARTED)
    cell.inbox.post(fail)
    cell.inbox.post(lambda: second.append("next"))
    turn(runtime)
    assert first == ["failed"]
    assert second == ["next", "drained"]


def test_an_actor_that_fails_to_begin_anew_has_failed_once_more(runtime: Runtime) -> None:
    """It may do so as often as its policy says, and costs nobody else a turn."""
    heard: list[object] = []
    begun: list[ActorCell] = []

    def once(cell: ActorCell) -> Recorder:
        begun.append(cell)
        if len(begun) > 1:
            raise ValueError("not again")
        return Recorder(cell, heard)

    failing = runtime.spawn(once, kind="test", name="failing", policy=RESTARTED)
    behind = spawned(runtime, heard)
    failing.inbox.post("fail")
    behind.inbox.post("on")
    turn(runtime)
    assert heard == ["fail", "on", "drained"]
    assert len(begun) == 1 + RESTARTED.restarts_max
    assert failing.overview().state == "stopped"


def test_a_failure_over_what_an_actor_has_put_off_is_the_actors(runtime: Runtime) -> None:
    heard: list[object] = []

    def fail() -> None:
        raise ValueError("too late")

    cell = spawned(runtime, heard)
    cell.after(0, fail)
    while cell.overview().state != "stopped":
        turn(runtime)
    cell.inbox.post("more")
    assert cell.inbox.dead_letters == 1


class LookedAtClock(Clock):
    """Goes on by a second whenever somebody looks at it."""

    def __init__(self) -> None:
        self._ms = 0

    def now_ms(self) -> int:
        self._ms += 1000
        return self._ms

    def wall_ms(self) -> int:
        return self._ms

    def now_ns(self) -> int:
        return 0


def test_clock_reads_before_a_turn_share_one_value() -> None:
    turns: list[Callable[[], None]] = []
    dispatcher = Dispatcher(call_soon=turns.append, clock=LookedAtClock(), on_fatal=lambda _: None)
    assert [dispatcher.both_ms() for _ in range(2)] == [(1000, 1000), (2000, 2000)], "no turn is ahead"

    dispatcher.at_turn_end(FlushCall(lambda: None, None))
    assert [dispatcher.both_ms() for _ in range(2)] == [(3000, 3000)] * 2

    turns.pop()()
    assert dispatcher.both_ms() == (4000, 4000)


def test_what_is_done_with_data_of_a_socket_has_the_time_of_its_read() -> None:
    dispatcher = Dispatcher(call_soon=lambda _: None, clock=LookedAtClock(), on_fatal=lambda _: None)
    assert [dispatcher.begin_read(), dispatcher.both_ms()] == [(1000, 1000)] * 2
    dispatcher.end_read()
    assert dispatcher.both_ms() == (2000, 2000), "no turn is ahead"

    dispatcher.begin_read()
    dispatcher.at_turn_end(FlushCall(lambda: None, None))
    dispatcher.end_read()
    assert dispatcher.both_ms() == (3000, 3000), "the turn that was asked for meanwhile is ahead"


@pytest.mark.parametrize("flushes_count", [1, 4, 5, 9])
def test_each_flush_of_a_turn_is_called_once(flushes_count: int) -> None:
    turns: list[Callable[[], None]] = []
    dispatcher = Dispatcher(call_soon=turns.append, clock=LookedAtClock(), on_fatal=lambda _: None)
    flushed: list[int] = []
    for number in range(flushes_count):
        dispatcher.at_turn_end(FlushCall(lambda number=number: flushed.append(number), None))  # type: ignore[misc]
    turns.pop()()
    assert flushed == list(range(flushes_count))
    assert not turns, "nothing is left for another turn"


def test_an_idle_actor_that_takes_at_once_is_asked_at_once(runtime: Runtime) -> None:
    heard: list[object] = []
    cell = spawned(runtime, heard)
    assert cell.ask_now("now").done
    assert heard == ["now", "drained"]


def test_asks_delivered_now_do_not_overtake_posted_messages(runtime: Runtime) -> None:
    heard: list[object] = []
    cell = spawned(runtime, heard)
    cell.inbox.post("first")
    answer = cell.ask_now("second")
    assert not answer.done
    turn(runtime)
    assert answer.get() is None
    assert heard == ["first", "second", "drained"]


def test_an_ask_gets_the_failure_and_the_actor_goes_on(runtime: Runtime) -> None:
    heard: list[object] = []
    cell = spawned(runtime, heard)
    assert isinstance(cell.ask_now("fail").error(), ValueError)
    assert not cell.is_stopped()
    assert heard == ["fail", "drained"]


def test_an_actor_that_was_asked_is_asked_nothing_more_before_it_is_done(runtime: Runtime) -> None:
    heard: list[object] = []
    cell = spawned(runtime, heard)
    cell.ask_now("tell me more")
    assert heard == ["tell me more", "drained"]
    turn(runtime)
    assert heard == ["tell me more", "drained", "more", "drained"]
