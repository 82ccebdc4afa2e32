"""The violations that referees report, and the interface of a referee."""

from typing import Final, Protocol

_SERIAL_MASK: Final = 0xFFFF_FFFF
_SERIAL_HALF: Final = 0x8000_0000


class Referee(Protocol):
    """Judges one connection. Raises WireViolation, or ClientViolation for what only the client is to blame for."""

    def gateway_says(self, data: bytes) -> None:
        """The gateway has written bytes, cut anywhere."""

    def client_says(self, data: bytes) -> None:
        """The gateway has read bytes, cut anywhere."""


class WireViolation(AssertionError):
    """The gateway has broken a rule. The text begins with the section of the rule."""


class ClientViolation(Exception):
    """The client has broken a rule, usually on purpose: the gateway is not judged from then on."""


def expect(holds: bool, section: str, text: str, *about: object) -> None:
    """Raise WireViolation with the section of the specification unless a rule holds. `about` fills the text."""
    if not holds:
        raise WireViolation(f"{section}: {text.format(*about)}")


def serial_ahead(later: int, earlier: int) -> int:
    """Return how far a serial number of 32 bits (RFC 1982) is ahead of another; negative when it is behind."""
    ahead = (later - earlier) & _SERIAL_MASK
    return ahead if ahead < _SERIAL_HALF else ahead - _SERIAL_MASK - 1


def serial_after(number: int, count: int = 1) -> int:
    """Return the serial number that comes so many behind another."""
    return (number + count) & _SERIAL_MASK
