"""What a session knows of the messages that its client has."""

from sluicegate.protocols.mqtt.session.packet_ids import RECEIVED_RANGES_MAX, RECEIVED_RANGES_STORED_MAX, SentIds


def test_what_a_client_has_taken_takes_bounded_memory() -> None:
    """A session that takes every other message has a range for each; the oldest is forgotten first."""
    ids = SentIds()
    ids.set_partition(1)
    for number in range(RECEIVED_RANGES_MAX + 1):
        ids.add_received(2 * number + 1, 2 * number + 2)
    assert len(ids.received.ranges()) == RECEIVED_RANGES_MAX
    assert 1 not in ids.received
    assert 3 in ids.received


def test_what_was_taken_of_one_queue_says_nothing_of_another() -> None:
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
