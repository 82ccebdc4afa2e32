"""Two sites: what a site alone had, as it is exported; sequences that are skipped; and when a lag is reported."""

import asyncio
import base64
import random
from pathlib import Path
from typing import Any, cast

import pytest

from sluicegate.gateway.cluster.sites.alarm import SiteAlarm
from sluicegate.gateway.cluster.sites.exporting import QueueName, line_of, lines_between, queues_of_partitions
from sluicegate.gateway.cluster.sites.promotion import skip_sequences
from sluicegate.gateway.cluster.sites.surplus import GENERATION_FILE, Surplus
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.node import Data
from sluicegate.messaging.observability.events import EventKind
from sluicegate.storage.catalog.recovered import SEQUENCES_SKIPPED, read_partitions
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.interface import CommitJob, Reservation
from sluicegate.storage.log.journal import LOG_FOLDER
from sluicegate.storage.log.record import encode_log_record, record_of
from sluicegate.storage.records.journal import JournalEntry, Match, Settlement, encode_journal_record
from sluicegate.storage.replication.jetstream import JetStream
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.replica import Record, Replica
from sluicegate.storage.replication.sites.receiving import Joined, Joint, SiteLag
from sluicegate.storage.replication.sites.states import first_state
from sluicegate.storage.replication.stream import StoredMessage
from sluicegate.storage.store.store import SpoolStore
from support.cores.replicated_log import ServedStream
from support.storage.sample_records import batch


class TrimmedStream(ServedStream):
    """One that a trim makes shorter."""

    first = 1

    async def trim(self, before: int) -> None:
        """Delete the messages before a sequence."""
        self.first = before

    async def at(self, sequence: int) -> bytes | None:
        """Return the message at a sequence, None if there is none."""
        return await super().at(sequence) if sequence >= self.first else None

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        """Return messages, the first ones that there are."""
        return await super().read(max(after, self.first - 1), wait_s)


QUEUES = {1: QueueName("default", "orders"), 2: QueueName("north", "stock")}
BATCH = batch(topics=["one", "two"], count=2)
JOB = CommitJob(
    number=904,
    record=encode_journal_record([JournalEntry(BATCH, [Match(1, 10, None), Match(2, 5, [1])])], [Settlement(1, 3, 7)]),
    reservations=[Reservation(1, 0, 100)],
)


def test_a_record_is_exported_with_its_messages_queues_and_settlements() -> None:
    data = encode_log_record(record_of(JOB))
    line = line_of(Record(904, data), time_ms=1_795_820_400_000, epoch=7, queues=QUEUES)
    orders, stock = {"vpn": "default", "name": "orders"}, {"vpn": "north", "name": "stock"}
    assert [each["queues"] for each in line["published"]] == [[orders], [orders, stock]]
    assert [base64.b64decode(each["payload"]) for each in line["published"]] == BATCH.payloads()
    assert [each["topic"] for each in line["published"]] == [BATCH.topic_of(0), BATCH.topic_of(1)]
    assert line["settled"] == [{"queue": orders, "first": 3, "end": 7}]
    assert base64.b64decode(line["content"]) == data
    assert (line["record"], line["epoch"], line["time"]) == (904, 7, "2026-11-27T23:00:00.000+00:00")


def test_a_record_that_cannot_be_read_is_exported_as_it_is() -> None:
    line = line_of(Record(904, b"cut off"), time_ms=0, epoch=7, queues={})
    assert base64.b64decode(line["content"]) == b"cut off"
    assert "record 904" in line["problem"]


def test_what_was_trimmed_meanwhile_is_named_and_the_rest_is_exported() -> None:
    """The site has served alone for long after the other one was promoted."""

    async def exported() -> list[dict[str, Any]]:
        served, replica = TrimmedStream(), Replica("a", "")
        log = ReplicatedLog(replica, served, wall_ms=lambda: 0, take=lambda _: None, rng=random.Random(1))
        await log.take_over(5)
        numbers = [await log.append(b"%d" % number) for number in range(6)]
        await served.trim(numbers[3])
        return [line async for line in lines_between(served, numbers[0], numbers[5], {})]

    first, *rest = asyncio.run(exported())
    assert first["trimmed"] == {"first": rest[0]["record"] - 2, "end": rest[0]["record"]}
    assert [base64.b64decode(each["content"]) for each in rest] == [b"3", b"4", b"5"]


def test_a_partition_whose_queue_is_not_known_has_its_number() -> None:
    data = encode_log_record(record_of(JOB))
    line = line_of(Record(904, data), time_ms=0, epoch=7, queues={})
    assert line["settled"][0]["queue"] == {"partition": 1}
    rows = [(b"partition/1", b'{"queue":"orders"}'), (b"partition/2", b"[]"), (b"partition/x", b"{}")]
    assert queues_of_partitions(rows) == {1: QUEUES[1]}


def surplus_in(folder: Path) -> Surplus:
    return Surplus(Config(data=Data(path=folder)), list)


async def exported(folder: Path, *, records: int) -> Surplus:
    """Export what a site alone has: messages of its owners, and some records."""
    served, replica = TrimmedStream(), Replica("a", "")
    log = ReplicatedLog(replica, served, wall_ms=lambda: 0, take=lambda _: None, rng=random.Random(1))
    await log.take_over(5)
    common = replica.read_through
    replica.step_down()
    await log.take_over(6)
    for number in range(records):
        await log.append(b"%d" % number)
    surplus = surplus_in(folder)
    joined = Joined(Joint.DIVERGED, common, len(served.model.messages))
    await surplus.export(cast("JetStream", served), joined, first_state("paris", is_active=True))
    return surplus


def test_a_file_is_made_of_what_a_site_alone_had_and_none_of_nothing(tmp_path: Path) -> None:
    """Each site may have had another owner since the last message that both have, and no message of a client."""
    assert asyncio.run(exported(tmp_path, records=0)).files() == ()
    assert list(tmp_path.iterdir()) == []
    assert len(asyncio.run(exported(tmp_path, records=2)).files()) == 1


def spool_in(folder: Path, content: str) -> None:
    """Make what a copy of a stream has."""
    (folder / LOG_FOLDER).mkdir(parents=True)
    (folder / LOG_FOLDER / "1").write_text(content)
    (folder / DATA_FILE).write_text(content)


def test_the_copy_of_an_earlier_stream_is_kept_aside_once(tmp_path: Path) -> None:
    spool_in(tmp_path, "first")
    surplus_in(tmp_path).set_aside(0)
    assert (tmp_path / DATA_FILE).exists()
    surplus_in(tmp_path).set_aside(1)
    assert not (tmp_path / DATA_FILE).exists()
    spool_in(tmp_path, "second")
    surplus_in(tmp_path).set_aside(1)
    assert (tmp_path / DATA_FILE).read_text() == "second"
    surplus_in(tmp_path).set_aside(2)
    kept = {name: (tmp_path / name / DATA_FILE).read_text() for name in ("superseded-0", "superseded-1")}
    assert kept == {"superseded-0": "first", "superseded-1": "second"}


def test_a_copy_that_cannot_be_looked_at_is_not_left_in_the_place_of_the_next(tmp_path: Path) -> None:
    """No folder is closed to root, so a link to a name that is too long stands for one."""
    spool_in(tmp_path, "first")
    (tmp_path / DATA_FILE).unlink()
    (tmp_path / DATA_FILE).symlink_to("x" * 300)
    with pytest.raises(OSError, match="File name too long"):
        surplus_in(tmp_path).set_aside(1)
    assert not (tmp_path / GENERATION_FILE).exists()


def test_a_note_that_was_lost_replaces_nothing_that_is_kept(tmp_path: Path) -> None:
    """A power failure may take what an earlier release wrote of the note."""
    spool_in(tmp_path, "what the site alone had")
    surplus_in(tmp_path).set_aside(1)
    (tmp_path / GENERATION_FILE).unlink()
    spool_in(tmp_path, "a copy of the other site")
    surplus_in(tmp_path).set_aside(1)
    assert (tmp_path / "superseded-0" / DATA_FILE).read_text() == "what the site alone had"
    assert (tmp_path / "superseded-0-2" / DATA_FILE).read_text() == "a copy of the other site"
    (tmp_path / GENERATION_FILE).write_text("")
    spool_in(tmp_path, "another")
    surplus_in(tmp_path).set_aside(1)
    assert (tmp_path / "superseded-unknown" / LOG_FOLDER / "1").read_text() == "another"


def test_a_copy_that_was_kept_aside_in_part_goes_where_the_rest_is(tmp_path: Path) -> None:
    spool_in(tmp_path, "first")
    (tmp_path / "superseded-0").mkdir()
    (tmp_path / DATA_FILE).rename(tmp_path / "superseded-0" / DATA_FILE)  # and its process was killed
    surplus_in(tmp_path).set_aside(1)
    assert sorted(each.name for each in (tmp_path / "superseded-0").iterdir()) == sorted([DATA_FILE, LOG_FOLDER])


def test_no_sequence_is_given_again_after_a_loss(tmp_path: Path) -> None:
    store = SpoolStore.open(tmp_path, map_bytes_max=1 << 27)
    try:
        store.commit(CommitJob(number=1, record=JOB.record, reservations=JOB.reservations))
        skip_sequences(store)
        partitions, _ = read_partitions(store.recover())
        assert partitions[1].next_sequence >= SEQUENCES_SKIPPED + 100
        assert partitions[2].next_sequence >= SEQUENCES_SKIPPED + 6
    finally:
        store.close()


def test_a_site_that_is_behind_for_long_is_reported_once_and_when_it_is_not_any_more() -> None:
    reported: list[EventKind] = []
    alarm = SiteAlarm("london", 60, lambda kind, text: reported.append(kind), 0.0)
    for lag, now_s in ((None, 30.0), (SiteLag(5, 500, 59.0), 40.0), (SiteLag(9, 900, 61.0), 42.0), (None, 43.0)):
        alarm.look(lag, now_s)
    assert [each.name for each in reported] == ["SYSTEM_REPLICATION_DOWN"]
    alarm.look(SiteLag(0, 0, 0.0), 50.0)
    assert [each.name for each in reported] == ["SYSTEM_REPLICATION_DOWN", "SYSTEM_REPLICATION_UP"]


def test_a_site_of_which_nothing_is_known_is_reported() -> None:
    said: list[str] = []
    alarm = SiteAlarm("london", 60, lambda kind, text: said.append(text), 0.0)
    alarm.look(None, 61.0)
    assert said == ["site london is behind by 61 s: nothing is known of it"]
