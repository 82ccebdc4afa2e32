"""Where messages go that one queue gives to another: here, through a link queue, nowhere, or not yet."""

import pytest

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED, REFUSED_MESSAGE_TOO_LARGE, REFUSED_QUEUE_FULL, REJECT_NEVER
from sluicegate.messaging.network.interest import Change
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.network.queue_names import QueueFacts, facts_in, queue_interest
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.queue_ways import QueueWays
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE, queue_topic_filter

FACTS = QueueFacts("exclusive", 0, 10, True, True, REJECT_NEVER)
ENDLESS = 1 << 40


def queue(name: str, *, durable: bool = True) -> QueueTarget:
    gate = QueueGate(None, usage_bytes_max=ENDLESS, message_bytes_max=ENDLESS)
    return QueueTarget(name, gate, Pressure(high_bytes=ENDLESS, low_bytes=0), durable=durable)


def batch(size: int) -> MessageBatch:
    return MessageBatch(
        topic="t",
        topics=None,
        payloads=[bytes(size)],
        headers=None,
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="p",
        received_ms=1,
        payload_bytes=size,
    )


class Place:
    """A broker with siblings s-1 and s-2, and a neighbor n of another machine, that has a link queue for each."""

    def __init__(self, *siblings: str) -> None:
        self.space = TopicSpace()
        self.targets: dict[str, QueueTarget] = {}
        self.siblings = siblings
        self.ways = QueueWays(self.targets, self.space, lambda: frozenset(self.siblings))
        self.links = {name: LinkOutput(name, is_sibling=name in siblings) for name in (*siblings, "n")}
        for name, output in self.links.items():
            self.space.keep_for(output, queue(f"#link/{name}"))

    def tells(self, neighbor: str, name: str = "dead", facts: QueueFacts = FACTS) -> None:
        """A neighbor tells of a queue."""
        self.space.change_neighbor(self.links[neighbor], Change([queue_interest(name, facts)], []))

    def has_told(self, *neighbors: str) -> None:
        """Neighbors have told everything."""
        for name in neighbors:
            self.links[name].has_told = True

    def has(self, name: str = "dead") -> QueueTarget:
        """Make a queue here."""
        target = self.targets[name] = queue(name)
        self.space.subscribe(queue_topic_filter(name), target, target)
        return target

    def way(self, name: str = "dead") -> str:
        """Return the name of the queue that a way leads into, or why it waits."""
        found = self.ways.to(name)
        return found.waits if found.target is None else found.target.name


def test_a_queue_that_is_here_is_first() -> None:
    place = Place("s-1")
    place.tells("s-1")
    place.tells("n")
    target = place.has()
    assert place.ways.to("dead").target is target
    assert place.ways.to("dead").home is None


def test_a_queue_of_a_neighbor_is_reached_through_the_queue_of_its_link() -> None:
    place = Place()
    place.tells("n")
    assert place.way() == "#link/n"
    home = place.ways.to("dead").home
    assert home is not None
    assert home.name == "dead"


def test_without_the_queue_anywhere_no_way_is_there() -> None:
    assert Place().way() == ""


def test_a_queue_that_is_never_written_takes_no_part_in_a_commit() -> None:
    place = Place()
    place.targets["dead"] = queue("dead", durable=False)
    assert place.way() == ""


def test_a_queue_that_is_being_moved_here_is_not_reached_yet() -> None:
    """Its home is still the other broker."""
    place = Place()
    place.tells("n")
    place.targets["dead"] = queue("dead")
    assert place.way() == "#link/n"


def test_the_default_dead_message_queue_is_reached_at_brokers_of_this_machine_only() -> None:
    place = Place("s-1")
    place.has_told("s-1")
    place.tells("n", DEAD_MESSAGE_QUEUE)
    assert place.way(DEAD_MESSAGE_QUEUE) == ""
    place.tells("s-1", DEAD_MESSAGE_QUEUE)
    assert place.way(DEAD_MESSAGE_QUEUE) == "#link/s-1"


def test_nothing_is_missing_before_all_brokers_of_the_machine_have_told_what_they_have() -> None:
    place = Place("s-1", "s-2")
    assert "s-1 has not told" in place.way()
    place.has_told("s-1", "n")
    assert "s-2 has not told" in place.way()
    place.has_told("s-2")
    assert place.way() == ""


def test_a_broker_of_the_machine_without_a_link_yet_has_not_told() -> None:
    place = Place("s-1")
    place.has_told("s-1")
    place.space.keep_for(place.links["s-1"], None)
    assert "s-1 has not told" in place.way()


def test_nobody_waits_for_a_broker_of_the_machine_that_has_ended_for_good() -> None:
    place = Place("s-1", "s-2")
    place.has_told("s-1")
    place.siblings = ("s-1",)
    assert place.way() == ""


def test_everything_waits_until_links_are_in_force() -> None:
    """A queue that is here may be about to get another home."""
    place = Place()
    place.has()
    place.ways.awaits_links = True
    assert "starting" in place.way()
    place.ways.awaits_links = False
    assert place.way() == "dead"


def test_messages_wait_while_a_queue_gets_another_home() -> None:
    place = Place()
    place.has()
    held = place.space.hold("dead", [queue_topic_filter("dead")])
    assert "another home" in place.way()
    held.end("dead")
    assert place.way() == "dead"


def test_messages_wait_while_two_brokers_have_the_queue() -> None:
    place = Place("s-1")
    place.has_told("s-1")
    place.tells("n")
    place.tells("s-1")
    assert "brokers n, s-1 have a queue dead each" in place.way()


def test_messages_wait_for_the_queue_of_a_link() -> None:
    place = Place()
    place.tells("n")
    place.space.keep_for(place.links["n"], None)
    assert "no queue yet" in place.way()


def test_a_broker_of_an_earlier_release_takes_no_dead_messages() -> None:
    """It would give them to the subscribers of their topic."""
    place = Place()
    place.tells("n", facts=facts_in(FACTS.text().replace(" named=1", "")))
    assert place.way() == ""


@pytest.mark.parametrize("is_up", [True, False])
def test_what_the_queue_told_that_it_refuses_is_known_while_its_broker_is_there(is_up: bool) -> None:
    """While it is away nobody would tell that there is room again."""
    place = Place()
    place.tells("n", facts=FACTS._replace(is_full=True))
    place.links["n"].is_up = is_up
    way = place.ways.to("dead")
    assert way.refusal(batch(10)) == (REFUSED_QUEUE_FULL if is_up else ADMITTED)
    assert way.refusal(batch(11)) == (REFUSED_QUEUE_FULL if is_up else REFUSED_MESSAGE_TOO_LARGE)
