"""When a client is read from again: whenever nothing it waits for is in its way, and in every order of events."""

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.protocols.connection.read_control import ReadControl


def test_a_publisher_waits_again_for_a_destination_that_is_full_again_before_it_goes_on() -> None:
    """Its word that it may go on was under way; it needs another one, or it is never read from again."""
    publisher = Address()
    gate = ReadControl(publisher)
    pressure = Pressure(high_bytes=100, low_bytes=10)
    pressure.level(100, 0)
    gate.published([pressure], 1)
    for _ in range(2):
        assert pressure.level(0, 0) == [publisher]
        pressure.level(100, 0)
        gate.resume()
        assert gate.stopped
    assert pressure.level(0, 0) == [publisher]
    gate.resume()
    assert not gate.stopped
