"""The account of the rounds: what publishers were told and consumers got, and for how long nobody was served."""

import threading
import time
from collections import Counter, defaultdict
from typing import Final, NamedTuple


class Account(NamedTuple):
    """What happened in a round."""

    confirmed: int
    refused: int
    received: int
    repeated: int  # deliveries of what had come already
    silent_s: dict[str, float]  # by kind of publisher: the longest time without a confirmation


class Ledger:
    """Taken by the clients on threads of their own. Publishers number each of their keys from 1 on.

    A message that was refused need not come, and may. Keys that are exact come once.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._exact: Final[set[str]] = set()
        self._open: Final[set[tuple[str, int]]] = set()  # sent, without an answer
        self._owed: Final[set[tuple[str, int]]] = set()  # confirmed, and not received yet
        self._came: Final[Counter[tuple[str, int]]] = Counter()
        self._sent: Final[defaultdict[str, int]] = defaultdict(int)  # by key: the last number
        self._highest: Final[defaultdict[str, int]] = defaultdict(int)  # by key: of what has come
        self._counts: Final[defaultdict[str, int]] = defaultdict(int)  # of confirmations, by kind of publisher
        self._last_s: Final[dict[str, float]] = {}  # of the last confirmation
        self._silent_s: Final[dict[str, float]] = {}
        self._totals: Final[Counter[str]] = Counter()
        self._before: Counter[str] = Counter()
        self._faults: Final[list[str]] = []

    # --- what clients see ---

    def sends(self, key: str, *, is_exact: bool) -> int:
        """Return the number of the next message of a key."""
        with self._lock:
            if is_exact:
                self._exact.add(key)
            self._sent[key] += 1
            self._open.add((key, self._sent[key]))
            return self._sent[key]

    def confirm(self, kind: str, key: str, number: int) -> None:
        """Take that a message was confirmed to its publisher."""
        now_s = time.monotonic()
        with self._lock:
            self._open.discard((key, number))
            if not self._came[key, number]:
                self._owed.add((key, number))
            self._counts[kind] += 1
            self._totals["confirmed"] += 1
            before_s = self._last_s.get(kind, now_s)
            self._silent_s[kind] = max(self._silent_s.get(kind, 0.0), now_s - before_s)
            self._last_s[kind] = now_s

    def refuse(self, key: str, number: int) -> None:
        """Take that a message was refused."""
        with self._lock:
            self._open.discard((key, number))
            self._totals["refused"] += 1

    def receive(self, key: str, number: int) -> None:
        """Take that a consumer got a message."""
        with self._lock:
            self._totals["received"] += 1
            self._owed.discard((key, number))
            self._came[key, number] += 1
            if self._came[key, number] > 1:
                self._totals["repeated"] += 1
                if key in self._exact:
                    self._faults.append(f"{key}:{number} came again")
            elif number < self._highest[key]:
                self._faults.append(f"{key}:{number} came behind number {self._highest[key]}")
            self._highest[key] = max(self._highest[key], number)

    def fault(self, text: str) -> None:
        """Take something that must not happen to a client."""
        with self._lock:
            self._faults.append(text)

    # --- of a round ---

    def begin(self) -> None:
        """Begin a round: silence counts from here."""
        now_s = time.monotonic()
        with self._lock:
            for kind in self._last_s:
                self._last_s[kind] = now_s
                self._silent_s[kind] = 0.0
            self._before = Counter(self._totals)

    def account(self) -> Account:
        """Return what has happened since `begin`."""
        with self._lock:
            now, before = self._totals, self._before
            confirmed, refused, received, repeated = (
                now[name] - before[name] for name in ("confirmed", "refused", "received", "repeated")
            )
            return Account(confirmed, refused, received, repeated, dict(self._silent_s))

    def counts(self) -> dict[str, int]:
        """Return how many messages were confirmed to each kind of publisher."""
        with self._lock:
            return dict(self._counts)

    def is_balanced(self) -> bool:
        """Return whether all that was sent is answered, and all that was confirmed has come."""
        with self._lock:
            return not self._open and not self._owed

    def missing(self) -> str:
        """Return what a balance lacks."""
        with self._lock:
            return f"without an answer: {sorted(self._open)[:5]}; confirmed, and not received: {sorted(self._owed)[:5]}"

    def faults(self) -> list[str]:
        """Return what was wrong so far: something came out of order, or twice where once is promised."""
        with self._lock:
            return list(self._faults)
