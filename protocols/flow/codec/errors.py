"""The errors of the flow protocol: violations by the peer (on a connection, flow or request), and our own misuse."""

from typing import Final, final

_TEXT_CHARS_MAX: Final = 256


@final
class PeerViolation(Exception):
    """The peer broke a rule, and the connection ends. `code` is one of `codes`, and goes into ERROR."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text[:_TEXT_CHARS_MAX]


@final
class LocalMisuse(Exception):
    """The caller requested a frame that the protocol cannot express. A bug, not an input error."""


@final
class RequestRefused(Exception):
    """A request of the peer is refused with ERROR; nothing else is affected."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@final
class FlowBroken(Exception):
    """The peer broke a rule of one flow. The flow ends with `code` in ERROR; the connection stays."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
