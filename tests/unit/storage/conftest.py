"""A store in a folder of its own, opened as often as a test wants."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluicegate.storage.store.store import SpoolStore

MAP_BYTES = 16 << 20
RESERVE_BYTES = 1 << 20

OpenStore = Callable[[], SpoolStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    """Open the test's store; what is still open when the test ends is closed."""
    opened: list[SpoolStore] = []

    def open_it() -> SpoolStore:
        for store in opened:
            store.close()
        opened.append(SpoolStore.open(tmp_path / "spool", map_bytes_max=MAP_BYTES, reserve_bytes=RESERVE_BYTES))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> SpoolStore:
    """A new store."""
    return open_store()
