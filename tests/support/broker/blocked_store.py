"""A store whose commits wait until the test releases them, as on a busy disk, while the loop goes on."""

import threading
from typing import Self

import pytest

from sluicegate.storage.interface import CommitJob
from support.broker.running_broker import RunningBroker


class BlockedStore:
    """Has the commits of a broker wait from now on."""

    def __init__(self, broker: RunningBroker, patch: pytest.MonkeyPatch) -> None:
        self._goes = threading.Event()
        store = broker.node.services.store
        self._commit = store.commit
        patch.setattr(store, "commit", self._carry_out)
        patch.setattr(store, "is_at_hand", lambda _: False)  # the loop would wait by itself

    def _carry_out(self, job: CommitJob) -> int:
        self._goes.wait()
        return self._commit(job)

    def let_go(self) -> None:
        self._goes.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let the node end, however the test does."""
        self.let_go()
