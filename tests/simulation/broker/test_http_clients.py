"""The rules of the judge for HTTP clients that publish, and consume by flows that outlive connections."""

import pytest

from simulation.judge.targets import EXCLUSIVE, Message, Rules, Violation
from simulation.judge.truth import Truth
from simulation.run import drain
from simulation.scenario import PLAIN
from simulation.wires.http_tap import END, PUBLISH, READ, SETTLE, Asked, Flow, RequestTap
from simulation.world import World
from sluicegate.messaging.topics.syntax import queue_topic

A_WHILE_US = 2_000_000
LOCK_S = 5
FLOW = "f1"
REQUEST = b"POST /TOPIC/in/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc"


class Scene:
    """A queue, and a connection that publishes to it and consumes it, seen at the node's end."""

    def __init__(self) -> None:
        self.now_us = A_WHILE_US
        self.truth = Truth(lambda: self.now_us)
        self.queue = self.truth.begins("orders", EXCLUSIVE, ("in/",), Rules())
        self.truth.limits("orders", 0)
        self.flows: dict[str, Flow] = {}
        self.sent: list[Asked] = []
        self.tap = RequestTap(self.truth, self.sent, self.flows)

    def asks(self, asked: Asked) -> None:
        self.sent.append(asked)
        self.tap.read(REQUEST)

    def answers(self, status: int, body: bytes = b"", **fields: str) -> None:
        said = "".join([f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items()])
        length = "" if status == 204 else f"content-length: {len(body)}\r\n"
        self.tap.written(f"HTTP/1.1 {status} Some Words\r\n{said}{length}\r\n".encode() + body)

    def message(self) -> Message:
        return self.truth.sent("h", "k", "in/x", 1)

    def delivers(self, message: Message, number: int = 1, *, count: int = 1) -> None:
        """A worker reads on its flow, and gets a message."""
        self.asks(Asked(READ, flow_id=FLOW if FLOW in self.flows else "", queue="orders", lock_s=LOCK_S))
        again = {"sluicegate_redelivered": "true", "sluicegate_delivery_count": str(count)} if count > 1 else {}
        body, place = b"%d|" % message.number, f"/FLOW/{FLOW}"
        self.answers(200, body, sluicegate_flow=place, sluicegate_settle=f"{place}/{number}", **again)

    def settles(self, outcome: str, number: int = 1) -> None:
        self.asks(Asked(SETTLE, flow_id=FLOW, numbers=[number], outcome=outcome))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_answer_of_200_promises_the_message_and_503_refuses_it(scene: Scene) -> None:
    stored, refused = scene.message(), scene.message()
    for each in (stored, refused):
        scene.asks(Asked(PUBLISH, [each]))
    scene.answers(200)
    scene.answers(503)
    assert stored.promised_tick
    assert refused.refused
    assert not refused.promised_tick


def test_each_message_of_a_batch_has_an_answer_of_its_own(scene: Scene) -> None:
    stored, refused = scene.message(), scene.message()
    scene.asks(Asked(PUBLISH, [stored, refused], is_batch=True))
    scene.answers(207, b'{"status":200}\n{"status":503}\n')
    assert stored.promised_tick
    assert refused.refused


def test_nothing_of_a_request_that_never_came_whole_is_to_come(scene: Scene) -> None:
    message = scene.message()
    message.withheld = True
    scene.sent.append(Asked(PUBLISH, [message]))
    scene.tap.read(REQUEST[:-1])
    assert message.withheld
    scene.tap.read(REQUEST[-1:])
    assert not message.withheld


def test_an_answer_to_no_request_is_a_violation(scene: Scene) -> None:
    with pytest.raises(Violation, match="to no request"):
        scene.answers(200)


def test_a_fault_of_the_node_is_no_answer(scene: Scene) -> None:
    scene.asks(Asked(PUBLISH, [scene.message()]))
    with pytest.raises(Violation, match="was answered with"):
        scene.answers(500)


def test_a_settlement_that_was_answered_is_in_force_over_a_crash(scene: Scene) -> None:
    message = scene.message()
    scene.delivers(message)
    scene.settles("accepted")
    scene.answers(204)
    scene.truth.course.crashes += 1
    with pytest.raises(Violation, match="after a commit had settled it"):
        scene.delivers(message, 2, count=2)


def test_a_settlement_whose_answer_was_lost_may_be_void_after_a_crash(scene: Scene) -> None:
    message = scene.message()
    scene.delivers(message)
    scene.settles("accepted")
    scene.truth.course.crashes += 1
    scene.truth.life += 1
    holder = scene.flows[FLOW]
    scene.truth.delivered(scene.queue, message.number, holder, held_us=0, flagged=True, count=2, again=False)


def test_a_settlement_that_a_failed_store_could_not_keep_is_answered_so_and_may_come_again(scene: Scene) -> None:
    message = scene.message()
    scene.delivers(message)
    scene.settles("accepted")
    scene.truth.course.store_faults += 1
    scene.answers(503)
    scene.truth.life += 1
    scene.delivers(message, 2, count=2)


def test_a_settlement_may_not_be_refused_for_the_store_where_that_has_not_failed(scene: Scene) -> None:
    scene.delivers(scene.message())
    scene.settles("accepted")
    with pytest.raises(Violation, match="the store had not failed"):
        scene.answers(503)


def test_a_violation_is_reported_when_a_held_delivery_is_said_to_be_gone(scene: Scene) -> None:
    scene.delivers(scene.message())
    scene.settles("accepted")
    with pytest.raises(Violation, match="is said to be away"):
        scene.answers(409, b"deliveries 1 are not held: settled before")


def test_late_settlements_do_not_count(scene: Scene) -> None:
    message = scene.message()
    scene.delivers(message)
    scene.now_us += LOCK_S * 1_000_000
    scene.settles("rejected")
    scene.answers(409, b"deliveries 1 are not held: settled before")
    seen = scene.queue.seen[message.number]
    assert not seen.settled_tick
    assert not seen.was_rejected


def test_messages_that_were_taken_from_a_flow_may_come_again(scene: Scene) -> None:
    """A worker that was late to settle may read on, and the queue gives it the same message."""
    message = scene.message()
    scene.delivers(message)
    scene.now_us += LOCK_S * 1_000_000 - A_WHILE_US
    scene.asks(Asked(READ, flow_id=FLOW, queue="orders"))
    scene.now_us += A_WHILE_US
    scene.answers(204, sluicegate_flow=f"/FLOW/{FLOW}")
    scene.settles("accepted")
    scene.answers(409, b"deliveries 1 are not held: settled before")
    scene.delivers(message, 2, count=2)
    with pytest.raises(Violation, match="was not done with it"):
        scene.delivers(message, 3, count=3)


def test_a_flow_may_not_be_given_again_what_it_has_until_its_time_is_over(scene: Scene) -> None:
    message = scene.message()
    scene.delivers(message)
    with pytest.raises(Violation, match="was not done with it"):
        scene.delivers(message, 2, count=2)
    scene.now_us += LOCK_S * 1_000_000
    scene.delivers(message, 2, count=2)


def test_an_extended_lock_lasts_its_whole_time_from_then_on(scene: Scene) -> None:
    message = scene.message()
    scene.delivers(message)
    scene.now_us += LOCK_S * 1_000_000 - A_WHILE_US
    scene.settles("extend")
    scene.answers(204)
    scene.now_us += A_WHILE_US
    with pytest.raises(Violation, match="was not done with it"):
        scene.delivers(message, 2, count=2)


def test_a_delivery_that_is_read_again_is_the_same_message(scene: Scene) -> None:
    message, other = scene.message(), scene.message()
    scene.delivers(message)
    scene.delivers(message)
    with pytest.raises(Violation, match="delivery 1 was message 1"):
        scene.delivers(other)


def test_a_delivery_that_is_read_again_is_no_new_one_though_a_copy_of_its_message_came_since(scene: Scene) -> None:
    """Its publisher has sent it again, and the flow has both."""
    message = scene.message()
    scene.delivers(message)
    message.sent_count += 1
    scene.now_us += LOCK_S * 1_000_000
    scene.delivers(message, 2, count=2)
    scene.delivers(message)


def test_a_flow_is_there_until_something_ends_it(scene: Scene) -> None:
    scene.delivers(scene.message())
    scene.asks(Asked(READ, flow_id=FLOW, queue="orders"))
    with pytest.raises(Violation, match="nothing has ended it"):
        scene.answers(404)


def test_a_flow_that_its_worker_has_ended_is_no_more(scene: Scene) -> None:
    scene.delivers(scene.message())
    scene.asks(Asked(END, flow_id=FLOW))
    scene.answers(204)
    scene.asks(Asked(READ, flow_id=FLOW, queue="orders"))
    scene.answers(404)


def test_messages_to_a_queue_by_name_are_judged_like_its_other_messages() -> None:
    world = World(1, PLAIN)
    requester = world.requesters["h0"]
    requester.connect()
    world.advance(A_WHILE_US)
    requester.publish([requester.sends(queue_topic("first"), "k", 40)])
    world.advance(A_WHILE_US)

    drain(world)

    seen = world.truth.targets["first"].seen
    assert [each.settled_tick > 0 for each in seen.values()] == [True]
    world.close()
