"""Faults that tests plant into a copy of the sources, to check that the simulation finds them.

Each is a small mistake that a change could introduce. They are text edits, because compiled classes cannot be patched;
the copy runs uncompiled.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import sluicegate.messaging

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 12
CORES = len(os.sched_getaffinity(0))
# As installed: with what Python has made of each module already.
SOURCES = Path(sluicegate.__file__).parent
ROOMS = ("messaging", "storage", "actors", "protocols", "gateway")


class Edit(NamedTuple):
    """A piece of one file, which occurs exactly once in it, and its replacement."""

    file: str
    old: str
    new: str


class Planted(NamedTuple):
    """One fault."""

    name: str
    edits: tuple[Edit, ...]
    seed: int  # found it when this was written: the search is short that begins with it


FAULTS = (
    Planted(
        "a publisher is confirmed before the commit",
        (
            Edit(
                "actors/spool/actor.py",
                "        report = self._commit_here(commit, now_ms)\n",
                "        for publication in commit.publications:\n"
                "            _confirm(publication)\n"
                "        report = self._commit_here(commit, now_ms)\n",
            ),
            Edit(
                "actors/spool/actor.py",
                "        self._confirm_all(commit.publications, WRITTEN)\n",
                "",
            ),
        ),
        seed=2,
    ),
    Planted(
        "the loop takes each commit that it makes itself for a success",
        (
            Edit(
                "actors/spool/actor.py",
                "        elif isinstance(report, CommitFailed):\n"
                "            self._commit_failed(report)\n"
                "            self.turn_ended()\n",
                "",
            ),
            Edit(
                "actors/spool/actor.py",
                "            self._commit_done(report)\n",
                "            self._commit_done(CommitDone(commit.job.number + 1))\n",
            ),
        ),
        seed=5,
    ),
    Planted(
        "a partition changes hands without taking it from its owner",
        (
            Edit(
                "messaging/queues/assignment/rebalance.py",
                "return [Move(DETACH, partition, slot.owner, slot.epoch), self._give(",
                "return [self._give(",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a checkpoint trims the log of one record too many",
        (
            Edit(
                "storage/commit/journal.py",
                "return min(self.slots[0].number, end)",
                "return min(self.slots[0].number + 1, end)",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a checkpoint includes the settlements of a commit that is not made",
        (
            Edit(
                "storage/commit/planner.py",
                "        settlements = self._take_settlements()\n",
                "        settlements = self._take_settlements()\n"
                "        for partition_id, first, end in settlements:\n"
                "            self.cursors[partition_id].settle(first, end)\n"
                "            self.checkpoints.changed(partition_id)\n",
            ),
        ),
        seed=10,
    ),
    Planted(
        "a page is deleted before the settlements of its messages are committed",
        (
            Edit(
                "storage/commit/planner.py",
                "        self._page_deletes.append((partition_id, first_sequences))\n",
                "        self.checkpoints.drop_pages(partition_id, first_sequences)\n",
            ),
        ),
        seed=6,
    ),
    Planted(
        "a page is written of messages whose record is then refused",
        (Edit("messaging/partitions/paging.py", " or not publication.confirmed:", ":"),),
        seed=29,
    ),
    Planted(
        "a reservation that was refused is not made again",
        (
            Edit(
                "storage/commit/planner.py",
                "        self._reserving.update([each.partition_id for each in job.reservations"
                " if each.partition_id in self.cursors])\n",
                "",
            ),
        ),
        seed=25,
    ),
    Planted(
        "a start forgets the reservations that no checkpoint includes",
        (
            Edit(
                "storage/log/tail.py",
                "            for reservation in record.reservations:\n",
                "            for reservation in record.reservations[:0]:\n",
            ),
        ),
        seed=2,
    ),
    Planted(
        "what a crash left is delivered without the redelivered flag",
        (
            Edit(
                "messaging/partitions/ledger.py",
                "redelivered = again or first < self.suspect_end",
                "redelivered = again",
            ),
        ),
        seed=3,
    ),
    Planted(
        "a released message is delivered again without the redelivered flag",
        (
            Edit(
                "messaging/partitions/ledger.py",
                "redelivered = again or first < self.suspect_end",
                "redelivered = first < self.suspect_end",
            ),
        ),
        seed=2,
    ),
    Planted(
        "what a publisher sends again is delivered without the redelivered flag",
        (Edit("messaging/partitions/ledger.py", " or (batch is not None and batch.possible_duplicate)", ""),),
        seed=5,
    ),
    Planted(
        "a slot that moves is not held until its older messages are settled",
        (
            Edit(
                "messaging/partitions/state/rescale_holds.py",
                "return source if source != self.number and source in self.closed else NOT_HELD",
                "return NOT_HELD",
            ),
        ),
        seed=10,
    ),
    Planted(
        "a commit publishes, and what it settles is not written with that",
        (Edit("actors/transactions/commit.py", "        publication.settlements = settlements\n", ""),),
        seed=4,
    ),
    Planted(
        "a publisher's message is written, and not that it was sent under its sequence",
        (
            Edit(
                "protocols/flow/datapath/publishing.py",
                "            publication.session_rows = [noted]\n",
                "            pass\n",
            ),
        ),
        seed=4,
    ),
    Planted(
        "a reload leaves connected clients the rights that they had",
        (
            Edit(
                "messaging/clients/roster.py",
                "            if user in self._usernames or user not in before:\n",
                "            if user in self._usernames:\n",
            ),
        ),
        seed=8,
    ),
    Planted(
        "a reload leaves the quota of a message VPN as it was",
        (
            Edit(
                "gateway/node/vpn.py",
                "config.message_vpn(self.name)\n        self._apply_quotas()\n",
                "config.message_vpn(self.name)\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a reload creates no queue that is declared behind one that exists",
        (
            Edit(
                "gateway/provisioning/queues.py",
                "            continue  # an existing one is left as it is\n",
                "            break\n",
            ),
        ),
        seed=3,
    ),
    Planted(
        "a reload leaves a delivery point that was changed as it was",
        (
            Edit(
                "gateway/provisioning/rest_points.py",
                "if point is not None and point.settings != wanted:",
                "if point is not None and wanted is None:",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a push that fails is not given back before what stands behind it",
        (
            Edit(
                "protocols/rest/point.py",
                "            await self._give_back(flow, lanes, message)\n",
                "            self._settle(flow, message, outcome)\n            flow.review()\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a push that gets no answer counts as done",
        (
            Edit(
                "protocols/rest/point.py",
                "            except NoAnswer:\n                return FAILED\n",
                "            except NoAnswer:\n                return ACCEPTED\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a PUT is made again when its connection breaks",
        (
            Edit(
                "protocols/rest/connector.py",
                "        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:\n",
                "        except LostAnswer as error:\n",
            ),
        ),
        seed=58,
    ),
    Planted(
        "a request goes out behind an unsolicited response that has begun",
        (Edit("protocols/rest/connector.py", "        protocol.is_idle = True\n", ""),),
        seed=24,
    ),
    Planted(
        "a browser shows messages that are settled",
        (
            Edit(
                "actors/partitions/browse.py",
                " or sequence < ledger.floor or sequence in ledger.settled:",
                ":",
            ),
        ),
        seed=3463,
    ),
    Planted(
        "a browser passes over what was paged out",
        (
            Edit(
                "actors/partitions/browse.py",
                "                self._reader.read(ReadPage(self, self._partition_id, segment.page.first))\n"
                "                return\n",
                "                self._next = segment.end\n                continue\n",
            ),
        ),
        seed=10,
    ),
    Planted(
        "a browser reads each part of a queue from its beginning",
        (
            Edit(
                "actors/queues/browser.py",
                "self._fetched_to.get(number, self._request.after)",
                "self._request.after",
            ),
        ),
        seed=2,
    ),
)


def edited(fault: Planted) -> dict[str, str]:
    """Return the text of each file that a fault changes. Raises ValueError when an edit does not fit any more."""
    texts: dict[str, str] = {}
    for edit in fault.edits:
        text = texts[edit.file] if edit.file in texts else (SOURCES / edit.file).read_text()
        if text.count(edit.old) != 1:
            raise ValueError(
                f"{edit.file} has {text.count(edit.old)} places for the fault {fault.name!r}: {edit.old!r}"
            )
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


def plant(fault: Planted, folder: Path) -> None:
    """Copy the sources into the folder with the fault in them. Raises ValueError when an edit does not fit any more."""
    package = folder / "sluicegate"
    for room in ROOMS:
        shutil.copytree(SOURCES / room, package / room, ignore=shutil.ignore_patterns("*.so"))
    for module in SOURCES.glob("*.py"):
        shutil.copy(module, package)
    for file, text in edited(fault).items():
        (package / file).write_text(text)


class Played(NamedTuple):
    """What became of seeds over planted sources."""

    played: int
    failed: int
    first: str  # what was found first, with its seed


def play(folder: Path, *options: str, first: int = 1, seeds: int, failures_max: int, jobs: int) -> Played:
    """Play so many seeds over planted sources, some at a time, until some have failed; `options` are further ones."""
    path = os.pathsep.join([str(folder), str(ROOT / "tests")])
    seeds_played = ("--first", str(first), "--seeds", str(seeds), "--failures", str(failures_max), "--jobs", str(jobs))
    played = subprocess.run(
        [sys.executable, "-P", "-m", "simulation", *seeds_played, *options],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if played.returncode not in (0, 1):
        raise RuntimeError(played.stderr)
    found = [line for line in played.stdout.splitlines() if line.startswith("seed ")]
    summary = played.stdout.splitlines()[-1].split()
    return Played(int(summary[0]), len(found), found[0] if found else "")


def main() -> None:
    """Print for each fault how many of the seeds find it: the table of docs/develop/testing.md."""
    for fault in FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            plant(fault, Path(folder))
            first = play(Path(folder), seeds=SEEDS, failures_max=1, jobs=CORES)
            every = play(Path(folder), seeds=SEEDS, failures_max=SEEDS, jobs=CORES)
        print(f"| {fault.name} | {first.played} | {every.failed} of {every.played} |")


if __name__ == "__main__":
    main()
