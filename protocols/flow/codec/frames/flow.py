"""Frames of publishers and consumers that consist of fields: requests, responses, and states.

Flow: publishing, consuming. A request and its response have the same type: the response has the flag RESPONSE and
echoes the request id. See also: `publish`, `deliver`, `settle` (frequent frames, with fixed structures).
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from sluicegate.protocols.flow.codec import fields as f
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.fields import FieldWriter, control_fields
from sluicegate.protocols.flow.codec.frame import RESPONSE, Frame, encode_frame
from sluicegate.protocols.flow.codec.limits import NAME_BYTES_MAX, SELECTOR_BYTES_MAX, TEXT_BYTES_MAX

# States of a consumer's flow.
INACTIVE: Final = 0  # bound, and standing by
ACTIVE: Final = 1
ENDED: Final = 2  # the flow is gone


@final
@dataclass(frozen=True)
class OpenPub:
    """Open a publisher under a flow id of the client's choice."""

    flow_id: int
    request_id: int
    name: str  # empty: anonymous, nothing is remembered of it
    window: int  # messages it wants to send ahead of answers; 0: the gateway's default

    def encode(self) -> bytes:
        """Return the frame."""
        out = _request(self.request_id)
        out.text(f.NAME, self.name)
        out.number(f.WINDOW, self.window, 4)
        return encode_frame(frames.OPEN_PUB, 0, self.flow_id, out.encoded(), b"")


@final
@dataclass(frozen=True)
class PubOpened:
    """The publisher is open."""

    flow_id: int
    request_id: int
    epoch: int  # counts the openings of that name
    stored_through: int  # every sequence up to here is answered for; 0: none
    stored_highest: int  # the highest stored; a publisher that lost its count continues above it
    sequence_max: int  # the highest that may be sent now
    incarnation: int  # of the spool: all of that is true of it only

    def encode(self) -> bytes:
        """Return the frame."""
        out = _request(self.request_id)
        out.number(f.PUBLISHER_EPOCH, self.epoch, 4)
        out.number(f.STORED_THROUGH, self.stored_through, 8)
        out.number(f.STORED_HIGHEST, self.stored_highest, 8)
        out.number(f.SEQUENCE_MAX, self.sequence_max, 8)
        out.number(f.INCARNATION, self.incarnation, 8)
        return encode_frame(frames.OPEN_PUB, RESPONSE, self.flow_id, out.encoded(), b"")


@final
@dataclass(frozen=True)
class Bind:
    """Consume from a queue under a flow id of the client's choice."""

    flow_id: int
    request_id: int
    name: str
    unsettled_max: int  # maximum of unsettled messages; 0: the gateway's default
    delivery_id_max: int  # credit from the start
    acknowledges: bool = False  # it wants PARTITIONS, and acknowledges the release of partitions
    selector: str = ""  # of the messages it wants; empty: all
    browses: bool = False  # it gets copies, and consumes nothing

    def encode(self) -> bytes:
        """Return the frame."""
        out = _request(self.request_id)
        out.text(f.NAME, self.name)
        out.number(f.UNSETTLED_MAX, self.unsettled_max, 4)
        out.number(f.DELIVERY_ID_MAX, self.delivery_id_max, 8)
        if self.acknowledges:
            out.number(f.ACKNOWLEDGES, 1, 1)
        out.text(f.SELECTOR, self.selector)
        if self.browses:
            out.number(f.BROWSES, 1, 1)
        return encode_frame(frames.BIND, 0, self.flow_id, out.encoded(), b"")


@final
@dataclass(frozen=True)
class Bound:
    """The flow is bound."""

    flow_id: int
    request_id: int
    unsettled_max: int  # in force
    incarnation: int  # of the spool: message ids of another one are other messages
    acknowledges: bool = False  # the queue is partitioned, and hands over by the client's word

    def encode(self) -> bytes:
        """Return the frame."""
        out = _request(self.request_id)
        out.number(f.UNSETTLED_MAX, self.unsettled_max, 4)
        out.number(f.INCARNATION, self.incarnation, 8)
        if self.acknowledges:
            out.number(f.ACKNOWLEDGES, 1, 1)
        return encode_frame(frames.BIND, RESPONSE, self.flow_id, out.encoded(), b"")


@final
@dataclass(frozen=True)
class FlowEnd:
    """A publisher is closed or a consumer unbound, by the client's wish; and the answer to that."""

    kind: int  # CLOSE_PUB or UNBIND
    flow_id: int
    request_id: int
    is_response: bool

    def encode(self) -> bytes:
        """Return the frame."""
        flags = RESPONSE if self.is_response else 0
        return encode_frame(self.kind, flags, self.flow_id, _request(self.request_id).encoded(), b"")


@final
@dataclass(frozen=True)
class FlowState:
    """A consumer's flow became active or inactive, or it ended."""

    flow_id: int
    state: int  # INACTIVE, ACTIVE or ENDED
    number: int  # counts the states of this flow
    code: int  # why it ended; else NONE
    text: str
    retry_after_ms: int | None  # it ended, and may be bound again

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.STATE, self.state, 1)
        out.number(f.STATE_NUMBER, self.number, 4)
        out.number(f.CODE, self.code, 2)
        out.text(f.TEXT, self.text)
        if self.retry_after_ms is not None:
            out.number(f.RETRY_AFTER_MS, self.retry_after_ms, 4)
        return encode_frame(frames.FLOW_STATE, 0, self.flow_id, out.encoded(), b"")


FlowFrame: TypeAlias = OpenPub | PubOpened | Bind | Bound | FlowEnd | FlowState

FLOW_FRAMES: Final = frozenset({frames.OPEN_PUB, frames.CLOSE_PUB, frames.BIND, frames.UNBIND, frames.FLOW_STATE})


def read_flow_frame(frame: Frame, data: bytes) -> FlowFrame:
    """Return a frame whose type is one of FLOW_FRAMES. Raises PeerViolation."""
    kind = frame.kind
    reader = control_fields(frame, data)
    flow_id = frame.flow_id
    if kind == frames.FLOW_STATE:
        return FlowState(
            flow_id,
            reader.number_required(f.STATE, 1),
            reader.number_required(f.STATE_NUMBER, 4),
            reader.number(f.CODE, 2, 0),
            reader.text(f.TEXT, TEXT_BYTES_MAX),
            reader.number_or_none(f.RETRY_AFTER_MS, 4),
        )
    request_id = reader.number_required(f.REQUEST_ID, 4)
    is_response = frame.flags & RESPONSE != 0
    if kind == frames.OPEN_PUB:
        if is_response:
            return PubOpened(
                flow_id,
                request_id,
                reader.number_required(f.PUBLISHER_EPOCH, 4),
                reader.number_required(f.STORED_THROUGH, 8),
                reader.number_required(f.STORED_HIGHEST, 8),
                reader.number_required(f.SEQUENCE_MAX, 8),
                reader.number_required(f.INCARNATION, 8),
            )
        return OpenPub(flow_id, request_id, reader.text(f.NAME, NAME_BYTES_MAX), reader.number(f.WINDOW, 4, 0))
    if kind == frames.BIND:
        if is_response:
            return Bound(
                flow_id,
                request_id,
                reader.number_required(f.UNSETTLED_MAX, 4),
                reader.number_required(f.INCARNATION, 8),
                reader.number(f.ACKNOWLEDGES, 1, 0) != 0,
            )
        return Bind(
            flow_id,
            request_id,
            reader.text(f.NAME, NAME_BYTES_MAX),
            reader.number(f.UNSETTLED_MAX, 4, 0),
            reader.number(f.DELIVERY_ID_MAX, 8, 0),
            reader.number(f.ACKNOWLEDGES, 1, 0) != 0,
            reader.text(f.SELECTOR, SELECTOR_BYTES_MAX),
            reader.number(f.BROWSES, 1, 0) != 0,
        )
    return FlowEnd(kind, flow_id, request_id, is_response)


def _request(request_id: int) -> FieldWriter:
    out = FieldWriter()
    out.number(f.REQUEST_ID, request_id, 4)
    return out
