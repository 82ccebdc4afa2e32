"""Retained messages count for what they take, and nothing beyond the limits is admitted that takes more room."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED, REFUSED_RETAINED_COUNT, REFUSED_RETAINED_FULL
from sluicegate.messaging.message.thresholds import Exceedance
from sluicegate.messaging.network.retained.versions import Version
from sluicegate.messaging.routing.retained_messages import (
    NODE_BYTES,
    UNWRITTEN_HIGH_BYTES,
    UNWRITTEN_LOW_BYTES,
    RetainedMessage,
    RetainedMessages,
    usage_of_row,
)
from support.cores.messages import batch_of

TOPICS = st.lists(st.sampled_from(["", "a", "b", "long" * 20]), min_size=1, max_size=4).map("/".join).filter(bool)
STEPS = st.lists(st.tuples(TOPICS, st.integers(0, 3000)), max_size=40)
BYTES_MAX = 8000
COUNT_MAX = 4


def one(topic: str, size: int) -> MessageBatch:
    return batch_of([bytes(size)], topic=topic)


def limited(usage_bytes_max: int = BYTES_MAX, count_max: int = COUNT_MAX) -> RetainedMessages:
    retained = RetainedMessages()
    retained.bound(usage_bytes_max, count_max)
    return retained


def plain_usage(sizes: dict[str, int]) -> int:
    """What these count for, said in another way: each message, its topic twice, and each path of levels once."""
    paths = {tuple(words[:end]) for words in (topic.split("/") for topic in sizes) for end in range(1, len(words) + 1)}
    messages = sum(size + 2 * len(topic) + 512 for topic, size in sizes.items())
    return messages + NODE_BYTES * len(paths)


@given(STEPS)
def test_usage_is_that_of_a_plain_model_and_within_the_limits(steps: list[tuple[str, int]]) -> None:
    retained, model = limited(), dict[str, int]()
    for topic, size in steps:
        batch = one(topic, size)
        wanted = {**model, topic: size}
        if size == 0:
            wanted.pop(topic)
        verdict = retained.verdict([batch])
        grows = plain_usage(wanted) > plain_usage(model)
        if grows and plain_usage(wanted) > BYTES_MAX:
            assert verdict == REFUSED_RETAINED_FULL
        elif topic not in model and len(wanted) > COUNT_MAX:
            assert verdict == REFUSED_RETAINED_COUNT
        else:
            assert verdict == ADMITTED
            model = wanted
            if size:
                retained.put(topic, RetainedMessage(batch))
            else:
                retained.remove(topic)
        retained.check()
        assert retained.usage_bytes == plain_usage(model) <= BYTES_MAX
        assert retained.count == len(model)


def test_a_level_that_another_topic_has_counts_once() -> None:
    """Else topics of 200 levels would take fifty times what they count for."""
    retained = limited(1 << 20)
    deep = "/".join(["a"] * 199)
    retained.put(f"{deep}/x", RetainedMessage(one(f"{deep}/x", 10)))
    before = retained.usage_bytes
    assert before > 200 * NODE_BYTES
    retained.put(f"{deep}/y", RetainedMessage(one(f"{deep}/y", 10)))
    assert retained.usage_bytes - before == usage_of_row(one(f"{deep}/y", 10), 0) + NODE_BYTES
    retained.remove(f"{deep}/x")
    retained.remove(f"{deep}/y")
    assert retained.usage_bytes == 0


def test_several_messages_are_refused_together_and_admitted_one_by_one() -> None:
    """Whoever publishes them tries each alone then."""
    retained = limited(count_max=1)
    twice = batch_of([b"1", b"2"])
    assert retained.verdict([twice]) == REFUSED_RETAINED_COUNT
    for row in range(2):
        alone = twice.select([row])
        assert retained.verdict([alone]) == ADMITTED
        retained.put("t", RetainedMessage(alone))


def test_refusals_are_reported_once_and_again_after_a_tenth_of_the_limit_came_in() -> None:
    retained = limited()
    told: list[int] = []
    retained.usage_exceeded = Exceedance(told.append)
    for _ in range(3):
        retained.note_refusal(REFUSED_RETAINED_FULL, hears=True)
    assert told == [BYTES_MAX]
    retained.put("t", RetainedMessage(one("t", BYTES_MAX // 5)))
    retained.note_refusal(REFUSED_RETAINED_FULL, hears=False)
    assert told == [BYTES_MAX] * 2
    assert (retained.refused, retained.not_retained) == ({REFUSED_RETAINED_FULL: 3}, {REFUSED_RETAINED_FULL: 1})


def test_who_retains_waits_while_much_is_on_its_way_to_the_store() -> None:
    """And goes on when little is left: what is in the store and what never will be is the same."""
    retained, over = limited(), list[bool]()
    for size in (UNWRITTEN_HIGH_BYTES - 1, UNWRITTEN_LOW_BYTES):
        retained.row_leaves(size)
        over.append(retained.pressure.over)
    for size in (UNWRITTEN_LOW_BYTES, UNWRITTEN_HIGH_BYTES - 1):
        assert retained.row_is_done(size) == [], "nobody waits"
        over.append(retained.pressure.over)
    assert over == [False, True, True, False]
    assert retained.unwritten_bytes == 0


def test_a_client_that_deletes_nothing_pushes_out_no_deletion() -> None:
    retained = limited(count_max=4)
    retained.put("plant", RetainedMessage(one("plant", 1)))
    retained.bury("plant", Version(1, 0, "a"))
    for number in range(10):
        retained.bury(f"nothing/{number}", Version(2, number, "a"))
    retained.tombstones.begin("b")
    assert len(retained.forgettable(1000)) == 7
    assert retained.tombstones.get("plant") == Version(1, 0, "a")
