"""Publishing to topics that are held, because a queue is about to get another home."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.actors.messages.data import Append, Confirmed, PublishFailed, Resume, SessionRows
from sluicegate.actors.publishing.held import release_some
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED, REFUSED_MOVING, REFUSED_SHUT_DOWN, REJECT_ALWAYS
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing import holds
from sluicegate.messaging.routing.destinations import PartitionTarget, QueueTarget
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, parse_filter
from support.cores.lone_actors import lone_runtime, recorder, turn
from support.thorough import examples

NAMES = ("p0", "p1", "p2")
TOPICS = ("moving/1", "moving/2", "staying/1")


def smf(text: str) -> TopicFilter:
    return parse_filter(text, Syntax.SMF)


@dataclass
class Site:
    """A topic space with two queues: one of `moving/>` only, the other of everything."""

    runtime: Runtime
    space: TopicSpace = field(default_factory=TopicSpace)
    stored: list[object] = field(default_factory=list)  # what the store was asked for
    taken: dict[str, list[object]] = field(default_factory=dict)  # by queue
    heard: dict[str, list[object]] = field(default_factory=dict)  # by publisher
    publishers: dict[str, Publisher] = field(default_factory=dict)
    pending: list[tuple[Any, int]] = field(default_factory=list)  # what the store has not answered

    def __post_init__(self) -> None:
        self.gates: dict[str, QueueGate] = {}
        for name, text in (("moving", "moving/>"), ("all", ">")):
            gate = self.gates[name] = QueueGate(
                None, usage_bytes_max=1 << 30, message_bytes_max=1 << 20, reject_behavior=REJECT_ALWAYS
            )
            target = QueueTarget(name, gate, Pressure(high_bytes=1 << 30, low_bytes=0), durable=True)
            got = self.taken[name] = []
            target.partitions.append(PartitionTarget(1, recorder(self.runtime, got).inbox))
            self.space.subscribe(smf(text), target, target)
        spool = recorder(self.runtime, self.stored).inbox
        for name in NAMES:
            heard = self.heard[name] = []
            address = recorder(self.runtime, heard).inbox
            self.publishers[name] = Publisher(space=self.space, spool=spool, address=address, rng=random.Random(1))

    def hold(self) -> None:
        self.space.hold("moving", [smf("moving/>")])

    def end_hold(self) -> None:
        if self.space.held is not None:
            self.space.held.end("moving")

    def release(self) -> None:
        while release_some(self.space, 2):
            pass
        turn(self.runtime)

    def payloads(self, queue: str) -> list[bytes]:
        """Return what a queue has got, in order."""
        return [each for append in self.taken[queue] for each in _append(append).batch.payloads()]

    def answer_stored(self) -> None:
        """Have the store confirm everything that has reached all its partitions."""
        turn(self.runtime)
        for append in self.taken["all"]:
            publication = _append(append).publication
            if publication is not None and publication.publisher is not None and not publication.confirmed:
                publication.confirmed = True
                publication.publisher.post(Confirmed(publication.token))
        turn(self.runtime)


def _append(message: object) -> Append:
    assert isinstance(message, Append)
    return message


def message(topic: str, payloads: list[bytes], qos: int = AT_LEAST_ONCE) -> MessageBatch:
    return MessageBatch(
        topic=topic,
        topics=None,
        payloads=payloads,
        headers=None,
        qos=qos,
        retain=False,
        publisher="p",
        received_ms=1,
        payload_bytes=sum(len(each) for each in payloads),
    )


@pytest.fixture
def site(runtime: Runtime) -> Site:
    return Site(runtime)


def test_a_message_to_a_held_topic_waits_and_is_confirmed_when_it_was_released_and_stored(site: Site) -> None:
    site.hold()

    result = site.publishers["p0"].publish(message("moving/1", [b"m"]), 7)

    turn(site.runtime)
    assert (result.refusal, result.confirmations_pending) == (ADMITTED, 1)
    assert site.payloads("moving") == []
    site.end_hold()
    site.release()
    assert site.payloads("moving") == [b"m"]
    assert site.heard["p0"] == []
    site.answer_stored()
    assert [each.token for each in site.heard["p0"] if isinstance(each, Confirmed)] == [7]


def test_other_topics_of_other_publishers_do_not_wait(site: Site) -> None:
    site.hold()
    site.publishers["p0"].publish(message("moving/1", [b"waits"]), 1)

    site.publishers["p1"].publish(message("staying/1", [b"goes"]), 1)

    turn(site.runtime)
    assert site.payloads("all") == [b"goes"]


def test_what_a_publisher_publishes_behind_a_message_that_waits_stays_behind_it(site: Site) -> None:
    """A queue that gets both would have them in another order."""
    site.hold()
    publisher = site.publishers["p0"]
    publisher.publish(message("moving/1", [b"1"]), 1)

    publisher.publish(message("staying/1", [b"2"]), 2)
    publisher.publish(message("staying/1", [b"3"], AT_MOST_ONCE), 0)

    site.end_hold()
    site.release()
    assert site.payloads("all") == [b"1", b"2", b"3"]


def test_a_publisher_that_waits_is_not_read_from_until_the_release(site: Site) -> None:
    site.hold()
    publisher = site.publishers["p0"]
    publisher.publish(message("moving/1", [b"1"]), 1)

    [pressure] = publisher.pressures

    was_over = pressure.over
    pressure.wait(recorder(site.runtime, site.heard["p1"]).inbox)
    site.end_hold()
    site.release()
    assert (was_over, pressure.over) == (True, False)
    assert [type(each) for each in site.heard["p1"]] == [Resume]


def test_a_topic_space_without_holds_keeps_nothing_of_them(site: Site) -> None:
    site.hold()
    site.publishers["p0"].publish(message("moving/1", [b"1"]), 1)

    site.end_hold()
    site.release()

    assert site.space.held is None


def test_several_guaranteed_messages_of_one_batch_are_asked_for_one_by_one(site: Site) -> None:
    """At the release each may have another fate, and a batch has only one answer."""
    site.hold()

    result = site.publishers["p0"].publish(message("moving/1", [b"1", b"2"]), 1)

    assert result.refusal == REFUSED_MOVING


def test_a_message_that_is_refused_at_its_release_is_refused_to_its_publisher(site: Site) -> None:
    site.hold()
    result = site.publishers["p0"].publish(message("moving/1", [b"m"], EXACTLY_ONCE), 3)
    assert result.publication is not None
    result.publication.session_rows = [(b"id", b"1")]
    site.gates["moving"].ingress_enabled = False

    site.end_hold()
    site.release()

    [failure] = site.heard["p0"]
    assert isinstance(failure, PublishFailed)
    assert (failure.token, failure.verdict) == (3, REFUSED_SHUT_DOWN)
    assert result.publication.refused
    assert site.stored == []
    assert site.payloads("all") == []


def test_the_rows_of_a_message_without_a_receiver_at_its_release_are_stored_all_the_same(runtime: Runtime) -> None:
    """Else the client's identifier of it would be unknown after a restart, and the message would come again."""
    space, stored, heard = TopicSpace(), list[object](), list[object]()
    address = recorder(runtime, heard).inbox
    publisher = Publisher(space=space, spool=recorder(runtime, stored).inbox, address=address, rng=random.Random(1))
    space.hold("moving", [smf("moving/>")])
    result = publisher.publish(message("moving/1", [b"m"], EXACTLY_ONCE), 3)
    assert result.publication is not None
    result.publication.session_rows = [(b"id", b"1")]
    assert space.held is not None

    space.held.end("moving")
    release_some(space, 10)
    turn(runtime)

    [rows] = stored
    assert isinstance(rows, SessionRows)
    assert rows.rows == [(b"id", b"1")]
    assert heard == []
    assert rows.reply_to is not None
    rows.reply_to.post(Confirmed(rows.token))
    turn(runtime)
    assert [each.token for each in heard if isinstance(each, Confirmed)] == [3]
    assert result.publication.confirmed


def test_a_transaction_is_refused_and_may_be_tried_again(site: Site) -> None:
    nobody = recorder(site.runtime, []).inbox
    publisher = Publisher(space=site.space, spool=nobody, address=nobody, rng=random.Random(1), in_transaction=True)
    site.hold()

    result = publisher.publish(message("moving/1", [b"m"]), 1)

    assert result.refusal == REFUSED_MOVING
    assert publisher.publish(message("staying/1", [b"m"]), 1).refusal == ADMITTED


@pytest.mark.parametrize(("qos", "refused", "dropped"), [(AT_LEAST_ONCE, 1, 0), (AT_MOST_ONCE, 0, 1)])
def test_what_waits_is_bounded(site: Site, qos: int, refused: int, dropped: int) -> None:
    site.hold()
    publisher, large = site.publishers["p0"], bytes(holds.WAITING_BYTES_MAX // 2)
    publisher.publish(message("moving/1", [large]), 1)

    result = publisher.publish(message("moving/1", [large], qos), 2)

    assert site.space.held is not None
    assert (result.refusal == REFUSED_MOVING) == bool(refused)
    assert (site.space.held.refused_count, site.space.held.dropped_count) == (refused, dropped)
    site.end_hold()
    site.release()
    assert (site.space.held_refused_count, site.space.held_dropped_count) == (refused, dropped)


STEP_WORDS = ("hold", "end", "release", "turn", "answer")
PUBLISH = st.tuples(st.sampled_from(NAMES), st.sampled_from(TOPICS), st.sampled_from([0, 1, 2]))
STEPS = st.lists(st.one_of(PUBLISH, st.sampled_from(STEP_WORDS)), max_size=60)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_whatever_is_held_when_each_queue_gets_a_publishers_messages_in_order_and_each_has_one_answer(
    steps: list[tuple[str, str, int] | str],
) -> None:
    with lone_runtime() as runtime:
        site = Site(runtime)
        published: dict[str, list[tuple[bytes, str]]] = {name: [] for name in NAMES}
        awaited: dict[str, list[int]] = {name: [] for name in NAMES}
        for number, step in enumerate([*steps, "end", "release", "answer"], start=1):
            if step == "hold":
                site.hold()
            elif step == "end":
                site.end_hold()
            elif step == "release":
                site.release()
            elif step == "turn":
                release_some(site.space, 1)
                turn(runtime)
            elif step == "answer":
                site.answer_stored()
            elif not isinstance(step, str):
                name, topic, qos = step
                payload = f"{name}/{number}".encode()
                result = site.publishers[name].publish(message(topic, [payload], qos), number)
                assert result.refusal == ADMITTED
                published[name].append((payload, topic))
                if qos:
                    assert result.confirmations_pending == 1
                    awaited[name].append(number)
        for name in NAMES:
            prefix = f"{name}/".encode()
            for queue, wanted in (("all", ""), ("moving", "moving/")):
                got = [each for each in site.payloads(queue) if each.startswith(prefix)]
                assert got == [payload for payload, topic in published[name] if topic.startswith(wanted)]
            tokens = [each.token for each in site.heard[name] if isinstance(each, Confirmed)]
            assert sorted(tokens) == awaited[name]
        assert site.space.held is None
