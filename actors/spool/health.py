"""The health of the spool, derived from failed commits. Pure; the spool actor applies and reports it.

A commit fails for lack of space, or because the store has failed. Lack of space is ordinary: consumers free some. Three
kinds of failure are distinguished: the system refuses (EIO, EROFS), which may pass; an error of ours, which the next
commit need not repeat; and damage, when LMDB reports that its own pages are broken. Damage does not pass: a commit that
happens to succeed beside it proves nothing, and each commit may spread it and overwrite what a salvage could read. So
after damage nothing is written until the spool is opened again.
"""

from typing import Final, final

FULL: Final = "full"  # no space: disk, map or reserve
REFUSED: Final = "refused"  # LMDB or the system refused
DAMAGED: Final = "damaged"  # LMDB's own pages are broken
MISTAKE: Final = "mistake"  # an error of ours
FAILURES: Final = (REFUSED, DAMAGED, MISTAKE)
COMMIT_FAILURES: Final = (FULL, *FAILURES)

TRIES_MAX: Final = 5  # consecutive failed commits: a second apart, so about as many seconds


@final
class SpoolHealth:
    """The state of one spool.

    Invariants: `kind` is empty exactly while messages are taken; DAMAGED never ends.
    """

    def __init__(self) -> None:
        self.kind = ""  # one of COMMIT_FAILURES while no messages are taken
        self.tries_failed = 0  # consecutive commits that failed for another reason than space
        self.unread_partitions: set[int] = set()  # partitions whose pages cannot be read

    def is_failing(self) -> bool:
        """Return whether the spool takes no messages, for another reason than space."""
        return self.kind not in ("", FULL)

    def is_damaged(self) -> bool:
        """Return whether nothing is written any more."""
        return self.kind == DAMAGED

    def is_given_up(self) -> bool:
        """Return whether no caller should wait any longer for something to be stored."""
        return self.is_damaged() or not self.is_live()

    def is_live(self) -> bool:
        """Return whether the process need not be restarted because of the spool."""
        return self.tries_failed < TRIES_MAX

    def failed(self, kind: str) -> bool:
        """Record a failed commit; return whether the state is new."""
        if kind != FULL:
            self.tries_failed += 1
        if kind == self.kind or self.is_damaged():
            return False
        if kind == FULL:
            self.tries_failed = 0
        self.kind = kind
        return True

    def recovered(self) -> None:
        """Record that messages are taken again."""
        assert not self.is_damaged(), "damage does not pass"
        self.kind = ""
        self.tries_failed = 0
