"""The rules of the judge for what a start would find in the store."""

from simulation.checks.store_book import StoreBook
from simulation.machine.image import Image
from simulation.machine.memory_store import Faults, MemoryStore
from sluicegate.storage.interface import CheckpointJob, CommitJob, PageDamage, PageWrite, Reservation
from sluicegate.storage.records.journal import JournalEntry, Match, Settlement, encode_journal_record
from sluicegate.storage.records.page import Run, encode_page
from support.cores.messages import numbered

P = 3  # the partition


class Scene:
    """A store with two messages, in a page and in the log."""

    def __init__(self) -> None:
        self.book = StoreBook()
        faults = Faults(refused=lambda: None)
        self.store = MemoryStore(Image(), faults, self, segment_records=50, map_bytes=1 << 20)
        batch = numbered(2)
        record = encode_journal_record([JournalEntry(batch, [Match(P, 1, None)])], [])
        self.store.commit(CommitJob(number=1, record=record, reservations=[Reservation(P, 1, 100)]))
        self.checkpoints(page_writes=[PageWrite(P, encode_page([Run(1, batch)]))])

    def committed(self, job: CommitJob) -> None:
        self.book.committed(job)

    def checkpointed(self, store: MemoryStore, job: CheckpointJob) -> None:
        self.book.checkpointed(store, job)

    def checkpoints(self, *, page_writes: list[PageWrite] | None = None, damage: bool = False) -> None:
        damages = [PageDamage(P, 1, "torn")] if damage else []
        self.store.checkpoint(
            CheckpointJob(applied=1, needed_from=1, page_quarantines=damages, page_writes=page_writes or [])
        )

    def settles(self) -> None:
        """Commit that the node gives up the messages."""
        self.store.commit(CommitJob(number=2, record=encode_journal_record([], [Settlement(P, 1, 3)])))


def test_messages_of_a_damaged_page_may_be_in_the_log_until_they_are_given_up() -> None:
    """A start between the checkpoint that sets the page aside and that commit finds them."""
    scene = Scene()
    scene.checkpoints(damage=True)
    scene.settles()
    scene.checkpoints()
