"""Behaviour that the judge must not report as a violation. Seeds found each case."""

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial

import pytest

import support.mqtt.packets as mqtt
from simulation.actions import play
from simulation.checks.node_checks import queues_of
from simulation.clients.client import HOLD, KEEP_ALIVE_S, ONLINE, PROMPT, REJECTED
from simulation.faults import FAILURES_MAX
from simulation.judge.targets import EXCLUSIVE, GROUP, SESSION, Rules, Seen, Violation
from simulation.judge.truth import Truth
from simulation.run import MENDING_US, drain
from simulation.scenario import GATHER, LOCK, PLAIN, RETENTION, SELECTIONS, TEMPORARY, queue_id
from simulation.steps import Step
from simulation.wires.mqtt_tap import Tap, number_of
from simulation.world import World

A_WHILE_US, A_MOMENT_US = 2_000_000, 2_000
KEYS = ("k0", "k1", "k2", "k3")


@pytest.fixture
def world() -> Iterator[World]:
    """A consumer has in flight a message of each key of a partitioned queue."""
    made = World(1, PLAIN)
    for name in ("p0", "c1", "c2"):
        made.clients[name].connect(clean_start=False)
    made.advance(A_WHILE_US)
    consumer = made.clients["c1"]
    consumer.mode = HOLD
    consumer.consume("keyed", 1)
    made.advance(A_WHILE_US)
    for key in KEYS:
        made.clients["p0"].publish("work/c/x", key, 1, 40)
    made.advance(A_WHILE_US)
    yield made
    made.close()


def test_a_rejection_by_a_former_owner_of_the_partition_is_ignored(world: World) -> None:
    """The owner that came after it has accepted the message: it is no dead message."""
    owner, newcomer = world.clients["c1"], world.clients["c2"]
    newcomer.mode = PROMPT
    newcomer.consume("keyed", 1)
    world.advance(5 * A_WHILE_US)
    seen = world.truth.targets["keyed"].seen.values()
    assert any(each.count > 1 and each.settled_tick for each in seen), "a partition has changed hands"

    owner.settle(len(owner.held), order=0, reason_code=REJECTED, twice=False)
    world.advance(A_WHILE_US)

    assert any(each.was_rejected for each in seen)
    assert not any(each.was_rejected and each.count > 1 for each in seen)
    drain(world)


def test_a_session_that_is_not_kept_ends_with_its_connection_though_its_client_does_not_hear_of_that(
    world: World,
) -> None:
    """The gateway has ended the connection of a client for its silence; that client reads nothing."""
    subscriber, publisher = world.clients["s2"], world.clients["p0"]
    subscriber.connect(clean_start=True)
    world.advance(A_WHILE_US)
    subscriber.subscribe("state/", 2)
    world.advance(A_WHILE_US)
    subscriber.stall(True)
    publisher.publish("state/y", "k0", 2, 40)  # it will read that when the gateway has given it up
    for _ in range(2 * KEEP_ALIVE_S):
        publisher.tick()
        world.advance(1_000_000)

    publisher.publish("state/y", "k0", 1, 40)
    world.advance(A_WHILE_US)

    assert subscriber.state == ONLINE, "it has not heard of it"
    assert not publisher.out
    subscriber.subscribe("state/", 2)
    subscriber.stall(False)
    drain(world)


def test_a_message_that_is_sent_again_may_be_refused_though_what_came_first_was_delivered(world: World) -> None:
    """Its connection was cut before the answer; QoS 1 has no way to tell that it is the same message."""
    truth = world.truth
    target = truth.targets["keyed"]
    message = truth.sent("p0", "k0", "work/c/x", 1)
    holder = next(seen.holder for seen in target.seen.values() if seen.holder is not None)
    truth.delivered(target, message.number, holder, held_us=truth.now_us(), flagged=False, count=0, again=False)
    message.sent_count += 1

    truth.promised(message, 0x97)


@pytest.mark.parametrize("was_flagged", [False, True])
def test_messages_delivered_before_a_crash_come_flagged_although_they_were_sent_again(
    world: World, was_flagged: bool
) -> None:
    """The store did not have it. Its publisher says that it sends it again, and may have done so before the crash."""
    truth = world.truth
    target = truth.targets["keyed"]
    message = truth.sent("p0", "k9", "work/c/x", 1)
    holder = next(seen.holder for seen in target.seen.values() if seen.holder is not None)
    deliver = partial(truth.delivered, target, message.number, holder, held_us=truth.now_us(), count=1, again=False)
    deliver(flagged=was_flagged)
    truth.course.crashes += 1
    truth.life += 1
    message.sent_count += 1

    with pytest.raises(Violation, match="not flagged as redelivered"):
        deliver(flagged=False)
    deliver(flagged=True)


@pytest.mark.parametrize("is_kept", [False, True])
def test_refused_messages_come_twice_only_to_a_session_that_is_not_kept(world: World, is_kept: bool) -> None:
    """It was sent before its commit. The publisher, which heard nothing, sends it again, and it is published anew."""
    truth = world.truth
    target = truth.begins("s", SESSION, ("work/d/",), Rules())
    message = truth.sent("p0", "k0", "work/d/x", 2)
    target.seen[message.number] = Seen()
    truth.came_anew(target, message.number, is_kept=is_kept)
    truth.store_refuses()
    message.sent_count += 1

    with pytest.raises(Violation, match="twice") if is_kept else nullcontext():
        truth.came_anew(target, message.number, is_kept=is_kept)


def test_the_temporary_queue_may_end_while_queues_are_opened_for_the_end_of_a_run(world: World) -> None:
    """Those before it wait for the store, and nobody looks meanwhile which queues are left."""
    asked = world.scenario.definition(TEMPORARY).to_dict()
    world.ask(world.view.create_queue(asked, durable=False))
    world.begins(TEMPORARY)
    lives_us = world.scenario.queues[TEMPORARY].attributes["expires_unbound_s"] * 1_000_000
    world.advance(lives_us - MENDING_US - 2500)
    world.pace.slow_left = 20

    drain(world)

    assert TEMPORARY not in world.truth.targets


def test_who_has_accepted_a_message_late_may_reject_its_second_delivery() -> None:
    """The lock of the first ran out; what its consumer said of that was the word on the message, which it had again."""
    queues = PLAIN.queues | {"first": PLAIN.queues["first"]._replace(attributes=LOCK)}
    world = World(1, PLAIN._replace(queues=queues))
    publisher, consumer = world.clients["p0"], world.clients["c1"]
    for each in (publisher, consumer):
        each.connect(clean_start=False)
    world.advance(A_WHILE_US)
    consumer.mode = HOLD
    consumer.consume("first", 1)
    world.advance(A_WHILE_US)
    publisher.publish("work/a/x", "k", 1, 40)
    world.advance(2 * A_WHILE_US)
    assert len(consumer.held) == 2

    consumer.settle(1, order=0, reason_code=0, twice=False)
    world.advance(A_MOMENT_US)
    consumer.settle(1, order=0, reason_code=REJECTED, twice=False)
    world.advance(A_WHILE_US)

    drain(world)
    world.close()


@pytest.mark.parametrize("accepts_late", [False, True])
def test_a_late_acceptance_leaves_the_rejection_of_a_concurrent_delivery_uncertain(
    accepts_late: bool,
) -> None:
    """The node had begun with it when it read the answer to the first: to MQTT, that counts for the second one."""
    now_us = [A_WHILE_US]
    truth = Truth(lambda: now_us[0])
    queue = truth.begins("q", EXCLUSIVE, ("t",), Rules(lock_ms=LOCK["consumer_ack_timeout_ms"]))
    tap = Tap(truth, "c", receive_maximum=10, names={1: "q"}, out={})
    number, properties = truth.sent("p0", "k", "t", 1).number, mqtt.subscription_identifier(1)
    again = mqtt.user_property("sluicegate-redelivered", "true") + mqtt.user_property("sluicegate-delivery-count", "2")

    tap.written(mqtt.publish("t", b"%d|" % number, level=5, qos=1, packet_id=1, properties=properties))
    now_us[0] += 1000 * LOCK["consumer_ack_timeout_ms"]
    if accepts_late:
        tap.read(mqtt.puback(1))
    now_us[0] += A_MOMENT_US
    tap.written(mqtt.publish("t", b"%d|" % number, level=5, qos=1, packet_id=2, properties=properties + again))
    now_us[0] += A_MOMENT_US
    tap.read(mqtt.puback(2, REJECTED))

    assert queue.seen[number].was_rejected is not accepts_late


def test_a_delivery_that_was_on_its_way_when_its_partition_was_read_back_is_not_counted(world: World) -> None:
    """It waits behind an answer to its client; the new ledger does not know of it, and counts from the beginning."""
    publisher, consumer = world.clients["p0"], world.clients["c1"]
    consumer.consume("first", 1)
    world.advance(A_WHILE_US)
    world.pace.slow_left = 2
    consumer.subscribe("work/d/", 1)
    world.advance(A_MOMENT_US)
    publisher.publish("work/a/x", "k", 1, 40)
    world.advance(A_MOMENT_US)
    target = world.truth.targets["first"]
    assert not target.seen, "it has not been written"
    first = [queue.name for queue in queues_of(world.node)].index("first")

    play(world, Step("break", who=first, what=0, amount=FAILURES_MAX - 1, salt=0, then_us=A_WHILE_US))

    assert [each.count for each in target.seen.values()] == [2]
    drain(world)


def test_messages_behind_a_refused_one_are_refused_with_it_and_keep_their_order() -> None:
    """Their publisher is gone before it hears of that, and sends them again when it is back."""
    world = World(1, PLAIN)
    publisher, consumer = world.clients["p0"], world.clients["c1"]
    for each in (publisher, consumer):
        each.connect(clean_start=False)
    world.advance(A_WHILE_US)
    world.pace.slow_left = 2
    world.faults.failures_left = 1
    for _ in range(2):  # each in a commit of its own, the first of which is under way for long
        publisher.publish("work/a/x", "k", 1, 40)
        world.advance(A_MOMENT_US)
    world.truth.course.store_faults += 1
    publisher.close()
    world.advance(A_WHILE_US)
    publisher.connect(clean_start=False)
    world.advance(A_WHILE_US)
    consumer.consume("first", 1)
    world.advance(A_WHILE_US)

    seen = world.truth.targets["first"].seen
    assert list(seen) == [1, 2]
    drain(world)
    world.close()


@pytest.mark.parametrize(("last_value", "is_refused"), [(True, True), (True, False), (False, True)])
def test_a_message_comes_behind_a_newer_one_only_where_that_took_its_place_and_was_refused(
    last_value: bool, is_refused: bool
) -> None:
    """A queue that keeps its newest message may have delivered that by the time that the store refuses it."""
    truth = Truth(lambda: 1_000_000)
    queue = truth.begins("q", EXCLUSIVE, ("t",), Rules(last_value=last_value))
    tap = Tap(truth, "c", receive_maximum=10, names={}, out={})
    former, newest = (truth.sent("p0", "k", "t", qos) for qos in (0, 1))
    truth.delivered(queue, newest.number, tap, held_us=1_000_000, flagged=False, count=1, again=False)
    if is_refused:
        truth.store_refuses()
    allowed = nullcontext() if last_value and is_refused else pytest.raises(Violation, match="behind")
    with allowed:
        truth.delivered(queue, former.number, tap, held_us=1_000_000, flagged=False, count=1, again=False)


@pytest.mark.parametrize(("qos", "leaves"), [(2, False), (2, True), (1, False)])
def test_a_message_may_wait_for_its_member_at_qos_2_while_others_have_its_key(qos: int, leaves: bool) -> None:
    """Whoever unsubscribes, perhaps from something else, completes what was begun with it [MQTT 3.10.4-3]."""
    truth = Truth(lambda: 0)
    group = truth.begins(GROUP, GROUP, ("t",), Rules())
    member, other = (Tap(truth, name, receive_maximum=10, names={}, out={}) for name in ("s1", "s2"))
    earlier, later = truth.sent("p0", "k", "t", qos), truth.sent("p0", "k", "t", 1)
    for message in (earlier, later):
        truth.promised(message, 0)
        truth.delivered(group, message.number, member, held_us=0, flagged=False, count=0, again=False)
        truth.goes_to(group, message.number, "s1", is_once=message.qos == 2, is_leaving=False)
    if leaves:
        truth.gives_back("s1")
    truth.life += 1  # the node starts again, and another member is the first to come
    with nullcontext() if qos == 2 else pytest.raises(Violation, match="is unsettled with another consumer"):
        truth.delivered(group, later.number, other, held_us=0, flagged=False, count=0, again=False)


def test_undelivered_purged_messages_may_come_in_a_replay() -> None:
    """It begins with the oldest message, whatever became of it: not behind those that came in the meantime."""
    queues = PLAIN.queues | {"first": PLAIN.queues["first"]._replace(attributes=RETENTION)}
    world = World(1, PLAIN._replace(queues=queues))
    publisher, consumer = world.clients["p0"], world.clients["c1"]
    for each in (publisher, consumer):
        each.connect(clean_start=False)
    world.advance(A_WHILE_US)
    publisher.publish("work/a/x", "k", 1, 40)
    world.advance(A_WHILE_US)
    play(world, Step("purge", who=0, what=0, amount=0, salt=0, then_us=A_WHILE_US))
    publisher.publish("work/a/x", "k", 1, 40)
    consumer.consume("first", 1)
    world.advance(A_WHILE_US)
    seen = world.truth.targets["first"].seen
    assert list(seen) == [2]

    play(world, Step("replay", who=0, what=0, amount=0, salt=0, then_us=A_WHILE_US))
    world.finish_admin()
    world.advance(A_WHILE_US)

    assert list(seen) == [2, 1]
    drain(world)
    world.close()


def test_unseen_deliveries_of_a_recreated_queue_may_come_again_after_later_ones() -> None:
    """It was deleted, and made anew for a consumer by its definition: nobody saw what was delivered of it then."""
    world = World(1, PLAIN._replace(forwards=True))
    publisher, consumer = world.clients["p0"], world.clients["c1"]
    for each in (publisher, consumer):
        each.connect(clean_start=False)
    world.advance(A_WHILE_US)
    place = list(world.truth.targets).index(GATHER)
    play(world, Step("delete", who=0, what=place, amount=0, salt=0, then_us=A_WHILE_US))
    consumer.mode = HOLD
    consumer.consume(GATHER, 1)
    world.advance(A_WHILE_US)
    publisher.publish("work/w/x", "k", 1, 40)
    world.advance(A_WHILE_US)
    play(world, Step("create", who=0, what=1, amount=0, salt=0, then_us=A_WHILE_US))
    publisher.publish("work/w/x", "k", 1, 40)
    world.advance(A_WHILE_US)
    assert len(consumer.held) == 2
    assert list(world.truth.targets[GATHER].seen) == [2]

    consumer.close()
    drain(world)

    assert list(world.truth.targets[GATHER].seen) == [2, 1]
    world.close()


def test_who_selects_some_keys_of_a_queue_gets_no_others() -> None:
    truth = Truth(lambda: 0)
    truth.begins("first", EXCLUSIVE, ("work/",), Rules(selects=True))
    identifier = queue_id("first", SELECTIONS.index(("k0",)))
    tap = Tap(truth, "c0", receive_maximum=10, names={identifier: "first"}, out={})
    for key in ("k0", "k1"):
        truth.sent("p0", key, "work/x", 1)
    first, second = (
        mqtt.publish(
            "work/x",
            b"%d|" % number,
            level=5,
            qos=1,
            packet_id=number,
            properties=mqtt.subscription_identifier(identifier),
        )
        for number in truth.course.messages
    )

    tap.written(first)
    with pytest.raises(Violation, match="takes"):
        tap.written(second)


def test_a_message_over_amqp_is_known_by_its_body_whatever_its_other_sections_look_like() -> None:
    assert number_of(b"\x002|\x00Su\xa0(" + b"136|".ljust(40, b".")) == 136
