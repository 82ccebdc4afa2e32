"""The wire of a link over a transport of a test, without the connection that has it."""

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.transport.interface import ByteTransport
from support.flow.engine_pair import open_gateway


def lone_wire(cell: ActorCell, transport: ByteTransport) -> LinkWire:
    """Return a wire that writes to a transport, and is hung up by nobody."""
    return LinkWire(
        cell,
        open_gateway(),
        ProtocolCounters(),
        transport,
        address="10.0.0.1:55555",
        is_encrypted=False,
        hang_up=lambda code, text: None,
    )
