"""The ways to break AMQP's rules: bytes that are no AMQP, the peer's misbehaviour, and ours."""

from typing import Final, final

# What an error ends. The narrowest scope that fits is used.
CONNECTION: Final = "connection"
SESSION: Final = "session"
LINK: Final = "link"

DESCRIPTION_CHARS_MAX: Final = 256  # of an error, either side's


@final
class DecodeError(Exception):
    """Bytes that are no well-formed AMQP value, or not the value their place asks for."""


@final
class PeerViolation(Exception):
    """The peer broke a rule. It ends the connection, the session or the link, with the condition the standard names."""

    def __init__(self, scope: str, condition: str, text: str) -> None:
        super().__init__(text)
        self.scope = scope  # CONNECTION, SESSION or LINK
        self.condition = condition
        self.text = text


@final
class LocalMisuse(Exception):
    """Our own code asked the engine for something that the standard forbids. A bug, not an input error."""
