"""Settings of a WebSocket port for tests of the transport."""

from collections.abc import Callable

from sluicegate.protocols.transport.interface import PeerInfo
from sluicegate.protocols.transport.origins import OriginRefusal, WebPages
from sluicegate.protocols.transport.unfinished import UnfinishedBytes
from sluicegate.protocols.transport.websocket import MESSAGE_BYTES_MAX, UPGRADE_S, WebSocketSettings


def for_everybody(
    *,
    on_foreign: Callable[[PeerInfo, OriginRefusal], None] = lambda peer, foreign: None,
    message_bytes_max: int = MESSAGE_BYTES_MAX,
    upgrade_s: float = UPGRADE_S,
) -> WebSocketSettings:
    """Return the settings of a port where nobody has to log in, and that is for no page of another origin."""
    pages = WebPages(
        is_tls=False,
        origins_setting="mqtt.allowed_origins",
        origins=tuple,
        hosts=lambda: ("gate.example",),
        is_open=lambda: True,
    )
    return WebSocketSettings(
        pages=pages,
        on_foreign=on_foreign,
        message_bytes_max=message_bytes_max,
        upgrade_s=upgrade_s,
        unfinished=UnfinishedBytes(1 << 40),
    )
