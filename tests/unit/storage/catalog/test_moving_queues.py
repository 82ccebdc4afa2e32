"""The rows of queues that move to another broker. Their bytes are read by later releases."""

import pytest

from sluicegate.messaging.queues.definition import QueueConfig, QueueDefinition
from sluicegate.messaging.queues.moves import COMMITTING, MOVING, RECEIVING, MovedQueue, QueueMove
from sluicegate.storage.catalog.queues import (
    StoredQueue,
    moved_queues,
    moved_row,
    moved_row_deleted,
    queue_row,
    stored_queues,
)
from sluicegate.storage.errors import UnknownRow


def stored(move: QueueMove | None) -> StoredQueue:
    return StoredQueue(QueueDefinition(QueueConfig(name="q")), "named", [7], None, None, move=move)


@pytest.mark.parametrize("stage", [RECEIVING, MOVING, COMMITTING])
def test_the_stage_of_a_move_and_the_other_broker_are_in_the_queues_row(stage: str) -> None:
    row = queue_row(stored(QueueMove(stage, "b", 1_700)))
    assert row.value is not None
    assert row.value.endswith(b',"move":{"stage":"%s","broker":"b","begun_ms":1700}}' % stage.encode())
    [found] = stored_queues({row.key: row.value})
    assert found.move == QueueMove(stage, "b", 1_700)


def test_a_queue_that_does_not_move_has_the_row_it_always_had() -> None:
    row = queue_row(stored(None))
    assert row.value is not None
    assert b"move" not in row.value
    [found] = stored_queues({row.key: row.value})
    assert found.move is None


def test_a_stage_of_another_release_is_refused() -> None:
    row = queue_row(stored(QueueMove(MOVING, "b")))
    assert row.value is not None
    with pytest.raises(UnknownRow, match="leaving"):
        list(stored_queues({row.key: row.value.replace(b"moving", b"leaving")}))


def test_a_queue_that_was_moved_away_is_remembered_with_its_home_and_topics() -> None:
    moved = MovedQueue("q", "b", (("plant/>", "smf"), ("a/#", "mqtt")))
    row = moved_row(moved)
    assert (row.key, row.value) == (
        b"moved-queue/q",
        b'{"broker":"b","filters":[["plant/>","smf"],["a/#","mqtt"]]}',
    )
    assert row.value is not None
    assert list(moved_queues({row.key: row.value})) == [moved]
    assert moved_row_deleted("q").key == row.key
    with pytest.raises(UnknownRow):
        list(moved_queues({row.key: b"{}"}))
