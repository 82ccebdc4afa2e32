"""Staged transactions against a plain model: what was named is published once, whatever is said twice or too late."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.bulk.staging import (
    BAD_TRANSACTION,
    BUSY,
    NOT_STAGED,
    STAGE_BYTES_MAX,
    TOO_LARGE,
    TOO_MUCH_STAGED,
    StagedPage,
    StagingArea,
    StagingRefused,
)
from support.thorough import examples

NAMES = ["a", "b"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["stage", "stage", "stage", "commit", "decide", "give up", "finish", "abort", "wait"]),
        st.sampled_from(NAMES),
        st.integers(0, 2),  # part
        st.integers(0, 1),  # attempt
    ),
    max_size=60,
)


def area_of(*, bytes_max: int = 1000) -> StagingArea:
    return StagingArea(next_sequence=1, bytes_max=bytes_max, ttl_ms=50, names_kept_ms=100)


class PlainStaging:
    """Names and what they stand for, in dicts."""

    def __init__(self) -> None:
        self.staged: dict[str, list[StagedPage]] = {name: [] for name in NAMES}
        self.committing: dict[str, list[StagedPage]] = {}
        self.committed: set[str] = set()
        self.touched_ms = dict.fromkeys(NAMES, 0)


@settings(max_examples=examples(300), deadline=None)
@given(steps=STEPS)
def test_transactions_agree_with_the_plain_model(steps: list[tuple[str, str, int, int]]) -> None:
    """Goal: a name is published at most once, and only what was named. Method: the same steps to both, compared."""
    area, model = area_of(), PlainStaging()
    wall_ms = 0
    for step, name, part, attempt in steps:
        match step:
            case "stage":
                if name in model.committing and name not in model.committed:
                    with pytest.raises(StagingRefused) as refused:
                        area.stage(name, part, attempt, user="", count=2, usage_bytes=3, wall_ms=wall_ms)
                    assert refused.value.code == BUSY
                    continue
                page = area.stage(name, part, attempt, user="", count=2, usage_bytes=3, wall_ms=wall_ms)
                assert (page is None) == (name in model.committed)
                if page is not None:
                    model.staged[name].append(page)
                    model.touched_ms[name] = wall_ms
            case "commit":
                staged = {(each.part, each.attempt) for each in model.staged[name]}
                if name in model.committed:
                    assert area.begin_commit(name, [(part, attempt)], wall_ms, user="") is None
                elif name in model.committing or (part, attempt) not in staged:
                    with pytest.raises(StagingRefused):
                        area.begin_commit(name, [(part, attempt)], wall_ms, user="")
                else:
                    pages = area.begin_commit(name, [(part, attempt)], wall_ms, user="")
                    named = [each for each in model.staged[name] if (each.part, each.attempt) == (part, attempt)]
                    assert pages == named
                    model.committing[name] = named
            case "decide" | "give up" if name in model.committing and name not in model.committed:
                if step == "decide":
                    area.decided(name, wall_ms, 1)
                    model.committed.add(name)
                else:
                    area.give_up_commit(name)
                    del model.committing[name]
            case "finish" if name in model.committing and name in model.committed:
                for each in model.staged[name]:
                    area.drop(each)
                area.published(name)
                del model.committing[name]
                model.staged[name] = []
            case "abort" if name not in model.committing and name not in model.committed:
                assert area.abort(name, user="") == model.staged[name]
                for each in model.staged[name]:
                    area.drop(each)
                model.staged[name] = []
            case "wait":
                wall_ms += 30
                old = [
                    each
                    for each in NAMES
                    if model.staged[each] and each not in model.committing and model.touched_ms[each] + 50 <= wall_ms
                ]
                assert sorted(area.expired(wall_ms)) == old
        area.check()
        assert set(area.committed) == model.committed
        assert area.pages_count == sum(len(pages) for pages in model.staged.values())


@pytest.mark.parametrize(
    ("attempts", "code"), [([(0, 0), (0, 1)], BAD_TRANSACTION), ([(1, 0)], NOT_STAGED), ([(0, 7)], NOT_STAGED)]
)
def test_a_commit_names_one_attempt_of_each_part_and_only_what_was_staged(
    attempts: list[tuple[int, int]], code: str
) -> None:
    area = area_of()
    area.stage("t", 0, 0, user="", count=1, usage_bytes=1, wall_ms=0)
    area.stage("t", 0, 1, user="", count=1, usage_bytes=1, wall_ms=0)

    with pytest.raises(StagingRefused) as refused:
        area.begin_commit("t", attempts, 0, user="")

    assert refused.value.code == code


@pytest.mark.parametrize("name", ["", "x" * 300, "a\nb"])
def test_a_commit_of_a_name_that_nothing_can_be_staged_under_is_refused(name: str) -> None:
    """Else a commit of no attempts would be written down under it, as done."""
    area = area_of()
    with pytest.raises(StagingRefused) as refused:
        area.begin_commit(name, [], 0, user="")
    assert refused.value.code == BAD_TRANSACTION


def test_staging_has_limits() -> None:
    area = area_of(bytes_max=10)
    area.stage("t", 0, 0, user="", count=1, usage_bytes=10, wall_ms=0)
    for size, code in ((1, TOO_MUCH_STAGED), (STAGE_BYTES_MAX + 1, TOO_LARGE)):
        with pytest.raises(StagingRefused) as refused:
            area.stage("t", 0, 0, user="", count=1, usage_bytes=size, wall_ms=0)
        assert refused.value.code == code
