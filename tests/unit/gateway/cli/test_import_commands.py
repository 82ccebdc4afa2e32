"""`sluicegate import`: what it writes, for whom, and when it does not."""

import json
from pathlib import Path

import pytest
import yaml

from sluicegate.gateway.cli.terminal.failures import USAGE
from sluicegate.gateway.config.load import load
from support.operations.shell import Shell

HASH = "$7$101$" + "A" * 16 + "$" + "A" * 86 + "=="
RABBIT = {"users": [{"name": "ann", "password": "secret", "tags": "administrator"}], "queues": [{"name": "q"}]}
SOURCES = {
    "mosquitto": "listener 1883\nallow_anonymous true\nmount_point x\n",
    "rabbitmq": json.dumps(RABBIT),
    "activemq": "<broker><destinations><queue physicalName='q'/></destinations></broker>",
    "solace": json.dumps({"msgVpns": [{"msgVpnName": "default", "queues": [{"queueName": "q"}]}]}),
}


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell without a gateway, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Shell("http://127.0.0.1:9")


@pytest.mark.parametrize("broker", SOURCES)
def test_a_configuration_and_its_report_are_written(broker: str, nobody: Shell, tmp_path: Path) -> None:
    (tmp_path / "source").write_text(SOURCES[broker])
    printed = nobody.run("import", broker, "source", "--into", "made", "--node", "plant-7")
    config = load(tmp_path / "made" / "sluicegate.yaml")
    assert config.node.name == "plant-7"
    report = (tmp_path / "made" / "report.txt").read_text()
    assert report in printed + "\n"
    for title in ("Taken (", "Differs in behaviour (", "Could not be taken ("):
        assert title in report
    as_json = json.loads(nobody.run("import", broker, "source", "--into", "again", "--json"))
    assert as_json.keys() == {"taken", "differs", "not_taken"}
    assert all(each.keys() == {"where", "setting", "text"} for part in as_json.values() for each in part)


def test_secrets_are_in_files_for_their_owner_only(nobody: Shell, tmp_path: Path) -> None:
    (tmp_path / "passwords.txt").write_text(f"ann:{HASH}\n../x:{HASH}\n.x:{HASH}\n")
    conf = "listener 1883\npassword_file passwords.txt\nauth_plugin x.so\nauth_opt_pg_password word-of-the-database\n"
    (tmp_path / "mosquitto.conf").write_text(conf)
    printed = nobody.run("import", "mosquitto", "mosquitto.conf", "--into", "made")
    files = sorted((tmp_path / "made" / "passwords").iterdir())
    assert [each.stat().st_mode & 0o777 for each in files] == [0o600] * 3
    assert files[0].parent.stat().st_mode & 0o777 == 0o700
    assert HASH not in printed
    assert "word-of-the-database" not in printed
    assert (tmp_path / "made" / "report.txt").stat().st_mode & 0o777 == 0o600
    assert HASH not in (tmp_path / "made" / "sluicegate.yaml").read_text()
    config = load(tmp_path / "made" / "sluicegate.yaml")
    assert [each.name for each in config.authentication.users] == ["ann", "../x", ".x"]
    assert all(each.secret() == HASH for each in config.authentication.users)


def test_an_earlier_import_is_replaced_only_by_force(nobody: Shell, tmp_path: Path) -> None:
    (tmp_path / "source").write_text(SOURCES["mosquitto"])
    nobody.run("import", "mosquitto", "source", "--into", "made")
    before = (tmp_path / "made" / "sluicegate.yaml").read_text()
    assert "--force" in nobody.run("import", "mosquitto", "source", "--into", "made", "--node", "x", expect=USAGE)
    assert (tmp_path / "made" / "sluicegate.yaml").read_text() == before
    nobody.run("import", "mosquitto", "source", "--into", "made", "--node", "x", "--force")
    assert yaml.safe_load((tmp_path / "made" / "sluicegate.yaml").read_text())["node"] == {"name": "x"}


@pytest.mark.parametrize(
    ("broker", "text", "message"),
    [
        ("mosquitto", b"listener here\n", "source:1: 'here' is no port of a listener"),
        ("mosquitto", b"\xff\xfe", "byte 0 is not UTF-8"),
        ("rabbitmq", b"{", "source:1: this is not JSON"),
        ("activemq", b"<a>", "source:1: this is not XML"),
        ("solace", b"[]", "source:1: this is no object"),
    ],
)
def test_an_unreadable_source_writes_nothing(
    broker: str, text: bytes, message: str, nobody: Shell, tmp_path: Path
) -> None:
    (tmp_path / "source").write_bytes(text)
    assert message in nobody.run("import", broker, "source", "--into", "made", expect=USAGE)
    assert not (tmp_path / "made").exists()
    refused = nobody.run("import", broker, "missing", expect=USAGE)
    assert refused == "error: missing: the file cannot be read: No such file or directory\n"


def test_a_folder_that_cannot_be_looked_at_is_named_with_the_reason(nobody: Shell, tmp_path: Path) -> None:
    (tmp_path / "source").write_text(SOURCES["mosquitto"])
    folder = tmp_path / ("x" * 300)
    refused = nobody.run("import", "mosquitto", "source", "--into", str(folder), expect=USAGE)
    assert refused.replace("\n", "") == f"error: {folder}: File name too long"


def test_listeners_without_their_certificate_are_off_and_the_rest_starts(nobody: Shell, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("listener 1883\nlistener 8883\ncertfile gone.pem\nkeyfile gone.key\n")
    printed = nobody.run("import", "mosquitto", "source", "--into", "made")
    assert "there is no file 'gone.pem'" in printed
    assert [*load(tmp_path / "made" / "sluicegate.yaml").listeners.enabled()] == ["mqtt"]


def test_paths_in_a_container_are_found_by_its_volumes(nobody: Shell, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "passwords").write_text(f"ann:{HASH}\n")
    conf = "listener 1883\npassword_file /mosquitto/config/passwords\n"
    (tmp_path / "config" / "mosquitto.conf").write_text(conf)
    command = ("import", "mosquitto", "config/mosquitto.conf", "--into", "made")
    assert "--volume ./config:/mosquitto/config" in nobody.run(*command, expect=USAGE)
    assert "allowed: HERE:INSIDE" in nobody.run(*command, "--volume", "config", expect=USAGE)
    nobody.run(*command, "-v", "./config:/mosquitto/config:ro")
    config = load(tmp_path / "made" / "sluicegate.yaml")
    assert [each.name for each in config.authentication.users] == ["ann"]
