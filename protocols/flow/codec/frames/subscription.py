"""SUBSCRIBE and UNSUBSCRIBE: subscriptions to direct messages.

Flow: subscriptions. A request and its response have the same type, as for all requests.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from sluicegate.protocols.flow.codec import fields as f
from sluicegate.protocols.flow.codec.fields import FieldWriter, control_fields
from sluicegate.protocols.flow.codec.frame import RESPONSE, SESSION, SUBSCRIBE, UNSUBSCRIBE, Frame, encode_frame
from sluicegate.protocols.flow.codec.limits import NAME_BYTES_MAX, SELECTOR_BYTES_MAX, TOPIC_FILTER_BYTES_MAX


@final
@dataclass(frozen=True)
class Subscribe:
    """Start or stop the delivery of direct messages on a topic filter."""

    kind: int  # SUBSCRIBE or UNSUBSCRIBE
    request_id: int
    topic_filter: str  # in SMF's syntax or MQTT's; `#share/NAME/` or `$share/NAME/` before it: as one of a group
    priorities: tuple[str, ...] = ()  # for Deliver-To-One: P1 to P4, DA, or one of each; none: as the client has
    selector: str = ""  # of the messages it wants; empty: all

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        out.text(f.TOPIC_FILTER, self.topic_filter)
        for priority in self.priorities:
            out.text(f.PRIORITY, priority)
        out.text(f.SELECTOR, self.selector)
        return encode_frame(self.kind, 0, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class Subscribed:
    """It is in force, or ended; one that was not there is answered likewise."""

    kind: int
    request_id: int

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        return encode_frame(self.kind, RESPONSE, SESSION, out.encoded(), b"")


SubscriptionFrame: TypeAlias = Subscribe | Subscribed

SUBSCRIPTION_FRAMES: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE})


def read_subscription_frame(frame: Frame, data: bytes) -> SubscriptionFrame:
    """Return a frame whose type is one of SUBSCRIPTION_FRAMES. Raises PeerViolation."""
    reader = control_fields(frame, data)
    request_id = reader.number_required(f.REQUEST_ID, 4)
    if frame.flags & RESPONSE:
        return Subscribed(frame.kind, request_id)
    return Subscribe(
        frame.kind,
        request_id,
        reader.text(f.TOPIC_FILTER, TOPIC_FILTER_BYTES_MAX),
        reader.texts(f.PRIORITY, NAME_BYTES_MAX),
        reader.text(f.SELECTOR, SELECTOR_BYTES_MAX),
    )
