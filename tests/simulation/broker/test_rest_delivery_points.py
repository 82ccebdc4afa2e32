"""The rules of the judge for REST delivery points, seen at the node's end of their connections."""

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from simulation.clients.http_responses import AnswerReader
from simulation.delivery_points import BINDING_HEADER, PORTS, PointPlan
from simulation.judge.targets import EXCLUSIVE, Message, Rules, Violation
from simulation.judge.truth import Truth
from simulation.machine.web_servers import REFUSING, SILENT, UNREACHABLE, WILLING, Visit, WebServer
from simulation.run import drain
from simulation.scenario import LOCK, PLAIN
from simulation.wires.memory_network import OutgoingWire
from simulation.wires.push_tap import Pushes, PushTap
from simulation.world import World

A_WHILE_US = 2_000_000
PORT = PORTS[0]
PLAN = PointPlan("one", 1, ("first",), {PORT: 1}, "post", max_post_wait_s=3, retry_delay_s=1, enabled=True)


class Scene:
    """A queue, and a point that pushes it to a web server over one connection after the other."""

    def __init__(self) -> None:
        self.truth = Truth(lambda: A_WHILE_US)
        self.queue = self.truth.begins("first", EXCLUSIVE, ("in/",), Rules())
        self.truth.limits("first", 0)
        self.pushes = Pushes(self.truth, [PLAN])
        self.connects()

    def connects(self) -> None:
        self.tap = PushTap(self.pushes, PORT)

    def message(self) -> Message:
        message = self.truth.sent("p", "k", "in/x", 1)
        self.truth.promised(message, 0)
        return message

    def pushes_out(self, message: Message, *, count: int = 1, plan: PointPlan = PLAN) -> None:
        body = b"%d|" % message.number
        again = f"sluicegate-redelivered: true\r\nsluicegate-delivery-count: {count}\r\n" if count > 1 else ""
        head = (
            f"POST /in/in/x HTTP/1.1\r\nhost: w\r\ncontent-length: {len(body)}\r\nsluicegate-partition: 0\r\n"
            f"{BINDING_HEADER}: {plan.label} first\r\n{again}\r\n"
        )
        self.tap.written(head.encode() + body)

    def answers(self, status: int) -> None:
        self.tap.read(b"HTTP/1.1 %d Words\r\ncontent-length: 0\r\n\r\n" % status)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_answer_of_2xx_settles_a_message_for_good(scene: Scene) -> None:
    message = scene.message()
    scene.pushes_out(message)
    scene.answers(201)
    assert scene.queue.seen[message.number].settled_tick
    with pytest.raises(Violation, match="after it was settled"):
        scene.pushes_out(message, count=2)


def test_a_listed_status_rejects_a_message(scene: Scene) -> None:
    message = scene.message()
    scene.pushes_out(message)
    scene.answers(404)
    assert scene.queue.seen[message.number].was_rejected


@pytest.mark.parametrize("status", [301, 409, 500])
def test_any_other_status_leaves_a_message_to_be_pushed_again(scene: Scene, status: int) -> None:
    message = scene.message()
    scene.pushes_out(message)
    scene.answers(status)
    assert not scene.queue.seen[message.number].settled_tick
    scene.pushes_out(message, count=2)


def test_a_push_that_fails_comes_again_with_the_redelivered_flag(scene: Scene) -> None:
    message = scene.message()
    scene.pushes_out(message)
    scene.tap.ended()
    scene.connects()
    with pytest.raises(Violation, match="not flagged as redelivered"):
        scene.pushes_out(message)


def test_nothing_is_pushed_before_what_failed_and_stands_before_it(scene: Scene) -> None:
    first, second = scene.message(), scene.message()
    scene.pushes_out(first)
    scene.answers(503)
    with pytest.raises(Violation, match="has failed and stands before it"):
        scene.pushes_out(second)


def test_a_point_has_no_more_requests_out_than_connections(scene: Scene) -> None:
    scene.pushes_out(scene.message())
    scene.connects()
    with pytest.raises(Violation, match="2 requests out"):
        scene.pushes_out(scene.message())


def test_nothing_is_pushed_where_something_came_unasked(scene: Scene) -> None:
    scene.tap.read(b"HTTP/1.1 2")
    with pytest.raises(Violation, match="unsolicited"):
        scene.pushes_out(scene.message())


def test_a_point_that_was_changed_pushes_as_it_was_until_the_reload_is_done(scene: Scene) -> None:
    changed = PLAN._replace(version=2)
    scene.pushes.changes_to([changed])
    for plan in (PLAN, changed):
        scene.pushes_out(scene.message(), plan=plan)
        scene.answers(200)
    scene.pushes.configured([changed])
    with pytest.raises(Violation, match="are in force"):
        scene.pushes_out(scene.message())


def test_what_is_answered_while_a_reload_may_stop_the_point_may_come_again(scene: Scene) -> None:
    message = scene.message()
    scene.pushes_out(message)
    scene.pushes.changes_to([])
    scene.answers(200)
    scene.pushes_out(message, count=2)


@pytest.fixture
def pushing() -> Iterator[World]:
    """A node with delivery points, and a message for the queue of one of them."""
    made = World(2, PLAIN._replace(pushes=True))
    publisher = made.clients["p0"]
    publisher.connect(clean_start=False)
    made.advance(A_WHILE_US)
    yield made
    made.close()


def publish(world: World, count: int) -> None:
    for _ in range(count):
        for topic in ("work/a/x", "work/b/x", "work/d/x"):
            world.clients["p0"].publish(topic, "k0", 1, 40)


@pytest.mark.parametrize("mood", [REFUSING, SILENT, UNREACHABLE])
def test_what_a_server_does_not_take_is_pushed_once_it_is_willing(pushing: World, mood: str) -> None:
    for server in pushing.web.servers.values():
        server.mood = mood
    publish(pushing, 5)
    pushing.advance(10 * A_WHILE_US)
    for server in pushing.web.servers.values():
        server.mood = WILLING
    drain(pushing)


def test_what_was_being_pushed_when_the_power_failed_is_not_lost(pushing: World) -> None:
    for server in pushing.web.servers.values():
        server.mood = SILENT
    publish(pushing, 5)
    pushing.advance(A_WHILE_US)
    pushing.power_fails()
    drain(pushing)


def test_nothing_is_pushed_that_has_left_its_flow_until_there_is_a_connection() -> None:
    """Another consumer may have had it by then, and newer ones."""
    world = World(2, PLAIN._replace(pushes=True))
    world.configuration.points = (PLAN,)
    world.reload()
    world.finish_admin()
    world.clients["p0"].connect(clean_start=False)
    world.advance(A_WHILE_US)
    server = world.web.servers[PORT]
    server.mood = UNREACHABLE
    world.clients["p0"].publish("work/a/x", "k0", 1, 40)
    world.advance(A_WHILE_US // 20)  # the point is connecting
    world.truth.targets["first"].flow_cuts += 1
    world.ask(world.change("first", {"egress_enabled": False}))
    server.mood = WILLING
    world.advance(A_WHILE_US // 2)
    assert not world.truth.targets["first"].seen
    drain(world)
    world.close()


def test_nothing_is_pushed_that_its_queue_has_taken_back_for_it_waited_too_long() -> None:
    """Another consumer had it in the time that the server could not be reached, and has settled it."""
    queues = {**PLAIN.queues, "even": PLAIN.queues["even"]._replace(attributes=PLAIN.queues["even"].attributes | LOCK)}
    world = World(2, PLAIN._replace(pushes=True, queues=queues))
    world.configuration.points = (PLAN._replace(queues=("even",)),)
    world.reload()
    world.finish_admin()
    server, consumer = world.web.servers[PORT], world.clients["c0"]
    server.mood = UNREACHABLE
    world.clients["p0"].connect(clean_start=False)
    world.advance(A_WHILE_US)
    world.clients["p0"].publish("work/b/x", "", 1, 40)
    world.advance(A_WHILE_US // 2)  # the point has it
    consumer.connect(clean_start=False)
    world.advance(A_WHILE_US // 10)
    consumer.consume("even", 1)
    world.advance(3 * A_WHILE_US)
    (seen,) = world.truth.targets["even"].seen.values()
    assert seen.settled_tick, "the consumer has settled it"
    server.mood = WILLING
    world.advance(5 * A_WHILE_US)
    assert seen.count == 1
    drain(world)
    world.close()


class Writing:
    """The wire of a visit: what the server writes."""

    def __init__(self) -> None:
        self.data = b""

    def send(self, data: bytes) -> None:
        self.data += data


def test_a_server_answers_requests_in_turn() -> None:
    """RFC 9112 9.3.2. It sends answers in pieces, and one does not begin within another one."""
    later: list[Callable[[], None]] = []
    server = WebServer(lambda _, callback: later.append(callback))
    server.rng.seed(7)  # of neither answer it makes the last one of the connection
    visit, wire = Visit(server), Writing()
    visit.wire = cast("OutgoingWire", wire)
    visit.received(2 * b"POST / HTTP/1.1\r\nhost: w\r\ncontent-length: 0\r\n\r\n")
    while later:
        later.pop()()
    assert [answer.is_whole for answer in AnswerReader().feed(wire.data)] == [True, True]
