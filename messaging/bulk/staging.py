"""Staged publishing: what a transaction has staged, what a commit publishes, and which names were committed.

A writer with many tasks stages the messages of each task attempt: durably, but invisible to consumers. One commit names
the attempts that count; these are published in the order of their parts, and the rest is dropped. The name of a
committed transaction is remembered for a long time, so a repeated commit does nothing.

Staged messages are in pages of a hidden partition, under sequences of its own: a settled one has been published or
dropped. The caller brings the time. actors.transactions.staging and actors.transactions.staged_commit write pages and
rows, and publish.
"""

from itertools import pairwise
from typing import Final, NamedTuple, final

from sluicegate.messaging.limits.totals import SharedTotal
from sluicegate.messaging.queues.definition import ANONYMOUS

STAGING_PARTITION_ID: Final = 0  # of the message VPN `default`; ids of other partitions begin with 1

NAME_CHARS_MAX: Final = 200  # a query id and a batch number, with room to spare
PARTS_MAX: Final = 100_000  # attempts that one commit may name
PART_MAX: Final = (1 << 63) - 1
PAGES_MAX: Final = 1_000_000  # staged at a time, in all transactions: about 200 MB in memory
TRANSACTIONS_MAX: Final = 10_000  # open at a time
STAGE_BYTES_MAX: Final = 16 << 20  # payload of one call: it becomes one page, which is read as a whole

# Codes of refusals, as protocols show them.
BAD_TRANSACTION: Final = "bad_transaction"
TOO_MUCH_STAGED: Final = "too_much_staged"
TOO_LARGE: Final = "stage_too_large"  # one call; a retry will fail as well
NOT_STAGED: Final = "not_staged"
BUSY: Final = "transaction_busy"
NOT_STORED: Final = "not_stored"
NOT_PUBLISHED: Final = "not_published"
STAGE_DAMAGED: Final = "stage_damaged"
OF_ANOTHER: Final = "transaction_of_another_user"


class StagingRefused(Exception):
    """A transaction refuses a request. `code` names the reason."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class StagedPage(NamedTuple):
    """What one call staged: a page of the hidden partition."""

    transaction: str
    part: int
    attempt: int
    first: int
    end: int
    usage_bytes: int
    user: str = ANONYMOUS  # owner of the transaction; ANONYMOUS in rows of earlier releases: any user


class CommittedName(NamedTuple):
    """A transaction that was committed."""

    decided_ms: int  # wall clock
    messages_count: int
    user: str


@final
class StagedTransaction:
    """What a transaction has staged so far."""

    def __init__(self, name: str, touched_ms: int, user: str) -> None:
        self.name = name
        self.user = user  # the user that began it, and the only one that may continue it; ANONYMOUS: any user
        self.touched_ms = touched_ms
        self.pages: list[StagedPage] = []  # in the order staged
        self.committing = False  # its commit is in progress: no other request is accepted


@final
class StagingArea:
    """All transactions of a node.

    Invariants: a name is open or committed, never both, except while its messages are being published; no sequence is
    assigned twice; `staged_bytes` is the sum over all pages.
    """

    def __init__(self, *, next_sequence: int, bytes_max: int, ttl_ms: int, names_kept_ms: int) -> None:
        self.next_sequence = next_sequence
        self.bytes_max = bytes_max
        self.ttl_ms = ttl_ms  # an open transaction without requests for this long is dropped
        self.names_kept_ms = names_kept_ms
        self.open: dict[str, StagedTransaction] = {}
        self.committed: dict[str, CommittedName] = {}
        self.staged_bytes = 0
        self.shared: SharedTotal | None = None  # what the other brokers of this machine have staged counts, too
        self.pages_count = 0
        self.expired_count = 0  # of transactions

    # --- staging ---

    def stage(
        self, name: str, part: int, attempt: int, *, user: str, count: int, usage_bytes: int, wall_ms: int
    ) -> StagedPage | None:
        """Assign sequences to a page; return None when the transaction is committed already, and this is a repetition.

        Raises StagingRefused.
        """
        self._check(name, user)
        if name in self.committed:
            return None
        if not (0 <= part <= PART_MAX and 0 <= attempt <= PART_MAX):
            raise StagingRefused(BAD_TRANSACTION, f"part {part}, attempt {attempt}; allowed: 0 to {PART_MAX}")
        if usage_bytes > STAGE_BYTES_MAX:
            text = f"{usage_bytes} bytes in one call; allowed: {STAGE_BYTES_MAX}"
            raise StagingRefused(TOO_LARGE, text)
        if self.staged_bytes + usage_bytes > self.bytes_max or self.pages_count >= PAGES_MAX:
            text = f"{self.staged_bytes} bytes in {self.pages_count} pages are staged; allowed: {self.bytes_max}"
            raise StagingRefused(TOO_MUCH_STAGED, text)
        transaction = self.open.get(name)
        if transaction is None and len(self.open) >= TRANSACTIONS_MAX:
            raise StagingRefused(TOO_MUCH_STAGED, f"{TRANSACTIONS_MAX} transactions are open")
        if transaction is not None and transaction.committing:
            raise StagingRefused(BUSY, f"transaction {name!r} is being committed")
        if self.shared is not None and not self.shared.admits(self.staged_bytes + usage_bytes, self.bytes_max):
            text = f"brokers of this machine have staged as many bytes as they may together: {self.bytes_max}"
            raise StagingRefused(TOO_MUCH_STAGED, text)
        if transaction is None:
            transaction = self.open[name] = StagedTransaction(name, wall_ms, user)
        transaction.touched_ms = wall_ms
        first = self.next_sequence
        self.next_sequence = first + count
        page = StagedPage(name, part, attempt, first, first + count, usage_bytes, transaction.user)
        self.add_page(page, wall_ms)
        return page

    def add_page(self, page: StagedPage, wall_ms: int) -> None:
        """Add a page: a new one, or one that was found at a start."""
        transaction = self.open.get(page.transaction)
        if transaction is None:
            transaction = self.open[page.transaction] = StagedTransaction(page.transaction, wall_ms, page.user)
        transaction.pages.append(page)
        self.staged_bytes += page.usage_bytes
        self.pages_count += 1

    def drop(self, page: StagedPage) -> None:
        """Remove a page that was published or dropped, or could not be stored. The last page takes the name with it."""
        transaction = self.open[page.transaction]
        transaction.pages.remove(page)
        self.staged_bytes -= page.usage_bytes
        self.pages_count -= 1
        if not transaction.pages and not transaction.committing:
            del self.open[page.transaction]

    # --- committing ---

    def begin_commit(
        self, name: str, attempts: list[tuple[int, int]], wall_ms: int, *, user: str
    ) -> list[StagedPage] | None:
        """Return the pages of the named attempts, in the order to publish; None when it is committed already.

        Raises StagingRefused. Until `decided` or `give_up_commit` the transaction accepts no other request.
        """
        self._check(name, user)
        if name in self.committed:
            return None
        chosen = dict(attempts)
        if len(attempts) > PARTS_MAX or len(chosen) < len(attempts):
            text = f"{len(attempts)} attempts of {len(chosen)} parts; allowed: one of each part, at most {PARTS_MAX}"
            raise StagingRefused(BAD_TRANSACTION, text)
        transaction = self.open.get(name)
        if transaction is None:
            transaction = StagedTransaction(name, wall_ms, user)
        if transaction.committing:
            raise StagingRefused(BUSY, f"transaction {name!r} is being committed")
        staged = {(page.part, page.attempt) for page in transaction.pages}
        missing = [each for each in attempts if each not in staged]
        if missing:
            part, attempt = missing[0]
            text = f"transaction {name!r} has no part {part}, attempt {attempt}: it was never staged, or has expired"
            raise StagingRefused(NOT_STAGED, text)
        self.open[name] = transaction
        return self.resume_commit(name, attempts)

    def resume_commit(self, name: str, attempts: list[tuple[int, int]]) -> list[StagedPage]:
        """Return the pages of a commit that is decided, or about to be, in the order to publish."""
        transaction = self.open.get(name)
        if transaction is None:
            transaction = self.open[name] = StagedTransaction(name, 0, self.committed[name].user)
        transaction.committing = True
        chosen = dict(attempts)
        pages = [page for page in transaction.pages if chosen.get(page.part) == page.attempt]
        pages.sort(key=_place_of)
        return pages

    def give_up_commit(self, name: str) -> None:
        """The commit was refused: the transaction continues as it was."""
        transaction = self.open[name]
        transaction.committing = False
        if not transaction.pages:
            del self.open[name]

    def decided(self, name: str, decided_ms: int, messages_count: int) -> None:
        """The decision is in the store: from now on it will be published, whatever happens."""
        self.committed[name] = CommittedName(decided_ms, messages_count, self.open[name].user)

    def published(self, name: str) -> None:
        """All named attempts were published, and the rest dropped."""
        del self.open[name]

    # --- ends ---

    def abort(self, name: str, *, user: str) -> list[StagedPage] | None:
        """Return the pages to drop; None when it is committed, and nothing is to be done. Raises StagingRefused."""
        self._check(name, user)
        if name in self.committed:
            return None
        transaction = self.open.get(name)
        if transaction is None:
            return []
        if transaction.committing:
            raise StagingRefused(BUSY, f"transaction {name!r} is being committed")
        return list(transaction.pages)

    def expired(self, wall_ms: int) -> list[str]:
        """Return the open transactions without requests for too long."""
        return [
            each.name for each in self.open.values() if not each.committing and each.touched_ms + self.ttl_ms <= wall_ms
        ]

    def forgotten(self, wall_ms: int) -> list[str]:
        """Return the committed names that are old enough to forget."""
        oldest_ms = wall_ms - self.names_kept_ms
        return [name for name, each in self.committed.items() if each.decided_ms < oldest_ms and name not in self.open]

    def _check(self, name: str, user: str) -> None:
        """Raise StagingRefused unless a user may have a transaction of this name."""
        check_name(name)
        known = self.open.get(name) or self.committed.get(name)
        if known is not None and known.user not in (ANONYMOUS, user):
            raise StagingRefused(OF_ANOTHER, f"403 Permission Denied: transaction {name!r} is another user's")

    def check(self) -> None:
        """Assert the invariants."""
        pages = [page for transaction in self.open.values() for page in transaction.pages]
        assert sum([page.usage_bytes for page in pages]) == self.staged_bytes
        assert len(pages) == self.pages_count
        ends = sorted([(page.first, page.end) for page in pages])
        for (_, end), (first, _) in pairwise(ends):
            assert end <= first, "no sequence is assigned twice"
        assert not ends or ends[-1][1] <= self.next_sequence
        for name, transaction in self.open.items():
            assert transaction.committing or name not in self.committed
            assert transaction.committing or transaction.pages


def check_name(name: str) -> None:
    """Raise StagingRefused unless a transaction may have this name."""
    if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
        text = f"name {name[:40]!r} of {len(name)} characters; allowed: 1 to {NAME_CHARS_MAX} printable ones"
        raise StagingRefused(BAD_TRANSACTION, text)


def _place_of(page: StagedPage) -> tuple[int, int]:
    return page.part, page.first
