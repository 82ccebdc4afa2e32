"""Standbys of a log in a stream of three NATS servers have what its owner has."""

import random
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from sluicegate.storage.replication.replica import Append, first_message
from support.processes.nats import NatsCluster
from support.processes.nats_streams import NAMES, opened, stored, until_created
from support.storage.answers import answered
from support.storage.replicas import BEGIN, Following, Owner, content_of

COMMITS = 40


async def test_two_standbys_follow_and_one_goes_on_after_a_restart(servers: NatsCluster, tmp_path: Path) -> None:
    broker = f"followed {next(NAMES)}"
    async with AsyncExitStack() as stack:
        of_owner, of_first, of_second = [await stack.enter_async_context(opened(servers, broker)) for _ in range(3)]
        await until_created(of_owner, 64 << 20)
        await stored(of_owner, Append(0, first_message(BEGIN, 0)))
        owner = Owner(tmp_path / "owner", of_owner)
        await owner.begin()
        first = Following(tmp_path / "first", of_first, "first")
        await answered(partial(first.standby.resume, of_first))
        second = Following(tmp_path / "second", of_second, "second")
        await answered(partial(second.standby.resume, of_second))
        for seed in range(COMMITS):
            await owner.commit_random(random.Random(seed))
            if seed == COMMITS // 3:
                await second.read_all()
                second.standby.checkpoint()
            if seed == COMMITS // 2:
                await second.read_all()
                second.store.close()
            if seed % 7 == 0:
                owner.checkpoint_random(random.Random(seed))
        second = Following(tmp_path / "second", of_second, "second")
        await answered(partial(second.standby.resume, of_second))
        assert (await answered(partial(second.standby.lag, of_second))).messages >= COMMITS // 2 - 1
        for standby in (first, second):
            await standby.read_all()
            assert content_of(standby.store) == content_of(owner.store)
            assert (await answered(partial(standby.standby.lag, standby.stream))).messages == 0
        for store in (owner.store, first.store, second.store):
            store.close()
