"""The MQTT clients of one message VPN over one link: telling the neighbor who has connected, and hearing the same.

A connection that begins is told once, at the end of the turn. When the link comes up both ends tell those that the
other may not know: the connections that have begun since it was up before. So a client that has connected at two
brokers during a cut has one connection soon after.
"""

import struct
from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.network.clients import ClientSeen, ClientsOutput, ConnectedElsewhere, NetworkClients
from sluicegate.protocols.flow.codec.frames.link import LinkClients
from sluicegate.protocols.flow.links import LinkWire

CLIENTS_MAX: Final = 1_000  # in one frame
FRAMES_PER_TURN: Final = 8  # then others have their turn
BODY_BYTES_MAX: Final = 64 * 1024
STAMP_MAX: Final = 1 << 62  # compiled code compares such numbers
SETTLED_MS: Final = 60_000  # after so long on one connection the neighbor has what it was told at the beginning of it
UNSURE_MS: Final = 600_000  # what was told so shortly before a break is told again
_CLIENT: Final = struct.Struct(">QBBHH")
_IS_CLEAN: Final = 0x01
_IS_NEWS: Final = 0x02


@final
class ClientsLink(ClientsOutput):
    """The clients that one neighbor and this broker have, for as long as the link is configured."""

    def __init__(self, clients: NetworkClients, neighbor: str, ask_flush: Callable[[], None]) -> None:
        """`ask_flush` has `flush` called at the end of the turn."""
        self._clients: Final = clients
        self._neighbor: Final = neighbor
        self._ask_flush: Final = ask_flush
        self._wire: LinkWire | None = None
        self._flow_id = 0
        self._body_bytes_max = 0
        self._connected_ms = 0
        self._since = 0  # connections with this stamp or a later one may be unknown to the neighbor
        self._unsent: dict[str, bytes] = {}  # by client identifier
        clients.join(self)

    def stop(self) -> None:
        """End for good."""
        self._clients.leave(self)

    def connected(self, wire: LinkWire, flow_id: int, frame_bytes_max: int, now_ms: int) -> None:
        """Begin on a new connection to a neighbor that knows this exchange."""
        self._wire, self._flow_id, self._connected_ms = wire, flow_id, now_ms
        self._body_bytes_max = min(BODY_BYTES_MAX, frame_bytes_max - 64)
        self._unsent = {seen.client_id: _written(seen) for seen in self._clients.since(self._since)}
        if self._unsent:
            self._ask_flush()

    def disconnected(self, now_ms: int) -> None:
        """The connection is gone."""
        if self._wire is not None and not self._unsent and now_ms - self._connected_ms >= SETTLED_MS:
            self._since = self._clients.last_stamp - UNSURE_MS
        self._wire = None
        self._unsent = {}

    def client_connected(self, seen: ClientSeen) -> None:
        """Tell the neighbor at the end of this turn. One that is away hears of it when it is back."""
        if self._wire is not None:
            self._unsent[seen.client_id] = _written(seen)
            self._ask_flush()

    def flush(self) -> bool:
        """Send what there is, a few frames at a time; return whether there is more."""
        wire, frames_left = self._wire, FRAMES_PER_TURN
        while wire is not None and self._unsent and frames_left:
            parts: list[bytes] = []
            left_bytes = self._body_bytes_max
            for name in list(self._unsent)[:CLIENTS_MAX]:
                left_bytes -= len(self._unsent[name])
                if left_bytes < 0 and parts:
                    break
                parts.append(self._unsent.pop(name))
            wire.control(LinkClients(self._flow_id, b"".join(parts)).encode())
            frames_left -= 1
        return bool(self._unsent)

    def received(self, body: bytes) -> None:
        """Take what the neighbor tells. Raises ValueError for a body that is malformed."""
        found = clients_in(body)
        for seen in found:
            self._clients.heard(seen.stamp)
        directory = self._clients.directory
        if directory is not None:
            directory.post(ConnectedElsewhere(self._neighbor, found, self))


def _written(seen: ClientSeen) -> bytes:
    name, user = seen.client_id.encode("utf-8"), seen.user.encode("utf-8")
    flags = (_IS_CLEAN if seen.is_clean else 0) | (_IS_NEWS if seen.is_news else 0)
    return _CLIENT.pack(seen.stamp, flags, 0, len(name), len(user)) + name + user


def clients_in(body: bytes) -> list[ClientSeen]:
    """Return the clients in the body of LINK_CLIENTS. Raises ValueError."""
    found: list[ClientSeen] = []
    at = 0
    while at < len(body):
        if len(body) - at < _CLIENT.size:
            raise ValueError(f"LINK_CLIENTS: {len(body) - at} bytes behind its last client")
        stamp, flags, _, name_bytes, user_bytes = _CLIENT.unpack_from(body, at)
        at += _CLIENT.size
        user_at = at + name_bytes
        end = user_at + user_bytes
        if end > len(body):
            raise ValueError(f"LINK_CLIENTS ends within a name, {end - len(body)} bytes early")
        if not name_bytes or stamp > STAMP_MAX:
            raise ValueError(f"LINK_CLIENTS: a client with a name of {name_bytes} bytes and the stamp {stamp}")
        name, user = body[at:user_at].decode("utf-8"), body[user_at:end].decode("utf-8")
        found.append(ClientSeen(name, stamp, user, flags & _IS_CLEAN != 0, flags & _IS_NEWS != 0))
        at = end
        if len(found) > CLIENTS_MAX:
            raise ValueError(f"LINK_CLIENTS with more than {CLIENTS_MAX} clients")
    if not found:
        raise ValueError("LINK_CLIENTS without clients")
    return found
