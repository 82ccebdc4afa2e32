"""A fixed set of seeds of replicas; `make simulate-replicas` plays more."""

import pytest

from simulation.command import REPLICAS, replay_command
from simulation.replicas.actions import SECOND_US
from simulation.replicas.run import run_replicas
from simulation.replicas.world import LEASE_US, world_of
from sluicegate.gateway.cluster.log.trimming import LogTrimming
from sluicegate.gateway.cluster.membership.level import LogLevel
from sluicegate.gateway.cluster.membership.names import ReplicaNames
from sluicegate.gateway.cluster.replica.alarms import Alarms
from sluicegate.storage.replication.ownership.candidate import Candidate

FEW_STEPS = 60
TENTH_US = 100_000


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 4))
def test_replicas_keep_what_was_confirmed_in_a_short_run(seed: int) -> None:
    outcome = run_replicas(seed, count=FEW_STEPS)
    assert outcome.violation == "", f"{outcome.violation}\nagain: {replay_command(seed, FEW_STEPS, REPLICAS)}"


@pytest.mark.timeout(600)
def test_a_seed_is_one_run_of_replicas_and_no_other() -> None:
    """What the servers have stored is the same, byte for byte."""
    traces = [run_replicas(5, count=FEW_STEPS).trace for _ in range(2)]
    assert traces[0] == traces[1]
    assert run_replicas(6, count=FEW_STEPS).trace != traces[0]


@pytest.mark.timeout(600)
def test_an_owner_that_stops_without_a_standby_costs_the_next_one_no_lease() -> None:
    with world_of(1) as world:
        world.advance(30 * SECOND_US)
        owner = world.owner()
        assert owner is not None
        others = [each for each in world.machines.values() if each is not owner]
        for each in others:
            each.crash()
        world.advance(10 * SECOND_US)  # nobody hears of them any more
        owner.stop()
        while world.owner() is not None:
            world.advance(TENTH_US)
        waits_us = 0
        while world.owner() is None:
            world.advance(TENTH_US)
            waits_us += TENTH_US
        assert world.owner() is owner  # the first in the list, so it has no turn to wait for
        assert waits_us < LEASE_US


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("owner", "method", "task"),
    [
        (LogLevel, "_turn", "level of the log"),
        (LogTrimming, "_turn", "trims and snapshots"),
        (ReplicaNames, "_wait", "list of replicas"),
        (Candidate, "_read", "lease"),
        (Alarms, "look", "alarms"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_replica_of_which_a_task_fails_ends_and_names_it(
    owner: type, method: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that died in silence would be missed when it is needed."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(owner, method, fail)
    outcome = run_replicas(1, count=0)
    assert f"task {task!r} has ended: ValueError('a fault')" in outcome.violation
