"""The frames that may come, by receiver and by phase of the connection.

Flow: sessions, state table. A pair that is not in the table is a violation by the sender. `True` requires the flag
RESPONSE; `False` forbids it.
"""

from typing import Final

from sluicegate.protocols.flow.codec import frame as frames

# Phases of a connection, the same at both ends.
PREFACE: Final = 0  # the peer's preface is to come
GREETING: Final = 1  # HELLO, or WELCOME, is to come
AUTHENTICATING: Final = 2
OPEN: Final = 3
CLOSING: Final = 4  # our CLOSE is sent; whatever comes before the peer's is dropped
CLOSED: Final = 5

PHASES: Final = ("preface", "greeting", "authenticating", "open", "closing", "closed")

TO_GATEWAY: Final[dict[int, dict[int, bool]]] = {
    GREETING: {frames.HELLO: False},
    AUTHENTICATING: {frames.AUTH: False, frames.CLOSE: False},
    OPEN: {
        frames.PING: False,
        frames.PONG: False,
        frames.CLOSE: False,
        frames.OPEN_PUB: False,
        frames.PUBLISH: False,
        frames.CLOSE_PUB: False,
        frames.BIND: False,
        frames.CREDIT: False,
        frames.SETTLE: False,
        frames.UNBIND: False,
        frames.PARTITIONS_ACK: False,
        frames.READ: False,
        **dict.fromkeys(frames.OF_LINKS, False),
        **dict.fromkeys(frames.REQUESTS_OF_SESSION, False),
    },
}

TO_CLIENT: Final[dict[int, dict[int, bool]]] = {
    GREETING: {frames.WELCOME: False, frames.ERROR: False},
    AUTHENTICATING: {frames.AUTH: True, frames.ERROR: False, frames.GOAWAY: False, frames.CLOSE: False},
    OPEN: {
        frames.PING: False,
        frames.PONG: False,
        frames.GOAWAY: False,
        frames.CLOSE: False,
        frames.ERROR: False,
        frames.OPEN_PUB: True,
        frames.PUB_ACK: False,
        frames.CLOSE_PUB: True,
        frames.BIND: True,
        frames.DELIVER: False,
        frames.CREDIT: True,
        frames.SETTLED: False,
        frames.FLOW_STATE: False,
        frames.UNBIND: True,
        frames.PARTITIONS: False,
        frames.READ: True,
        frames.ROWS: False,
        **dict.fromkeys(frames.OF_LINKS, False),
        **dict.fromkeys(frames.REQUESTS_OF_SESSION, True),
    },
}

# Frames about the connection; all others belong to a flow. ERROR, PUBLISH and DELIVER may be either.
OF_SESSION: Final = frozenset(
    {
        frames.HELLO, frames.WELCOME, frames.AUTH, frames.PING, frames.PONG, frames.GOAWAY, frames.CLOSE,
        *frames.REQUESTS_OF_SESSION,
    }
)  # fmt: skip
OF_EITHER: Final = frozenset({frames.ERROR, frames.PUBLISH, frames.DELIVER})
