"""Whether the spool can be written: what the commits that fail say together. Pure; the spool actor asks and tells.

A commit fails for want of room, or because the store has failed. Want of room is ordinary: consumers make some. A
failure is not. Three kinds are told apart: the system refuses (EIO, EROFS), which may pass; a mistake of ours, which
the next commit need not repeat; and damage, of which LMDB says that its own pages are broken. Damage does not pass. A
commit that happens to succeed beside it says nothing, and each one may spread it and takes away what a salvage could
read. So damage is for good: nothing is written any more until the spool is opened anew.
"""

from typing import Final, final

FULL: Final = "full"  # no room: disk, map or reserve
REFUSED: Final = "refused"  # LMDB or the system would not
DAMAGED: Final = "damaged"  # LMDB's own pages are broken
MISTAKE: Final = "mistake"  # ours
FAILURES: Final = (REFUSED, DAMAGED, MISTAKE)
COMMIT_FAILURES: Final = (FULL, *FAILURES)

TRIES_MAX: Final = 5  # commits in a row that fail: a second apart, so about as many seconds


@final
class SpoolHealth:
    """The state of one spool.

    Invariants: `kind` is empty exactly while messages are taken; DAMAGED never ends.
    """

    def __init__(self) -> None:
        self.kind = ""  # one of COMMIT_FAILURES while no messages are taken
        self.tries_failed = 0  # commits in a row that failed for another reason than room
        self.unread_partitions: set[int] = set()  # whose pages the store does not give

    def is_failing(self) -> bool:
        """Return whether the spool takes no messages, for another reason than room."""
        return self.kind not in ("", FULL)

    def is_damaged(self) -> bool:
        """Return whether nothing is written any more."""
        return self.kind == DAMAGED

    def is_given_up(self) -> bool:
        """Return whether nobody should wait any longer for something to be stored."""
        return self.is_damaged() or not self.is_live()

    def is_live(self) -> bool:
        """Return whether the process need not be restarted on its account."""
        return self.tries_failed < TRIES_MAX

    def failed(self, kind: str) -> bool:
        """Note a commit that failed; return whether that is a new state."""
        if kind != FULL:
            self.tries_failed += 1
        if kind == self.kind or self.is_damaged():
            return False
        if kind == FULL:
            self.tries_failed = 0
        self.kind = kind
        return True

    def recovered(self) -> None:
        """Note that messages are taken again."""
        assert not self.is_damaged(), "damage does not pass"
        self.kind = ""
        self.tries_failed = 0
