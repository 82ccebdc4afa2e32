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
    """Who a client is, and how long it waits. Without user name and token it uses its certificate, or is anonymous.

        ClientOptions(username="ada", password="engine", connect_timeout_s=5)
        ClientOptions(client_name="report", vpn="sales", give_up_after_s=60)

    - `client_name` (str): by which queues know a consumer that returns; at most 255 bytes. Empty: one of
      the gateway.
    - `vpn` (str): the message VPN to be in. Empty: the one of the gateway's listener.
    - `username` (str), `password` (str): an account; both or none.
    - `token` (str, or a function that returns one): a bearer token instead; the function is called per connection.
    - `allow_plain_without_tls` (bool): send the password itself over a connection that anybody can read; default False.
    - `connect_timeout_s` (float): seconds from connecting until the gateway has admitted the client, per attempt.
    - `close_timeout_s` (float): seconds for the answers that are due when a client, publisher or consumer is closed.
    - `compress` (bool): ask for compression, for networks that are slower than processors; default False.
    - `keep_alive_s` (float): seconds between signs of life, 1 or more; a wish. After three without a byte the
      connection counts as lost.
    - `reconnect_delay_s` (float): seconds before the first attempt to connect again; doubled with each attempt.
    - `reconnect_delay_max_s` (float): seconds that this delay grows to.
    - `give_up_after_s` (float): seconds without a connection after which the client ends, and seconds that a request is
      repeated while the queue's broker cannot be reached; 0: never, and for ever.
    - `user` (str): former name of `username`.

    Raises ValueError for a value that is out of range.
    """

    client_name: str = ""
    vpn: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    token: str | TokenSource = field(default="", repr=False)
    allow_plain_without_tls: bool = False
    connect_timeout_s: float = 10.0
    close_timeout_s: float = 10.0
    compress: bool = False
    keep_alive_s: float = 30.0
    reconnect_delay_s: float = 0.1  # each delay is drawn from the upper half of its range
    reconnect_delay_max_s: float = 10.0
    give_up_after_s: float = 0.0
    user: str = field(default="", repr=False)

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
