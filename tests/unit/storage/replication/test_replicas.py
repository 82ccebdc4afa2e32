"""Replicas over a stream that stores late, twice or never: what was confirmed is in the log once, for all of them.

Each planted fault leaves out one of the rules, and the judge finds it.
"""

from collections.abc import Callable
from typing import Final

import pytest

from sluicegate.storage.replication.messages import Epoch, Kind, Message, decode_message, place_of
from sluicegate.storage.replication.replica import Append, Record, Replica, Role
from support.cores.replicated_log import LEVELS, Cluster, run

SEEDS: Final = range(150)
STEPS: Final = 300


@pytest.mark.parametrize("checks", [True, False])
def test_what_was_confirmed_is_in_the_log_once_for_every_replica(checks: bool) -> None:
    """Even if the servers let everybody write, for the readers have the last word."""
    told = 0
    lost = 0
    clean = 0
    levels = set()
    owners = set()

    class Counting(Cluster):
        def ownership_lost(self, who: int) -> None:
            nonlocal lost
            lost += 1
            super().ownership_lost(who)

    for seed in SEEDS:
        cluster = Counting(seed, checks=checks)
        for _ in range(STEPS):
            cluster.step()
        cluster.judge()
        told += len(cluster.told)
        clean += cluster.clean_count
        levels.add(cluster.level)
        owners |= {replica.name for replica in cluster.replicas if replica.role is Role.OWNER}
    assert told > len(SEEDS)
    assert lost > 0
    assert clean > 0
    assert levels == {1, 2}
    assert owners == {"a", "b", "c"}


class TakesAnyAnswer(Replica):
    """It confirms whatever place an answer names."""

    def confirm(self, append: Append, sequence: int) -> bool:
        return super().confirm(append, append.expected + 1)


class ServesWithTheKey(Replica):
    """It appends no epoch message: the key is enough."""

    def append_epoch(self, end: int, time_ms: int) -> Append | None:
        if end == self.read_through:
            self.role = Role.OWNER
            self.owner_epoch = self.epoch
            assert self._place is not None
            self._place = self._place._replace(epoch=self.epoch, position=0)
        return None


class ReadsEverything(Replica):
    """It applies each message, whatever stands before it."""

    def _decoded(self, data: bytes, where: str) -> Message | None:
        place = place_of(data, where)
        before = place._replace(epoch=place.epoch - 1)  # that of an epoch message
        return decode_message(data, before if data[1] == Kind.EPOCH else place, where, LEVELS)


class KeepsCleanOverOwners(Replica):
    """Once an owner has stopped in order, all that follow begin as it did."""

    def _take(self, message: Message, data: bytes, sequence: int, where: str) -> Record | None:
        before = self._last_clean
        record = super()._take(message, data, sequence, where)
        if message.kind is Kind.EPOCH:
            self._last_clean = before
        return record


class TakesRefusalForLoss(Cluster):
    """Nothing is there when it looks, so its publisher hears that nothing was stored."""

    def nothing_there(self, who: int) -> None:
        self.refused.append(self.proposed(who))
        self.replicas[who]._out.clear()


class TakesLossForSuccess(Cluster):
    """Something is there, so it will be what was sent."""

    def ownership_lost(self, who: int) -> None:
        self.told.append(self.proposed(who))
        super().ownership_lost(who)


def made(kind: type[Replica], *, checks: bool) -> Callable[[int], Cluster]:
    return lambda seed: Cluster(seed, checks=checks, make=lambda name: kind(name, "0", reads=LEVELS))


PLANTED: Final[dict[str, Callable[[int], Cluster]]] = {
    "any answer confirms": made(TakesAnyAnswer, checks=False),
    "the key is enough to serve": made(ServesWithTheKey, checks=False),
    "the chain is not checked": made(ReadsEverything, checks=False),
    "a clean message counts for ever": made(KeepsCleanOverOwners, checks=True),
    "reading decides": TakesRefusalForLoss,
    "a refusal is a success": TakesLossForSuccess,
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str) -> None:
    with pytest.raises(AssertionError):
        run(SEEDS, STEPS, PLANTED[fault])


def test_an_owner_names_itself() -> None:
    cluster = Cluster(1)
    replica = cluster.replicas[0]
    cluster.read(0)
    replica.take_key(1)
    append = replica.append_epoch(1, time_ms=5)
    assert append is not None
    cluster.stream.append(append)
    cluster.read(0)
    assert (replica.role, replica.owner, replica.owner_epoch, replica.time_ms) == (Role.OWNER, Epoch("a", "0"), 1, 5)
    assert replica.begin is not None
    assert replica.begin.broker == "edge"
    assert decode_message(append.data, place_of(append.data, "it"), "it") is None  # an epoch has no place of a record
    assert append.data[1] == Kind.EPOCH
