"""Passwords that were right lately: recognising one costs microseconds, and only unknown ones are checked.

A faster answer to a right password tells its owner nothing new. What is kept of a password is a digest under a key of
this process, in whose memory the password itself was.
"""

import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, final

REMEMBERED_MAX: Final = 10_000  # accounts; the one that was not seen longest is forgotten first


@final
class ProvenPasswords:
    """The last right password of each account. Invariant: at most REMEMBERED_MAX are remembered."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._key = random_bytes(32)
        self._marks: OrderedDict[str, bytes] = OrderedDict()

    def add(self, name: str, secret: str, password: bytes) -> None:
        """Note that a password was right for an account with this secret."""
        self._marks[name] = self._mark(secret, password)
        self._marks.move_to_end(name)
        if len(self._marks) > REMEMBERED_MAX:
            self._marks.popitem(last=False)

    def has(self, name: str, secret: str, password: bytes) -> bool:
        """Return whether it was, and the account still has this secret."""
        mark = self._marks.get(name)
        if mark is None or not hmac.compare_digest(mark, self._mark(secret, password)):
            return False
        self._marks.move_to_end(name)
        return True

    def _mark(self, secret: str, password: bytes) -> bytes:
        return hmac.digest(self._key, secret.encode() + b"\0" + password, "sha256")
