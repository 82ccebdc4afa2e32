"""Packet ids towards one client: which are given out, and when again."""

from messaging.address import Address
from messaging.batch import AT_LEAST_ONCE
from messaging.ranges import RangeSet
from protocols.mqtt.limits import PACKET_ID_MAX
from protocols.mqtt.outbound import DeliverySource, OutboundIds

SOURCE = DeliverySource(Address(), 1, 1, None)


def test_an_id_that_the_client_knows_from_before_is_given_out_last() -> None:
    """[2.2.1-4]: it is free, and an acknowledgement of what came under it before may be late."""
    ids = OutboundIds(RangeSet())
    ids.keep(5)
    ids.drop(5)
    first = ids.allocate(PACKET_ID_MAX, 1, AT_LEAST_ONCE, SOURCE)
    assert (first.first_packet_id, first.count) == (6, PACKET_ID_MAX - 5)
    rest = ids.allocate(PACKET_ID_MAX, 1, AT_LEAST_ONCE, SOURCE)
    assert (rest.first_packet_id, rest.count) == (1, 5)


def test_an_id_at_the_end_is_followed_by_the_first() -> None:
    ids = OutboundIds(RangeSet())
    ids.restore_released(PACKET_ID_MAX, PACKET_ID_MAX + 1)
    assert ids.allocate(1, 1, AT_LEAST_ONCE, SOURCE).first_packet_id == 1
