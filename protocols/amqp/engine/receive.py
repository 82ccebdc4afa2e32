"""Incoming deliveries: from transfer frames to whole messages, with the rules of 2.6.12 and 2.6.14.

There is one object for a connection, which counts the bytes of unfinished deliveries over all its links.
"""

from typing import final

from sluicegate.protocols.amqp.codec.delivery_states import TRANSACTIONAL
from sluicegate.protocols.amqp.codec.performatives import ABSENT, RECEIVER_SECOND
from sluicegate.protocols.amqp.codec.transfers import Transfer
from sluicegate.protocols.amqp.engine.events import AmqpEvent, CreditSpent, DeliveriesReceived
from sluicegate.protocols.amqp.engine.link import SERIAL_MASK, IncomingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.limits import DELIVERY_TAG_BYTES_MAX, AmqpLimits
from sluicegate.protocols.amqp.types.errors import (
    CONNECTION,
    INVALID_FIELD,
    LINK,
    MESSAGE_SIZE_EXCEEDED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    SESSION,
    TRANSFER_LIMIT_EXCEEDED,
    PeerViolation,
)
from sluicegate.protocols.transport.interface import append_piece


@final
class DeliveryAssembler:
    """Puts deliveries together."""

    def __init__(self, limits: AmqpLimits) -> None:
        self._limits = limits
        self.partial_bytes = 0  # of deliveries whose last frame has not come

    def transfer(
        self, session: Session, link: IncomingLink, transfer: Transfer, data: bytes, end: int, events: list[AmqpEvent]
    ) -> None:
        """Take one transfer; a delivery that is whole with it joins the events. Raises PeerViolation."""
        begins = not link.is_partial
        if begins:
            self._begin(session, link, transfer)
        elif transfer.delivery_id not in (ABSENT, link.partial_id):
            text = f"delivery-id {transfer.delivery_id} in the middle of delivery {link.partial_id}"
            raise PeerViolation(LINK, INVALID_FIELD, text)
        if transfer.settled:
            link.partial_settled = True
        if transfer.state is not None and transfer.state.code == TRANSACTIONAL:
            link.partial_txn_id = transfer.state.txn_id
        if transfer.aborted:
            self._use_credit(link)
            self.forget(link)
            events.append(CreditSpent(link))
            return
        size = end - transfer.payload_at
        self._check_size(link, size)
        if transfer.more:
            link.is_partial = True
            append_piece(link.partial, data[transfer.payload_at : end])
            link.partial_bytes += size
            self.partial_bytes += size
            return
        payload = data[transfer.payload_at : end]
        if not begins:
            link.partial.append(payload)
            payload = b"".join(link.partial)
        self._use_credit(link)
        self._join(session, link, link.partial_txn_id, payload, events)
        if not begins:
            self.forget(link)

    def skip(self, session: Session, transfer: Transfer) -> None:
        """Count a transfer on a link that is being detached; nothing else of it is kept."""
        if transfer.delivery_id != ABSENT:
            session.last_delivery_id = transfer.delivery_id

    def forget(self, link: IncomingLink) -> None:
        """Drop the bytes of an unfinished delivery."""
        self.partial_bytes -= link.partial_bytes
        link.is_partial = False
        link.partial = []
        link.partial_bytes = 0

    def _begin(self, session: Session, link: IncomingLink, transfer: Transfer) -> None:
        if transfer.delivery_id == ABSENT or transfer.tag is None:
            raise PeerViolation(
                LINK, INVALID_FIELD, "the first transfer of a delivery needs delivery-id and delivery-tag"
            )
        if session.last_delivery_id != ABSENT:
            expected = (session.last_delivery_id + 1) & SERIAL_MASK
            if transfer.delivery_id != expected:
                text = f"delivery-id {transfer.delivery_id} where {expected} is next"
                raise PeerViolation(SESSION, INVALID_FIELD, text)
        session.last_delivery_id = transfer.delivery_id
        if len(transfer.tag) > DELIVERY_TAG_BYTES_MAX:
            text = f"a delivery tag of {len(transfer.tag)} bytes; at most {DELIVERY_TAG_BYTES_MAX} are allowed"
            raise PeerViolation(LINK, INVALID_FIELD, text)
        if transfer.resume and not link.can_resume:
            raise PeerViolation(LINK, NOT_IMPLEMENTED, "a delivery is resumed on a link that cannot resume")
        if transfer.receiver_settle_mode == RECEIVER_SECOND:
            raise PeerViolation(LINK, INVALID_FIELD, "rcv-settle-mode second on a link that is first")
        if link.credit + link.credit_overdrawn_max <= 0:
            raise PeerViolation(LINK, TRANSFER_LIMIT_EXCEEDED, "a delivery without link credit")
        link.partial_id = transfer.delivery_id
        link.partial_format = 0 if transfer.message_format == ABSENT else transfer.message_format
        link.partial_settled = False
        link.partial_txn_id = None
        link.partial_tag = transfer.tag
        link.partial_resumed = transfer.resume

    def _check_size(self, link: IncomingLink, size: int) -> None:
        if link.partial_bytes + size > link.message_bytes_max:
            text = f"a message of more than {link.message_bytes_max} bytes"
            raise PeerViolation(LINK, MESSAGE_SIZE_EXCEEDED, text)
        if self.partial_bytes + size > self._limits.partial_bytes_max:
            text = f"more than {self._limits.partial_bytes_max} bytes of unfinished deliveries on one connection"
            raise PeerViolation(CONNECTION, RESOURCE_LIMIT_EXCEEDED, text)

    def _use_credit(self, link: IncomingLink) -> None:
        """Count a delivery, at its last frame or its abort (2.6.7)."""
        link.delivery_count = (link.delivery_count + 1) & SERIAL_MASK
        if link.credit > 0:
            link.credit -= 1
        else:
            link.credit_overdrawn_max -= 1

    def _join(
        self, session: Session, link: IncomingLink, txn_id: bytes | None, payload: bytes, events: list[AmqpEvent]
    ) -> None:
        """Put a whole delivery beside its neighbours of the same kind, or at the head of a new event."""
        event = events[-1] if events else None
        if not (
            isinstance(event, DeliveriesReceived)
            and event.link is link
            and event.settled == link.partial_settled
            and event.message_format == link.partial_format
            and event.txn_id == txn_id
            and event.resumed == link.partial_resumed
        ):
            event = DeliveriesReceived(
                session,
                link,
                message_format=link.partial_format,
                settled=link.partial_settled,
                txn_id=txn_id,
                resumed=link.partial_resumed,
            )
            events.append(event)
        event.delivery_ids.append(link.partial_id)
        if link.keeps_tags:
            event.tags.append(link.partial_tag)
        event.payloads.append(payload)
        event.payload_bytes += len(payload)
