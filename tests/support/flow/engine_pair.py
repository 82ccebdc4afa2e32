"""Two flow engines on a pretend wire, client and gateway, and the frames of a session that opens."""

from dataclasses import replace

from sluicegate.protocols.flow.codec.compression import DEFLATE
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE, Auth, AuthAnswer, Hello, Welcome
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import FlowEvent

NOW_MS = 1_000
WALL_MS = 1_700_000_000_500
KEEP_ALIVE_MS = 10_000
FRAME_BYTES_MAX = 65_536
CONNECT_TIMEOUT_MS = 5_000

HELLO = Hello("client", "test", 0, ())
WELCOME = Welcome("gateway", KEEP_ALIVE_MS, FRAME_BYTES_MAX, 16, (), ("ANONYMOUS",))
WELCOME_DEFLATE = replace(WELCOME, features=(DEFLATE,))  # compression is in force


def engine(*, is_gateway: bool, frame_bytes_max: int = FRAME_BYTES_MAX) -> FlowEngine:
    """Return one end, of which nothing was heard yet."""
    return FlowEngine(
        is_gateway=is_gateway,
        frame_bytes_max=frame_bytes_max,
        connect_timeout_ms=CONNECT_TIMEOUT_MS,
        keep_alive_ms=KEEP_ALIVE_MS,
        now_ms=NOW_MS,
    )


class EnginePair:
    """Both engines. Their events are in `to_gateway` and `to_client`."""

    def __init__(self, welcome: Welcome = WELCOME, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.welcome = welcome
        self.client = engine(is_gateway=False)
        self.gateway = engine(is_gateway=True, frame_bytes_max=frame_bytes_max)
        self.to_gateway: list[FlowEvent] = []
        self.to_client: list[FlowEvent] = []

    def carry(self) -> None:
        """Carry bytes in both directions until neither side has anything to send."""
        while self.client.has_output or self.gateway.has_output:
            for data in [b"".join(self.client.take())]:
                if data:
                    self.to_gateway += self.gateway.feed(data, NOW_MS, WALL_MS)
            for data in [b"".join(self.gateway.take())]:
                if data:
                    self.to_client += self.client.feed(data, NOW_MS, WALL_MS)

    def opens(self) -> None:
        """Have the client let in."""
        self.client.send(HELLO.encode())
        self.carry()
        self.gateway.welcome(self.welcome, WALL_MS)
        self.carry()
        self.client.send(Auth("ANONYMOUS", None).encode())
        self.carry()
        self.gateway.auth_answer(AuthAnswer(AUTH_DONE, None), WALL_MS)
        self.carry()


def open_gateway(welcome: Welcome = WELCOME) -> FlowEngine:
    """Return the gateway's end of an open connection."""
    wire = EnginePair(welcome)
    wire.opens()
    return wire.gateway


def open_client(welcome: Welcome = WELCOME) -> FlowEngine:
    """Return the client's end of an open connection."""
    wire = EnginePair(welcome)
    wire.opens()
    return wire.client
