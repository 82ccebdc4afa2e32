"""What all publishers of a round have in common: which message is next, and when."""

import threading
from dataclasses import dataclass, field
from typing import Final

from rounds.ledger import Ledger

WINDOW: Final = 10  # messages of a publisher that may be unconfirmed
PAUSE_S: Final = 0.03  # between two messages of a publisher
KEYS_PER_PUBLISHER: Final = 2
HOUR_MS: Final = 3_600_000


@dataclass(frozen=True)
class Pace:
    """Shared by all clients."""

    ledger: Ledger
    publishing: threading.Event = field(default_factory=threading.Event)  # new messages are sent
    ended: threading.Event = field(default_factory=threading.Event)


class Numbers:
    """The messages of one publisher, key by key in turn."""

    def __init__(self, name: str, ledger: Ledger, *, is_exact: bool = False) -> None:
        self._keys: Final = [f"{name}-{number}" for number in range(KEYS_PER_PUBLISHER)]
        self._ledger: Final = ledger
        self._is_exact: Final = is_exact
        self._count = 0

    def next(self) -> tuple[str, int]:
        """Return key and number of the next message."""
        key = self._keys[self._count % len(self._keys)]
        self._count += 1
        return key, self._ledger.sends(key, is_exact=self._is_exact)


def payload_of(key: str, number: int) -> bytes:
    return f"{key}:{number}".encode()


def read_payload(payload: bytes) -> tuple[str, int]:
    """Return key and number of a message."""
    key, _, number = payload.decode().rpartition(":")
    return key, int(number)
