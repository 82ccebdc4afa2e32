"""`sluicegate doctor`: what it says of configurations, folders, spools and backups, and its exit codes."""

import os
from pathlib import Path
from random import Random

import orjson
import pytest

from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.sections.links import NamedLink
from sluicegate.gateway.node.links import LINKS
from sluicegate.gateway.process.lint import lint
from sluicegate.gateway.provisioning.stored_users import USERS, StoredUser
from sluicegate.gateway.security.credentials import SOON_S, Validity, validity_of
from sluicegate.messaging.queues.definition import definition_from_dict
from sluicegate.protocols.security.scram import stored_text
from sluicegate.storage.backup.backup import Backup
from sluicegate.storage.catalog.queues import StoredQueue, queue_row
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.interface import CommitJob, PageWrite, Table, TableWrite
from sluicegate.storage.records.journal import JournalEntry, Match
from sluicegate.storage.records.page import Run
from sluicegate.storage.store.store import SpoolStore
from support.network.certificates import make_certificates
from support.operations.shell import Shell
from support.storage.half_records import half, page_of_version_1, record_of_version_1
from support.storage.sample_records import batch, publish_job
from support.storage.store_work import checkpoint, commit

MIB = 1 << 20
NOW_S = 1_800_000_000  # of no consequence where no port is in TLS


@pytest.fixture
def shell() -> Shell:
    return Shell("")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder whose node has stopped."""
    store = store_in(tmp_path / "data")
    store.commit(publish_job(1))
    checkpoint(store)
    store.mark_clean()
    store.close()
    return tmp_path / "data"


def store_in(folder: Path) -> SpoolStore:
    return SpoolStore.open(folder, map_bytes_max=16 * MIB, reserve_bytes=MIB)


def examined(shell: Shell, *arguments: str, healthy: bool = True) -> dict[str, object]:
    """Run the doctor; on a small map, so that the machine's disk has nothing to say."""
    small = ("--set", "spool.map_bytes_max=16MiB", "--set", "spool.usage_bytes_max=8MiB")
    run = shell.run if healthy else shell.told
    answer: dict[str, object] = orjson.loads(run("doctor", *arguments, *small, "--json"))
    return answer


def subjects(answer: dict[str, object]) -> dict[str, str]:
    findings = answer["findings"]
    assert isinstance(findings, list)
    return {each["subject"]: each["text"] for each in findings}


def files_in(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_a_sound_folder_is_reported_and_left_unchanged(shell: Shell, data: Path) -> None:
    before = files_in(data)

    answer = examined(shell, "--data", str(data))

    assert answer["healthy"]
    looked_at = answer["looked_at"]
    assert isinstance(looked_at, dict)
    assert (looked_at["journal records"], looked_at["closed in order"]) == (1, "yes")
    assert "journal records" in shell.run("doctor", "--data", str(data))
    assert files_in(data) == before


def test_damage_is_an_error_and_an_exit_code(shell: Shell, data: Path) -> None:
    store = store_in(data)
    store.commit(publish_job(2))
    store.close()
    segment = sorted((data / "log").glob("0*.log"))[0]
    content = bytearray(segment.read_bytes())
    content[content.index(b"SGJ") + 60] ^= 1
    segment.write_bytes(content)

    answer = examined(shell, "--data", str(data), healthy=False)

    assert not answer["healthy"]
    assert "checksum" in subjects(answer)["log record 1"]


def test_half_messages_of_earlier_versions_are_reported_with_their_records(shell: Shell, tmp_path: Path) -> None:
    """The next start leaves them out."""
    store = store_in(tmp_path / "data")
    page = page_of_version_1(100, half(3), Run(110, batch(2)))
    store.commit(CommitJob(number=7, record=record_of_version_1([JournalEntry(half(3), [Match(1, 10, None)])])))
    checkpoint(store, pages=[PageWrite(1, page)])
    store.mark_clean()
    store.close()

    found = subjects(examined(shell, "--data", str(tmp_path / "data"), healthy=False))

    assert "half of 1 messages" in found["log record 7"]
    assert "half of 1 messages" in found["page of partition 1 from sequence 100"]


def test_a_truncated_file_is_reported_and_not_read(shell: Shell, data: Path) -> None:
    """Reading behind its end would kill the process."""
    os.truncate(data / DATA_FILE, (data / DATA_FILE).stat().st_size - 4096)

    answer = examined(shell, "--data", str(data), healthy=False)

    assert "bytes of" in subjects(answer)[DATA_FILE]


def test_the_spool_of_a_node_that_runs_is_left_alone(shell: Shell, data: Path) -> None:
    store = store_in(data)
    answer = examined(shell, "--data", str(data))
    store.close()

    looked_at = answer["looked_at"]
    assert isinstance(looked_at, dict)
    assert looked_at["spool"] == f"in use by process {os.getpid()}; make a backup and check that"
    assert "queues" not in looked_at


def test_a_folder_that_is_not_there_yet_is_no_error(shell: Shell, tmp_path: Path) -> None:
    answer = examined(shell, "--data", str(tmp_path / "none"))
    assert answer["looked_at"] == {"data folder": str(tmp_path / "none"), "spool": "none; the first start creates one"}
    assert not (tmp_path / "none").exists()


def test_a_backup_is_examined_by_its_checksum_and_its_records(shell: Shell, data: Path, tmp_path: Path) -> None:
    store = store_in(data)
    folder = tmp_path / "backups" / "b"
    Backup(store, folder, incarnation=1, taken_ms=1, node="n", release="1").run()
    store.close()

    assert examined(shell, "--backup", str(folder))["healthy"]

    content = bytearray((folder / DATA_FILE).read_bytes())
    content[-1] ^= 1
    (folder / DATA_FILE).write_bytes(content)
    assert "checksum" in subjects(examined(shell, "--backup", str(folder), healthy=False))[str(folder)]


def test_permissions_of_other_users_are_reported_with_the_command_that_removes_them(shell: Shell, data: Path) -> None:
    """Also beside a node that runs."""
    assert str(data) not in subjects(examined(shell, "--data", str(data)))
    data.chmod(0o755)
    (data / DATA_FILE).chmod(0o644)
    store = store_in(data)
    told = subjects(examined(shell, "--data", str(data)))[str(data)]
    store.close()
    shown = f"other users of this machine may read or change {data} (0755), {data / DATA_FILE} (0644)"
    assert told == f"{shown}; to end that: chmod g-w,o-rwx {data} {data / DATA_FILE}"


def test_users_with_scram_keys_of_few_iterations_are_reported(shell: Shell, data: Path) -> None:
    """Those that an earlier release stored, in any message VPN, and those that stand in a configuration."""
    rows = []
    for name, iterations in (("old", 4096), ("new", 15_000)):
        key = stored_text("engine", iterations, Random(1).randbytes)
        rows.append(user_row(StoredUser(name, True, "default", "default", "$argon2id$", key)))
    rows.append(TableWrite(Table.CATALOG, b"user/broken", b"{"))
    store = store_in(data)
    commit(store, rows=rows)
    store.close()
    secret = stored_text("engine", 4096, Random(1).randbytes)
    settings = ("--set", f"authentication.users=[{{name: ann, password_file: {data.parent / 'ann'}}}]")
    (data.parent / "ann").write_text(secret)

    told = subjects(examined(shell, "--data", str(data), *settings))

    words = "its SCRAM key has 4096 iterations, and a new one at least 15000: give it a new password"
    assert told["default: user old"] == told["authentication.users: ann"] == words
    assert "default: user new" not in told


def test_neighbors_that_no_link_leads_to_are_reported(shell: Shell, data: Path) -> None:
    """Their link queues use the quota. Links are configured, or made by an operator."""
    made = NamedLink(name="made").to_dict()
    rows = [TableWrite(Table.CATALOG, LINKS.row_key + b"made", orjson.dumps(made))]
    for name in (b"gone", b"made", b"configured"):
        rows.append(TableWrite(Table.SESSIONS, b"link-lineage/" + name, bytes(16)))
    store = store_in(data)
    commit(store, rows=rows)
    store.close()

    told = subjects(examined(shell, "--data", str(data), "--set", "node.name=a", "--set", "links.configured.url="))

    words = "no link leads to it, and its queue is kept; to end that: sluicegate link forget gone"
    assert told["message VPN default: neighbor gone"] == words
    assert [each for each in told if "neighbor" in each] == ["message VPN default: neighbor gone"]


def user_row(user: StoredUser) -> TableWrite:
    return TableWrite(Table.CATALOG, USERS.row_key + user.name.encode(), USERS.written(user))


ADMIN_USERS = "admin.users=[{name: root, password: '$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$MTIzNDU2Nzg5MDEy'}]"


@pytest.mark.parametrize(
    ("settings", "subject", "words"),
    [
        (["admin.host=0.0.0.0", ADMIN_USERS], "admin.host", "without TLS"),
        (["listeners.mqtt.host=0.0.0.0"], "listeners.mqtt.host", "without TLS"),
        (["mqtt.allowed_origins=['*']"], "mqtt.allowed_origins", "every web page"),
        (["amqp.allowed_origins=['*']"], "amqp.allowed_origins", "every web page"),
        (["http.allowed_origins=['*']"], "http.allowed_origins", "every web page"),
        (["node.allowed_hosts=['*']"], "node.allowed_hosts", "whose host name resolves to this node"),
        (["spool.sync=false"], "spool.sync", "power failure"),
        (["spool.usage_bytes_max=16GiB"], "spool.usage_bytes_max", "100%"),
        (["spool.memory_bytes_max=1TiB"], "spool.memory_bytes_max", "more than half"),
        (["data.path=/x/data", "backup.path=/x/data/backups"], "backup.path", "lost with it"),
        (["queues.declared=[{name: q}]"], "queues.declared: q", "redelivered without end"),
        (
            ["queues.declared=[{name: q, max_redelivery_count: 3, dead_msg_queue: d}]"],
            "queues.declared: q",
            "'d' is not declared",
        ),
        (["queues.declared=[{name: q, max_redelivery_count: 3, max_ttl: 9}]"], "queues.declared: q", "no effect"),
        (["listeners.mqtt.max_connections=1000000"], "listeners: max_connections", "may need"),
        (
            ["node.name=here", "bridges=[{name: b, remote_url: 'mqtt://plant.example', outgoing: [{queue: q}]}]"],
            "bridges: b",
            "queue 'q' is not declared",
        ),
        (
            ["node.name=here", "bridges=[{name: b, remote_url: 'mqtt://plant.example', username: me}]"],
            "bridges: b",
            "sent to plant.example without TLS; with TLS: mqtts://",
        ),
        (["backpressure.unfinished_bytes_max=32MiB"], "backpressure.unfinished_bytes_max", "http.max_body_size"),
    ],
)
def test_allowed_but_suspicious_settings_are_warnings(settings: list[str], subject: str, words: str) -> None:
    found = [each for each in lint(load(None, settings=settings), now_s=NOW_S) if each.subject == subject]
    assert any(words in each.text for each in found), found


def test_anybody_on_a_door_to_the_world_is_a_warning_and_secrets_that_everybody_can_read(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("swordfish\n")
    secret.chmod(0o644)
    users = f"authentication.users=[{{name: ann, password_file: {secret}}}]"
    open_to_all = ["listeners.mqtt.host=0.0.0.0", "authentication.allow_anonymous=true", users]

    texts = [each.text for each in lint(load(None, settings=open_to_all), now_s=NOW_S)]

    assert any("anyone who can reach 0.0.0.0 may connect" in text for text in texts)
    assert any(f"can read {secret} (mode 0644)" in text for text in texts)
    assert not any("swordfish" in text for text in texts)


def test_a_certificate_that_has_expired_or_soon_will_is_a_warning(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    validity = validity_of(certificates.server)
    assert validity is not None
    tls = {"enabled": "true", "port": 0, "certificate": certificates.server, "key": certificates.server_key}
    config = load(None, settings=[f"listeners.mqtt_tls.{key}={value}" for key, value in tls.items()])

    def told(now_s: float) -> list[str]:
        return [each.text for each in lint(config, now_s=now_s) if each.subject == "listeners.mqtt_tls.certificate"]

    middle_s = (validity.begins_s + validity.ends_s) / 2
    assert told(middle_s) == []
    assert "is not valid before" in told(validity.begins_s - 1)[0]
    assert "expires at" in told(validity.ends_s - 3600)[0]
    assert "expired at" in told(validity.ends_s)[0]


def test_a_certificate_for_years_is_spoken_of_for_fourteen_days() -> None:
    years = Validity(0, 3 * 365 * 86_400)
    assert years.problem(years.ends_s - SOON_S - 1) == ""
    assert years.problem(years.ends_s - SOON_S + 1) == "expires at 1972-12-31T00:00:00Z"


def test_a_configuration_that_cannot_be_used_is_said_as_ever(shell: Shell) -> None:
    assert "the configuration is invalid" in shell.run("doctor", "--set", "spool.syn=true", expect=2)


def test_errors_are_printed_for_people_as_well(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    told = shell.told("doctor", "--data", str(tmp_path / "data"))
    assert "error" in told


def test_unreadable_folders_are_errors_of_their_own(shell: Shell, tmp_path: Path) -> None:
    """A folder above it may not be entered, or, as here for root's sake, the name is too long for the file system."""
    folder = str(tmp_path / ("x" * 300))
    found = subjects(examined(shell, "--data", folder, healthy=False))
    assert found["data.path"] == f"{folder}: File name too long"
    found = subjects(examined(shell, "--backup", folder, healthy=False))
    assert found[folder].endswith("File name too long")


def test_queues_whose_dead_messages_are_lost_are_reported(shell: Shell, tmp_path: Path) -> None:
    def row(name: str, **attributes: object) -> TableWrite:
        definition = definition_from_dict({"name": name, **attributes})
        return queue_row(StoredQueue(definition, "named", [], None, None))

    store = store_in(tmp_path / "data")
    store.commit(CommitJob(number=1, table_writes=[row("orders"), row("bills"), row("none", dead_msg_queue="")]))
    store.close()
    reported = subjects(examined(shell, "--data", str(tmp_path / "data")))
    (text,) = [text for subject, text in reported.items() if "DEAD" in subject]
    assert "dead messages of 2 queues (such as bills) are lost" in text
    store = store_in(tmp_path / "data")
    store.commit(CommitJob(number=2, table_writes=[row("#DEAD_MSG_QUEUE")]))
    store.close()
    assert not any("DEAD" in subject for subject in subjects(examined(shell, "--data", str(tmp_path / "data"))))
