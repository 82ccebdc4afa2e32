"""The options of a client: address, credentials, timeouts. They are checked once, here."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from sluicegate.protocols.flow.codec.limits import KEEP_ALIVE_MS_MIN, NAME_BYTES_MAX

PORT_DEFAULT: Final = 55_555
TLS_PORT_DEFAULT: Final = 55_443
_URL: Final = re.compile(r"(flow|flows)://(\[[0-9A-Fa-f:.]+\]|[^\s/:@\[\]]+)(?::(\d{1,5}))?/?")

TokenSource = Callable[[], str]


@final
@dataclass(frozen=True)
class Target:
    """Where the gateway listens."""

    host: str
    port: int
    is_tls: bool


def target_of(url: str) -> Target:
    """Parse a URL: `flow://host[:port]`, or `flows://` for TLS. Raises ValueError."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(f"{url!r} is no URL of a gateway: flow://HOST[:PORT], or flows://HOST[:PORT] for TLS")
    is_tls = match[1] == "flows"
    port = int(match[3] or (TLS_PORT_DEFAULT if is_tls else PORT_DEFAULT))
    if not 0 < port <= 65_535:
        raise ValueError(f"port {port} in {url!r}; ports are 1 to 65535")
    return Target(match[2].strip("[]"), port, is_tls)


@final
@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """Who a client is, and how patient. Without user and token it uses its certificate, or remains anonymous."""

    client_name: str = ""  # by which queues know a consumer that returns; empty: the gateway gives one
    vpn: str = ""  # the message VPN to be in; empty: the one that the gateway's listener is for
    username: str = ""
    password: str = field(default="", repr=False)
    token: str | TokenSource = field(default="", repr=False)  # a function is called for each connection
    allow_plain_without_tls: bool = False  # send the password itself over a connection that anybody can read
    connect_timeout_s: float = 10.0  # from dialling until the gateway has let us in; each attempt
    close_timeout_s: float = 10.0  # for answers that are still due when a client, publisher or consumer is closed
    compress: bool = False  # ask for compression, for networks that are slower than processors
    keep_alive_s: float = 30.0  # a wish; three such intervals without a byte, and the connection is given up
    reconnect_delay_s: float = 0.1  # before the first attempt; doubled with each, and drawn from its upper half
    reconnect_delay_max_s: float = 10.0
    give_up_after_s: float = 0.0  # without a connection for so long the client ends; 0: it never does
    user: str = field(default="", repr=False)  # former name of `username`

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        if len(self.client_name.encode("utf-8")) > NAME_BYTES_MAX:
            raise ValueError(f"client_name has more than {NAME_BYTES_MAX} bytes")
        if len(self.vpn.encode("utf-8")) > NAME_BYTES_MAX:
            raise ValueError(f"vpn has more than {NAME_BYTES_MAX} bytes")
        if self.user and self.username:
            raise ValueError("give username only: user is its former name")
        name = self.login_name()
        if bool(name) != bool(self.password):
            raise ValueError("username and password go together: one of them is missing")
        if name and self.token:
            raise ValueError("either username and password, or a token: not both")
        if self.connect_timeout_s <= 0 or self.close_timeout_s <= 0:
            raise ValueError("connect_timeout_s and close_timeout_s are more than 0")
        if self.keep_alive_s * 1000 < KEEP_ALIVE_MS_MIN:
            raise ValueError(f"keep_alive_s={self.keep_alive_s}; it is {KEEP_ALIVE_MS_MIN / 1000} or more")
        if self.give_up_after_s < 0:
            raise ValueError("give_up_after_s is 0 or more")
        if not 0 < self.reconnect_delay_s <= self.reconnect_delay_max_s:
            raise ValueError("reconnect_delay_s is more than 0, and at most reconnect_delay_max_s")

    def login_name(self) -> str:
        """Return the user name to log in with; empty if there is none."""
        return self.username or self.user

    def token_text(self) -> str:
        """Return the token to show now; empty if there is none."""
        return self.token if isinstance(self.token, str) else self.token()
