"""Offsets in checkpoints: they come back as they went, and what does not fit is named."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_sluicegate.reading.checkpoint import CheckpointError, last_progress
from pyspark_sluicegate.reading.offsets import Offset, OffsetError, named_places
from sluicegate.protocols.flow.codec.frames.cursor import Position

offsets = st.builds(
    Offset,
    queue=st.text(min_size=1, max_size=30),
    cursor=st.text(min_size=1, max_size=30),
    mode=st.sampled_from(["tap", "consume"]),
    incarnation=st.integers(0, (1 << 64) - 1),
    epoch=st.integers(0, (1 << 63) - 1),
    next=st.dictionaries(st.integers(0, 500), st.integers(1, (1 << 63) - 1), max_size=10),
    vpn=st.text(max_size=30),
    ids=st.dictionaries(st.integers(0, 500), st.integers(1, (1 << 63) - 1), max_size=10),
)
ORDERS = Offset(queue="orders", cursor="spark", mode="tap", incarnation=0xA1, epoch=3, next={0: 1501, 1: 1490})


@given(offsets)
def test_an_offset_comes_back_from_a_checkpoint_as_it_went(offset: Offset) -> None:
    assert Offset.of_json(json.loads(json.dumps(offset.to_json()))) == offset


def standing(partition: int, partition_id: int, *, acked: int = 1) -> Position:
    return Position(partition, 1, acked, 2_000, 0, partition_id)


def test_a_partition_that_is_not_named_goes_on_at_its_first_sequence() -> None:
    stands = [standing(0, 7), standing(1, 8), standing(2, 9)]
    assert ORDERS.places(stands) == {0: 1501, 1: 1490, 2: 1}
    moved = ORDERS.moved({1: 1500, 2: 8}, stands, 4)
    assert (moved.next, moved.ids) == ({0: 1501, 1: 1500, 2: 8}, {1: 8, 2: 9})


def test_a_partition_that_has_the_number_of_another_goes_on_at_its_first_sequence() -> None:
    """The queue had one partition for a time, and has two again: what the other was is through, and gone."""
    placed = replace(ORDERS, ids={0: 7, 1: 8})
    assert placed.places([standing(0, 7), standing(1, 12)]) == {0: 1501, 1: 1}
    assert placed.is_covered_by([standing(0, 7, acked=1501), standing(1, 12)])
    assert not placed.is_covered_by([standing(0, 7, acked=1501), standing(1, 8)])
    assert placed.moved({1: 30}, [standing(0, 7), standing(1, 12)], 4).ids == {0: 7, 1: 12}


def test_of_partitions_that_went_nothing_is_acknowledged() -> None:
    placed = replace(ORDERS, ids={0: 7, 1: 8})
    assert placed.places([standing(0, 7)]) == {0: 1501}
    assert placed.is_covered_by([standing(0, 7, acked=1501)])


def test_where_partitions_are_not_distinguished_their_numbers_count() -> None:
    """By an earlier release's checkpoint, or an earlier gateway."""
    assert ORDERS.places([standing(1, 12)]) == {1: 1490}
    assert replace(ORDERS, ids={1: 8}).places([standing(1, 0)]) == {1: 1490}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "no offset"),
        ({"partition": 1}, "no offset"),
        ({**ORDERS.to_json(), "v": 2}, "version 2"),
        ({**ORDERS.to_json(), "next": {"zero": 1}}, "no offset"),
        ({"v": 1, "queue": "orders"}, "no offset"),
    ],
)
def test_an_invalid_offset_is_refused(found: object, said: str) -> None:
    with pytest.raises(OffsetError, match=said):
        Offset.of_json(found)


def test_an_offset_of_another_queue_or_spool_or_message_vpn_is_refused_with_both_names() -> None:
    of_sales = replace(ORDERS, vpn="sales")
    of_sales.check_is_of("orders", "sales", 0xA1)
    with pytest.raises(OffsetError, match="queue orders, not of returns"):
        of_sales.check_is_of("returns", "sales", 0xA1)
    with pytest.raises(OffsetError, match="00000000000000a1, the gateway's is 00000000000000b2"):
        of_sales.check_is_of("orders", "sales", 0xB2)
    with pytest.raises(OffsetError, match="orders in the message VPN sales, not in default"):
        of_sales.check_is_of("orders", "default", 0xA1)


def test_an_offset_of_an_earlier_release_names_no_message_vpn_and_goes_on_in_any() -> None:
    found = ORDERS.to_json()
    del found["vpn"], found["ids"]
    Offset.of_json(found).check_is_of("orders", "sales", 0xA1)


def test_places_to_begin_at_are_json() -> None:
    stands = [standing(0, 7), standing(1, 8)]
    assert named_places('{"0": 1501, "1": 1}', stands) == {0: 1501, 1: 1}
    for wrong in ("tomorrow", "[1]", '{"0": 0}', '{"-1": 5}', '{"0": "x"}'):
        with pytest.raises(OffsetError):
            named_places(wrong, stands)
    with pytest.raises(OffsetError, match="the queue has the partitions 0 to 1"):
        named_places('{"0": 1, "2": 5}', stands)


def test_the_last_batch_that_is_through_is_found_in_sparks_files(tmp_path: Path) -> None:
    assert last_progress(str(tmp_path)) is None
    (tmp_path / "metadata").write_text('{"id":"d-1"}')
    for name in ("commits", "offsets"):
        (tmp_path / name).mkdir()
    assert last_progress(str(tmp_path)) is None
    for number in (0, 2, 10):
        (tmp_path / "offsets" / str(number)).write_text(
            "\n".join(["v1", "{}", json.dumps(ORDERS.moved({0: 2000 + number}, (), 3).to_json()), '{"file": 7}'])
        )
    for number in (0, 2):
        (tmp_path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    (tmp_path / "commits" / ".2.crc").write_bytes(b"")
    found = last_progress(f"file://{tmp_path}")
    assert found is not None
    assert found.reference == "d-1/2"
    assert [offset.next[0] for offset in found.offsets] == [2002]


def test_a_checkpoint_that_cannot_be_read_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="File name too long"):
        last_progress(str(tmp_path / ("x" * 300)))


def test_a_checkpoint_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="s3a"):
        last_progress("s3a://bucket/checkpoint")
    (tmp_path / "metadata").write_text("no json")
    with pytest.raises(CheckpointError, match="not as Spark writes it"):
        last_progress(str(tmp_path))
