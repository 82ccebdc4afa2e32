"""The rules of the judge for browsers over HTTP that walk through a queue."""

from collections.abc import Iterable, Iterator

import orjson
import pytest

from simulation.checks.node_checks import queues_of
from simulation.clients.browser import Browser
from simulation.clients.http_responses import Answer
from simulation.faults import Unheard
from simulation.judge.browsing import LATE_US, OK, BrowseJudge, Page, Walk
from simulation.judge.targets import EXCLUSIVE, Message, Rules, Violation
from simulation.judge.truth import Truth
from simulation.scenario import PLAIN
from simulation.world import World

PAGE = 2

LARGE_BYTES, MANY = 8_000, 300  # together more than a node keeps in memory


class Consumer:
    """Who has messages in flight, for as long as it likes."""

    has_let_go = False


class Scene:
    """A queue with messages that were confirmed, and a browser."""

    def __init__(self) -> None:
        self.now_us = 10 * LATE_US
        self.truth = Truth(lambda: self.now_us)
        self.queue = self.truth.begins("orders", EXCLUSIVE, ("in/",), Rules())
        self.truth.limits("orders", 0)
        self.judge = BrowseJudge(self.truth)
        self.messages = [self.message() for _ in range(4)]
        self.now_us += 2 * LATE_US

    def message(self, topic: str = "in/x") -> Message:
        message = self.truth.sent("p", "k", topic, 1)
        self.truth.promised(message, 0)
        return message

    def walk(self, *, is_stream: bool = False) -> Walk:
        return self.judge.begins("orders", None, is_stream=is_stream)

    def shows(self, walk: Walk, places: Iterable[int], *, after: int = 0, is_whole: bool = True) -> None:
        """Show a page with the messages at these places; the sequence is the message's number."""
        lines = [
            orjson.dumps({"payload": f"{number}|", "partition": 0, "sequence": number})
            for number in [self.messages[place].number for place in places]
        ]
        answer = Answer(OK, {"content-type": "application/x-ndjson"}, b"\n".join(lines), is_whole)
        self.judge.answered(Page(walk, PAGE, after, self.now_us), answer)

    def settles(self, place: int) -> None:
        number, consumer = self.messages[place].number, Consumer()
        self.truth.delivered(self.queue, number, consumer, held_us=self.now_us, flagged=False, count=1, again=False)
        self.truth.settled(self.queue, number, consumer, for_good=True, rejected=False)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_walk_that_shows_everything_once_is_in_order(scene: Scene) -> None:
    walk = scene.walk()
    scene.shows(walk, (0, 1))
    scene.shows(walk, (2, 3), after=scene.messages[1].number)
    scene.shows(walk, (), after=scene.messages[3].number)


def test_a_page_that_is_asked_for_again_may_show_the_same(scene: Scene) -> None:
    walk = scene.walk()
    scene.shows(walk, (0, 1))
    scene.shows(walk, (0, 1))


def test_a_walk_does_not_go_back(scene: Scene) -> None:
    walk = scene.walk()
    scene.shows(walk, (0, 1))
    with pytest.raises(Violation, match="which it has passed"):
        scene.shows(walk, (1,), after=scene.messages[1].number)


def test_a_stream_shows_no_message_twice(scene: Scene) -> None:
    walk = scene.walk(is_stream=True)
    page = Page(walk, PAGE, 0, scene.now_us)
    event = b'event: message\ndata: {"payload":"1|","partition":0,"sequence":1}\n\n'
    answer = Answer(OK, {"content-type": "text/event-stream"}, event)
    scene.judge.answered(page, answer)
    with pytest.raises(Violation, match="which it has passed"):
        scene.judge.answered(page, answer)


def test_nothing_is_shown_that_was_settled_before_its_page_was_asked_for(scene: Scene) -> None:
    scene.settles(0)
    scene.shows(scene.walk(), (0, 1))  # it may be on its way
    scene.now_us += 2 * LATE_US
    with pytest.raises(Violation, match="which was settled"):
        scene.shows(scene.walk(), (0, 1))


def test_a_walk_to_the_end_shows_what_was_confirmed_before_it_began(scene: Scene) -> None:
    with pytest.raises(Violation, match="has not shown"):
        scene.shows(scene.walk(), (0,))


def test_a_walk_need_not_show_what_comes_meanwhile_or_is_settled_meanwhile(scene: Scene) -> None:
    walk = scene.walk()
    scene.shows(walk, (0, 1))
    for place in (0, 1, 2):
        scene.settles(place)
    scene.messages.append(scene.message())
    scene.shows(walk, (3,), after=scene.messages[2].number)


def test_nothing_is_shown_that_the_queue_does_not_want(scene: Scene) -> None:
    scene.messages.append(scene.message("out/x"))
    with pytest.raises(Violation, match="does not want its topic"):
        scene.shows(scene.walk(), (4,))


def test_a_page_has_no_more_messages_than_were_asked_for(scene: Scene) -> None:
    with pytest.raises(Violation, match="a page of 2"):
        scene.shows(scene.walk(), (0, 1, 2))


@pytest.fixture
def world() -> Iterator[World]:
    """A queue whose messages are paged out."""
    made = World(1, PLAIN)
    publisher = made.clients["p0"]
    publisher.connect(clean_start=False)
    made.advance(LATE_US)
    for _ in range(MANY):
        publisher.publish("work/a/x", "k0", 1, LARGE_BYTES)
    made.advance(10 * LATE_US)
    yield made
    made.close()


def walks_to_the_end(world: World) -> Browser:
    browser = world.browsers["b0"]
    browser.connect()
    browser.walk("first", is_partitioned=False)
    world.advance(LATE_US // 10)
    return browser


def test_a_page_is_answered_once_the_store_can_be_read_again(world: World) -> None:
    world.faults.reads_fail = 3
    browser = walks_to_the_end(world)
    assert browser.is_waiting
    world.advance(10 * LATE_US)
    assert not browser.is_waiting


def test_a_browser_that_fails_does_not_answer_as_if_the_queue_ended_there(world: World) -> None:
    world.faults.reads_fail = 1000
    browser = walks_to_the_end(world)
    world.log.expected.append("Unheard")
    [queue] = [each for each in queues_of(world.node) if each.name == "first"]
    for cell in [each for each in queue.cell.children or () if each.kind == "browser"]:
        cell.inbox.post(Unheard())
    world.advance(LATE_US)  # a walk that came to its end would have shown too little
    assert not browser.is_waiting
