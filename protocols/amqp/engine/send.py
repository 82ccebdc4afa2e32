"""Outgoing deliveries: cut into transfer frames that the peer takes, as far as its windows reach (2.5.6).

A payload goes to the transport as it is, between frame heads; it is sliced only if it does not fit into a frame.
"""

from typing import Final

from sluicegate.protocols.amqp.codec.transfers import first_transfer, next_transfer
from sluicegate.protocols.amqp.engine.link import SERIAL_MASK, OutgoingLink
from sluicegate.protocols.amqp.engine.session import PendingDelivery, Session
from sluicegate.protocols.amqp.limits import FRAME_HEAD_BYTES

TRANSFER_BYTES_MAX: Final = 80  # of a transfer's head and performative: tag 32, four numbers of 5, flags, constructors


def send_delivery(
    session: Session,
    link: OutgoingLink,
    payload: bytes,
    out: list[bytes],
    frame_bytes_max: int,
    message_format: int,
    tag: bytes | None = None,
    resume: bool = False,
) -> int:
    """Send one message, or queue what the peer's window does not take; return its delivery id.

    The link has credit: the caller has seen to that, and sends no more while the session is blocked.
    """
    delivery_id = session.take_delivery_id()
    link.delivery_count = (link.delivery_count + 1) & SERIAL_MASK
    link.credit -= 1
    settled = link.is_settled_by_us
    if tag is None:
        tag = link.take_tag()
    if (
        not session.pending
        and session.remote_incoming_window > 0
        and len(payload) + TRANSFER_BYTES_MAX <= frame_bytes_max
    ):
        out.append(
            first_transfer(
                session.transfer_lead,
                link.handle_bytes,
                delivery_id,
                tag,
                message_format,
                settled=settled,
                more=False,
                resume=resume,
                room=len(payload),
            )
        )
        out.append(payload)
        _count_frame(session)
        return delivery_id
    session.pending.append(
        PendingDelivery(link, delivery_id, tag, payload, message_format=message_format, settled=settled, resume=resume)
    )
    send_pending(session, out, frame_bytes_max)
    if session.pending:
        session.is_blocked = True
    return delivery_id


def send_pending(session: Session, out: list[bytes], frame_bytes_max: int) -> None:
    """Send what waited, as far as the peer's window reaches."""
    pending = session.pending
    room = frame_bytes_max - TRANSFER_BYTES_MAX
    sent_count = 0
    while sent_count < len(pending) and session.remote_incoming_window > 0:
        delivery = pending[sent_count]
        start = delivery.offset
        stop = min(start + room, len(delivery.payload))
        more = stop < len(delivery.payload)
        piece = delivery.payload if start == 0 and not more else delivery.payload[start:stop]
        if start == 0:
            head = first_transfer(
                session.transfer_lead,
                delivery.link.handle_bytes,
                delivery.delivery_id,
                delivery.tag,
                delivery.message_format,
                settled=delivery.settled,
                more=more,
                resume=delivery.resume,
                room=len(piece),
            )
        else:
            head = next_transfer(session.transfer_lead, delivery.link.handle_bytes, more=more, room=len(piece))
        out.append(head)
        out.append(piece)
        _count_frame(session)
        if more:
            delivery.offset = stop
        else:
            sent_count += 1
    del pending[:sent_count]


def _count_frame(session: Session) -> None:
    session.next_outgoing_id = (session.next_outgoing_id + 1) & SERIAL_MASK
    session.remote_incoming_window -= 1


assert TRANSFER_BYTES_MAX > FRAME_HEAD_BYTES
