"""A program for test_store_damage: read all that a damaged store still serves, and say how it ended."""

import sys
from pathlib import Path

from sluicegate.storage.errors import StorageError
from sluicegate.storage.store.store import SpoolStore


def main(folder: Path) -> None:
    """Print what could not be read, then the outcome."""
    try:
        store = SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20)
        recovery = store.recover()
        for page in recovery.pages:
            try:
                store.read_page(page.partition_id, page.summary.first_sequence)
            except StorageError as error:
                print(error)
        for _ in recovery.journal:
            pass
        for rows in recovery.tables.values():
            for _ in rows:
                pass
    except StorageError as error:
        print(f"{type(error).__name__}: {error}")
        print("refused")
        return
    for item in recovery.quarantined:
        print(*item)
    print("served the rest" if recovery.quarantined else "noticed nothing")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
