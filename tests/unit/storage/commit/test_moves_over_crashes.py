"""Messages that move between partitions while commits fail and the power goes: each is in exactly one of the two."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.rules.moves import abort_move, begin_move, commit_move
from sluicegate.storage.commit.planner import Commit
from support.cores.messages import published
from support.cores.spool_in_memory import Place, SpoolInMemory
from support.cores.spool_machine import PARTITIONS, SpoolMachine
from support.thorough import examples


class SpoolWithMoves(SpoolInMemory):
    """Partitions that hand messages to each other, as the actors do it."""

    def start(self) -> None:
        self.answered = 0
        self.refusals_seen = 0
        super().start()

    def move(self, source: int, target: int, first: int, end: int) -> None:
        """Move what can be moved of a range; a publication for each batch that it lies in."""
        ledger = self.ledgers[source]
        for segment in ledger.segments.overlapping(first, end):
            batch = segment.batch
            if batch is None:
                continue  # an actor would read the page; these tests are about commits
            taken = begin_move(ledger, max(first, segment.first), min(end, segment.end))
            rows = [sequence - segment.first for start, stop in taken for sequence in range(start, stop)]
            if rows:
                publication = published(batch.select(rows))
                publication.settlements = [(source, start, stop) for start, stop in taken]
                publication.only_moves = True
                sequence = self.ledgers[target].append(publication.batch, publication)
                self.given_out |= {Place(target, each) for each in range(sequence, sequence + len(rows))}
                publication.sequenced(target, sequence, None)
                self.planner.store(publication, now_ms=0)

    def begin_commit(self, *, patience_ms: int = 0) -> None:
        super().begin_commit(patience_ms=patience_ms)
        self.tell_the_sources()

    def end_commit(self, *, succeeds: bool) -> None:
        super().end_commit(succeeds=succeeds)
        self.tell_the_sources()

    def tell_the_sources(self) -> None:
        for publication in self.confirmed[self.answered :]:
            for source, first, end in publication.settlements or []:
                commit_move(self.ledgers[source], first, end)
        self.answered = len(self.confirmed)
        for publication in self.refused[self.refusals_seen :]:
            for source, first, end in publication.settlements or []:
                abort_move(self.ledgers[source], first, end)
        self.refusals_seen = len(self.refused)
        self.carry_out_effects()

    def _promise(self, commit: Commit) -> None:
        super()._promise(commit)
        for publication in commit.publications:
            self.promised_settled |= {
                Place(source, sequence)
                for source, first, end in publication.settlements or []
                for sequence in range(first, end)
            }

    def _withdraw(self, publication: Publication) -> None:
        super()._withdraw(publication)
        assert publication.record_number == 0


class MovesMachine(SpoolMachine):
    """Goal: no crash, failed commit or page doubles or loses a message that moves. Method: count promises plainly."""

    def __init__(self) -> None:
        super().__init__()
        self.spool = self.moving = SpoolWithMoves(PARTITIONS)

    @rule(source=st.sampled_from(PARTITIONS), skip=st.integers(0, 9), count=st.integers(1, 9))
    def move(self, source: int, skip: int, count: int) -> None:
        (target,) = [each for each in PARTITIONS if each != source]
        first = self.moving.ledgers[source].floor + skip
        self.moving.move(source, target, first, first + count)


TestMovesSurvive = MovesMachine.TestCase
TestMovesSurvive.settings = settings(max_examples=examples(150), stateful_step_count=60, deadline=None)
