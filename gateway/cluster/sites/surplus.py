"""What a site alone had when the other one was promoted without it: kept aside, never merged."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, final

import orjson

from sluicegate.gateway.cluster.sites.exporting import lines_between, queues_of_partitions
from sluicegate.gateway.config.model import Config
from sluicegate.storage.environment.environment import READERS_FILE, sync_folders
from sluicegate.storage.environment.file_kinds import is_there
from sluicegate.storage.environment.file_rights import make_file, make_folder
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE
from sluicegate.storage.log.journal import LOG_FOLDER
from sluicegate.storage.replication.jetstream import JetStream
from sluicegate.storage.replication.sites.receiving import Joined
from sluicegate.storage.replication.sites.states import SiteState

GENERATION_FILE: Final = "generation"  # of the stream of which the folder has a copy

log = logging.getLogger("sluicegate.cluster")


@final
class Surplus:
    """Files of one replica."""

    def __init__(self, config: Config, owner_rows: Callable[[], Iterable[tuple[bytes, bytes]]]) -> None:
        """`owner_rows` returns the rows that name the queue of each partition. It may block."""
        self._folder: Final = config.data.path
        self._owner_rows: Final = owner_rows

    def files(self) -> tuple[str, ...]:
        """Return the files with what this site alone had."""
        return tuple(sorted(str(path) for path in self._folder.glob("surplus-*.jsonl")))

    def set_aside(self, generation: int) -> None:
        """Begin with an empty folder if it has a copy of an earlier stream of this site; keep that beside it.

        The note of the generation is durable before a copy of its stream begins, and what is kept is never replaced.
        """
        known = self._known_generation()
        if known == str(generation):
            return
        make_folder(self._folder)
        names = (DATA_FILE, LOG_FOLDER, READERS_FILE, LOCK_FILE)  # the last two say that there was a spool
        found = [name for name in names if is_there(self._folder / name)]
        if found:
            aside = self._free_folder(f"superseded-{known}", found)
            make_folder(aside)
            for name in found:
                (self._folder / name).rename(aside / name)
            sync_folders(aside)
            log.warning("the copy of the log that this site had before is kept in %s", aside)
        note = self._folder / GENERATION_FILE
        written = note.with_suffix(".new")
        written.unlink(missing_ok=True)  # of a process that was killed
        with open(make_file(written), "w") as file:
            file.write(f"{generation}\n")
            file.flush()
            os.fsync(file.fileno())
        written.replace(note)
        sync_folders(self._folder)

    def _known_generation(self) -> str:
        """Return the generation of the stream of which the folder has a copy; "unknown" if its note says none."""
        try:
            said = (self._folder / GENERATION_FILE).read_text().strip()
        except FileNotFoundError:
            return "0"
        return said if said.isascii() and said.isdigit() else "unknown"

    def _free_folder(self, name: str, wanted: Iterable[str]) -> Path:
        """Return a folder in which none of the wanted names is. One may be half full: its process was killed."""
        path, number = self._folder / name, 1
        while any(is_there(path / each) for each in wanted):
            number += 1
            path = self._folder / f"{name}-{number}"
        return path

    def _free_path(self, name: str) -> Path:
        """Return the path of a file that is not there yet."""
        path, number = self._folder / f"{name}.jsonl", 1
        while is_there(path):
            number += 1
            path = self._folder / f"{name}-{number}.jsonl"
        return path

    async def export(self, own: JetStream, joined: Joined, state: SiteState) -> None:
        """Write what this site alone has to a file, if it has something. Raises OSError, and what a stream raises."""
        queues = queues_of_partitions(await asyncio.to_thread(self._owner_rows))
        path = self._free_path(f"surplus-{state.site}-epoch-{state.epoch}")
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)  # of an earlier try
        records = published = 0
        with open(make_file(partial), "wb") as file:
            async for line in lines_between(own, joined.common, joined.last, queues):
                file.write(orjson.dumps(line) + b"\n")
                records += 1
                published += len(line["published"])
            file.flush()
            os.fsync(file.fileno())
        if not records:
            partial.unlink()
            log.info("site %s alone had no records when the other site was promoted", state.site)
            return
        partial.rename(path)
        sync_folders(self._folder)
        log.error(
            "site %s alone had %d records with %d messages when the other site was promoted: they are in %s, "
            "and are not merged",
            state.site,
            records,
            published,
            path,
        )
