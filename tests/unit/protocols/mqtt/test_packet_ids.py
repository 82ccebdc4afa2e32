"""Packet ids towards one client: what each stands for, which are given out, and runs of them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, EXACTLY_ONCE
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.protocols.mqtt.codec.limits import PACKET_ID_MAX
from sluicegate.protocols.mqtt.datapath.inflight_out import DeliveryOrigin, InflightOut, InflightRun
from sluicegate.protocols.mqtt.session.packet_ids import (
    RECEIVED_RANGES_MAX,
    RECEIVED_RANGES_STORED_MAX,
    IdRuns,
    SentIds,
)
from support.thorough import examples

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "answer", "answer run", "release run", "release", "complete"]),
        st.integers(0, 11),
    ),
    max_size=60,
)
KEPT_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "answer", "keep", "keep", "take", "take", "drop", "release", "new epoch"]),
        st.integers(1, 12),
    ),
    max_size=60,
)
SOURCE = DeliveryOrigin(Address(), 1, 1, None)


def test_an_id_that_the_client_knows_from_before_is_given_out_last() -> None:
    """[2.2.1-4]: it is free, and an acknowledgement of what came under it before may be late."""
    ids = InflightOut(RangeSet())
    ids.keep(5)
    ids.drop(5)
    first = ids.allocate(PACKET_ID_MAX, 1, AT_LEAST_ONCE, SOURCE)
    assert (first.first_packet_id, first.count) == (6, PACKET_ID_MAX - 5)
    rest = ids.allocate(PACKET_ID_MAX, 1, AT_LEAST_ONCE, SOURCE)
    assert (rest.first_packet_id, rest.count) == (1, 5)


def test_an_id_that_was_answered_is_given_out_again_behind_all_others() -> None:
    """[4.3.2-4]: until then a second PUBACK for it, which says nothing but the id, concerns no other message."""
    ids = InflightOut(RangeSet())
    ids.allocate(3, 1, AT_LEAST_ONCE, SOURCE)
    assert len(ids.acknowledge(2, 2)) == 1
    others = ids.allocate(PACKET_ID_MAX, 4, AT_LEAST_ONCE, SOURCE)
    assert (others.first_packet_id, others.count) == (4, PACKET_ID_MAX - 3)
    assert ids.acknowledge(2, 2) == []
    assert ids.allocate(1, 1, AT_LEAST_ONCE, SOURCE).first_packet_id == 2


def test_an_id_at_the_end_is_followed_by_the_first() -> None:
    ids = InflightOut(RangeSet())
    ids.restore_released(PACKET_ID_MAX, PACKET_ID_MAX + 1)
    assert ids.allocate(1, 1, AT_LEAST_ONCE, SOURCE).first_packet_id == 1


def test_an_answer_to_what_waits_for_the_store_is_to_nothing_that_was_sent() -> None:
    ids = InflightOut(RangeSet())
    run = ids.allocate(3, 1, EXACTLY_ONCE, SOURCE)
    run.waits = True

    assert ids.run_of(1, 3, EXACTLY_ONCE) is None
    assert not ids.stands_for_other_qos(1, 3, AT_LEAST_ONCE)
    assert ids.acknowledge(1, 3) == ids.release(2, 2) == []
    assert ids.unanswered() == [run]

    run.waits = False
    assert ids.stands_for_other_qos(1, 3, AT_LEAST_ONCE)
    assert ids.run_of(1, 3, EXACTLY_ONCE) is run


def test_unacknowledged_messages_of_an_ended_subscription_are_not_resent() -> None:
    not_sent_again = RangeSet()
    ids = InflightOut(not_sent_again)
    origin = DeliveryOrigin(Address(), 1, 1, sent := SentIds())
    ids.allocate(2, 1, EXACTLY_ONCE, origin)
    assert not_sent_again.total == 0

    ids.disown(sent)

    assert not_sent_again.ranges() == [(1, 3)]
    assert len(ids.acknowledge(1, 2)) == 1
    assert not_sent_again.total == 0


def meaning(runs: list[InflightRun]) -> dict[int, int]:
    """Return which sequence each packet id stands for."""
    return {run.first_packet_id + step: run.first_sequence + step for run in runs for step in range(run.count)}


@settings(max_examples=examples(400))
@given(steps=STEPS)
def test_ids_stand_for_what_they_were_given_to(steps: list[tuple[str, int]]) -> None:
    """Goal: no order of answers loses an id, or gives one out that is in use. Method: same steps to a dict, compare."""
    not_sent_again, sent, released, sequence = RangeSet(), dict[int, int](), set[int](), 100
    ids, exactly_once = InflightOut(not_sent_again), set[int]()
    for step, number in steps:
        first, last = 1 + number, 1 + number + number % 3
        if step == "send":
            run = ids.allocate(1 + number % 4, sequence, 1 + number // 4 % 2, SOURCE)
            assert run.count == 1 + number % 4, "ids are far from used up"
            assert not meaning([run]).keys() & (sent.keys() | released)
            sent |= meaning([run])
            exactly_once |= set(meaning([run])) if run.qos == EXACTLY_ONCE else set()
            sequence += run.count
        elif step in ("answer run", "release run"):
            qos = 1 if step == "answer run" else 2
            its_run = ids.run_of(first, last, qos)
            if its_run is not None:
                assert (its_run.first_packet_id, its_run.count, its_run.qos) == (first, last - first + 1, qos)
                assert meaning([its_run]).items() <= sent.items()
                (ids.acknowledge_run if qos == 1 else ids.release_run)(its_run)
                sent = {each: sent[each] for each in sent if not first <= each <= last}
                released |= set() if qos == 1 else set(range(first, last + 1))
        elif step == "complete":
            known = {each for each in released if first <= each <= last}
            assert ids.complete(first, last) == len(known)
            released -= known
        else:
            answered = ids.acknowledge(first, last) if step == "answer" else ids.release(first, last)
            known = {each for each in sent if first <= each <= last}
            assert meaning(answered) == {each: sent.pop(each) for each in sorted(known)}
            released |= known if step == "release" else set()
        assert meaning(ids.unanswered()) == sent
        exactly_once &= sent.keys()
        assert {each for each in sent if ids.stands_for_other_qos(each, each, 1)} == exactly_once
        assert {each for first, end in not_sent_again.ranges() for each in range(first, end)} == exactly_once
    free_count = PACKET_ID_MAX - len(sent) - len(released)
    while free_count > 0:
        free_count -= ids.allocate(free_count, sequence, AT_LEAST_ONCE, SOURCE).count


@settings(max_examples=examples(400))
@given(steps=KEPT_STEPS)
def test_an_id_that_a_client_knows_from_before_goes_to_who_asks_for_it(
    steps: list[tuple[str, int]],
) -> None:
    """Goal: nothing else is sent under it, whatever is sent and answered meanwhile. Method: same steps to a dict."""
    ids, kept, released, sent = InflightOut(RangeSet()), set[int](), set[int](), dict[int, int]()
    origin = DeliveryOrigin(Address(), 1, 1, SentIds())
    for sequence, (step, packet_id) in enumerate(steps):
        is_kept, is_free = packet_id in kept, packet_id not in kept | released | sent.keys()
        if step == "send":
            run = ids.allocate(1, sequence, AT_LEAST_ONCE, origin)
            assert run.first_packet_id not in kept | released | sent.keys()
            sent[run.first_packet_id] = sequence
        elif step == "answer":
            known = {packet_id: sent.pop(packet_id)} if packet_id in sent else {}
            assert meaning(ids.acknowledge(packet_id, packet_id)) == known
        elif step == "take":
            took = ids.take(packet_id, sequence, AT_LEAST_ONCE, origin) is not None
            assert took == (is_kept or is_free)
            sent |= {packet_id: sequence} if is_kept or is_free else {}
            kept.discard(packet_id)
        elif step == "keep" and is_free:
            ids.keep(packet_id)
            kept.add(packet_id)
        elif step == "drop":
            ids.drop(packet_id)
            kept.discard(packet_id)
        elif step == "release":
            assert ids.release_kept(packet_id) == is_kept
            kept.discard(packet_id)
            released |= {packet_id} if is_kept else set()
        elif step == "new epoch":
            origin = DeliveryOrigin(Address(), 1, origin.epoch + 1, origin.ids)
            held = ids.move_to(origin)
            assert [each for first, end in held.ranges() for each in range(first, end)] == sorted(sent.values())
        assert meaning(ids.unanswered()) == sent
        assert all(run.origin is origin for run in ids.unanswered())
        assert {each for first, end in ids.released.ranges() for each in range(first, end)} == released


def test_a_message_that_comes_alone_is_answered_under_the_id_that_it_went_out_with() -> None:
    ids = InflightOut(RangeSet())
    for sequence in range(3):
        run = ids.allocate(1, sequence, 1, SOURCE)
        assert ids.run_of(run.first_packet_id, run.first_packet_id, 2) is None, "it went out with QoS 1"
        assert ids.run_of(run.first_packet_id, run.first_packet_id, 1) is run
        ids.acknowledge_run(run)
        assert ids.run_of(run.first_packet_id, run.first_packet_id, 1) is None, "it is answered once"
    assert ids.unanswered() == []


RUN_STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "discard"]), st.integers(0, 20), st.integers(1, 6)), max_size=40
)


def packet_ids_of(runs: list[tuple[int, int, int]]) -> dict[int, int]:
    """Return the packet id of each sequence."""
    return {first + step: packet_id + step for first, packet_id, count in runs for step in range(count)}


@given(steps=RUN_STEPS)
def test_runs_mean_what_was_added_and_not_discarded(steps: list[tuple[str, int, int]]) -> None:
    """Goal: no order of steps gives a sequence another id, or forgets one. Method: same steps to a dict, compare."""
    ids, plain, next_id = IdRuns(), dict[int, int](), 1
    for step, first, count in steps:
        sequences = range(first, first + count)
        if step == "add":
            ids.add(first, next_id, count)
            plain |= {sequence: next_id + sequence - first for sequence in sequences}
            next_id += count + count % 2
        else:
            ids.discard(first, first + count)
            plain = {sequence: packet_id for sequence, packet_id in plain.items() if sequence not in sequences}
        runs = ids.runs()
        assert packet_ids_of(runs) == plain
        assert [first for first, _, _ in runs] == sorted(first for first, _, _ in runs)
        assert sum(count for _, _, count in runs) == len(plain)
        assert bool(ids) is bool(plain)
        assert [ids.find(sequence) for sequence in range(30)] == [plain.get(sequence, 0) for sequence in range(30)]


def test_ids_sent_together_and_acknowledged_in_order_are_one_run() -> None:
    ids = IdRuns()
    for first in range(1, 1000, 10):
        ids.add(first, first + 7, 10)
    ids.discard(1, 301)
    assert ids.runs() == [(301, 308, 700)]


def test_received_ids_take_limited_memory() -> None:
    """A session that takes every other message has a range for each; the oldest is forgotten first."""
    ids = SentIds()
    ids.set_partition(1)
    for number in range(RECEIVED_RANGES_MAX + 1):
        ids.add_received(2 * number + 1, 2 * number + 2)
    assert len(ids.received.ranges()) == RECEIVED_RANGES_MAX
    assert 1 not in ids.received
    assert 3 in ids.received


def test_received_ids_of_one_queue_do_not_apply_to_another() -> None:
    """A queue that was deleted and made again under its name has other sequences."""
    ids = SentIds()
    ids.set_partition(1)
    ids.add_received(5, 8)
    ids.set_partition(1)
    assert ids.received.ranges() == [(5, 8)]
    ids.set_partition(2)
    assert not ids.received


def test_the_store_has_everything_that_was_taken_and_is_not_settled() -> None:
    """Of what is settled it has the newest: older ones are written long since."""
    ids = SentIds()
    for number in range(3 * RECEIVED_RANGES_STORED_MAX):
        ids.add_received(2 * number + 1, 2 * number + 2)
    assert len(ids.received_to_store()) == RECEIVED_RANGES_STORED_MAX
    oldest = 2 * RECEIVED_RANGES_STORED_MAX + 1
    ids.unsettled.add(oldest, oldest + 1)
    assert ids.received_to_store()[0] == (oldest, oldest + 1)
    assert len(ids.received_to_store()) == 2 * RECEIVED_RANGES_STORED_MAX
