"""What an HTTP flow holds, against a plain dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.state.unsettled import DeliverySource
from sluicegate.protocols.http.consuming.unsettled import UnsettledMessage, UnsettledMessages
from support.broker.inside_client import batch_on

LOCK_MS = 10
SOURCES = [DeliverySource(Address(), number, 1, 1, 1) for number in range(2)]
BATCH = batch_on("t", [b""])

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "take", "extend", "expire", "keep", "show", "wait", "end"]),
        st.integers(0, 1),
        st.integers(1, 12),
    ),
    max_size=40,
)


@given(steps=STEPS)
def test_held_agrees_with_a_dictionary(steps: list[tuple[str, int, int]]) -> None:
    """Goal: a message is held once, until it is taken or its lock is over, and none waits that is not held.

    Method: the same steps to both.
    """
    held, model = (
        UnsettledMessages(),
        dict[int, tuple[int, int, int]](),
    )  # number -> partition, sequence, end of its lock
    waiting: list[int] = []
    shown: set[int] = set()
    for now_ms, (kind, partition, number) in enumerate(steps, start=1):
        until_ms = now_ms + LOCK_MS
        if kind == "add":
            same = [each for each, (where, sequence, _) in model.items() if (where, sequence) == (partition, number)]
            older = held.add(
                UnsettledMessage(100 + now_ms, SOURCES[partition], number, BATCH, 0, False, 1, False, until_ms)
            )
            assert ([] if older is None else [older.number]) == same
            for each in same:
                del model[each]
            model[100 + now_ms] = (partition, number, until_ms)
            waiting.append(100 + now_ms)
        elif kind == "take":
            chosen = sorted(model)[number % len(model)] if model else 1
            taken = held.take(chosen)
            assert (taken is not None) == (model.pop(chosen, None) is not None)
        elif kind == "extend" and model:
            chosen = sorted(model)[number % len(model)]
            message = held.get(chosen)
            assert message is not None
            held.extend(message, until_ms)
            model[chosen] = (*model[chosen][:2], until_ms)
        elif kind == "expire":
            over = [each for each, (_, _, until) in model.items() if until <= now_ms]
            assert sorted(held.expired(now_ms)) == sorted(over)
            for each in over:
                held.take(each)
                del model[each]
        elif kind == "keep":
            others = [each for each, (where, _, _) in model.items() if where != partition]
            assert sorted(each.number for each in held.take_others({partition})) == sorted(others)
            for each in others:
                del model[each]
        elif kind == "show":
            assert [each.number for each in held.show(number)] == waiting[:number]
            shown.update(waiting[:number])
            del waiting[:number]
        elif kind == "wait":
            held.wait_again(after=100 + number)
            waiting = sorted(each for each in model if each > 100 + number)
        elif kind == "end":
            assert held.stop_waiting() == [each for each in waiting if each not in shown]
            waiting.clear()
        waiting = [each for each in waiting if each in model]
        held.check()
        assert held.count == len(model)
        assert (held.waiting(), held.waiting_count) == (waiting, len(waiting))
