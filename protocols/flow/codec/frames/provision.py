"""PROVISION, ALTER and DEPROVISION: clients create, change and delete queues.

Flow: provisioning. The body is the attributes as a JSON object, as in the admin API; DEPROVISION has none.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from sluicegate.protocols.flow.codec import fields as f
from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.fields import FieldReader, FieldWriter
from sluicegate.protocols.flow.codec.frame import (
    ALTER,
    DEPROVISION,
    NAMES,
    PROVISION,
    RESPONSE,
    SESSION,
    Frame,
    encode_frame,
)
from sluicegate.protocols.flow.codec.limits import ATTRIBUTES_BYTES_MAX, TEXT_BYTES_MAX

# Durability in PROVISION.
AS_TEMPLATES_SAY: Final = 0  # and durable where they say nothing
DURABLE: Final = 1
TEMPORARY: Final = 2


@final
@dataclass(frozen=True)
class Provision:
    """Make a queue, change it, or delete it."""

    kind: int  # PROVISION, ALTER or DEPROVISION
    request_id: int
    name: str  # empty in PROVISION: a temporary queue that the gateway names
    durability: int = AS_TEMPLATES_SAY  # of PROVISION
    attributes: bytes = b""  # JSON

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        out.text(f.NAME, self.name)
        if self.durability != AS_TEMPLATES_SAY:
            out.number(f.DURABILITY, self.durability, 1)
        return encode_frame(self.kind, 0, SESSION, out.encoded(), self.attributes)


@final
@dataclass(frozen=True)
class Provisioned:
    """The queue is as its attributes say now, or gone."""

    kind: int
    request_id: int
    name: str
    attributes: bytes  # JSON, all of them; empty in DEPROVISION

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        out.text(f.NAME, self.name)
        return encode_frame(self.kind, RESPONSE, SESSION, out.encoded(), self.attributes)


ProvisionFrame: TypeAlias = Provision | Provisioned

PROVISION_FRAMES: Final = frozenset({PROVISION, ALTER, DEPROVISION})


def read_provision_frame(frame: Frame, data: bytes) -> ProvisionFrame:
    """Return a frame whose type is one of PROVISION_FRAMES. Raises PeerViolation."""
    kind = frame.kind
    reader = FieldReader(NAMES[kind], data, frame.fields_at, frame.body_at)
    request_id = reader.number_required(f.REQUEST_ID, 4)
    name = reader.text(f.NAME, TEXT_BYTES_MAX)
    if frame.end - frame.body_at > ATTRIBUTES_BYTES_MAX:
        text = f"{NAMES[kind]} with {frame.end - frame.body_at} bytes of attributes; at most {ATTRIBUTES_BYTES_MAX}"
        raise PeerViolation(MALFORMED, text)
    body = data[frame.body_at : frame.end]
    if frame.flags & RESPONSE:
        return Provisioned(kind, request_id, name, body)
    return Provision(kind, request_id, name, reader.number(f.DURABILITY, 1, AS_TEMPLATES_SAY), body)
