"""Log lines: one per event, for people or for machines."""

import io
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate.gateway.config.sections.observability import Log
from sluicegate.gateway.observability.logs import HANDLER_NAME, TextLines, set_up_logging


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    logger = logging.getLogger()
    level = logger.level
    yield logger
    logger.setLevel(level)
    for handler in [handler for handler in logger.handlers if handler.get_name() == HANDLER_NAME]:
        logger.removeHandler(handler)


def test_a_json_line_carries_the_extra_values(root: logging.Logger) -> None:
    stream = io.StringIO()
    set_up_logging(Log(format="json"), stream=stream)
    logging.getLogger("gateway.test").info("client connected", extra={"client": "c1\ud800", "port": 7})
    line = orjson.loads(stream.getvalue())
    assert (line["level"], line["logger"], line["message"]) == ("info", "gateway.test", "client connected")
    assert (line["client"], line["port"]) == ("c1\\ud800", 7)
    assert line["time"].endswith("Z")


def test_a_client_cannot_forge_a_line(root: logging.Logger) -> None:
    stream = io.StringIO()
    set_up_logging(Log(), stream=stream)
    logging.getLogger("gateway.test").warning("bad topic %s", "a\n2026-01-01 ERROR forged", extra={"client": "x\ny"})
    assert stream.getvalue().count("\n") == 1
    assert "bad topic a\\n2026" in stream.getvalue()


FORGED = (
    "x' client='admin",
    'x" client="admin',
    "x\\' client='admin",
    "x client=admin",
    "' client='admin' '",
    "x\u202e client='admin'",
)


def read_pairs(line: str) -> dict[str, str]:
    """Return the pairs of a line as a careful reader takes them: from left to right, quotes and escapes heeded."""
    found = re.findall(r"""'(?:[^'\\]|\\.)*'|(\w+)='((?:[^'\\]|\\.)*)'|[^\s'=]+|[\s=]""", line)
    return {key: value.replace("\\'", "'").replace("\\\\", "\\") for key, value in found if key}


@pytest.mark.parametrize("name", FORGED)
def test_a_client_cannot_forge_a_pair_in_a_text_or_in_a_value(root: logging.Logger, name: str) -> None:
    """docs/operate/events.md, Log lines. Nor does one appear to who looks for the pair of somebody else's name."""
    stream = io.StringIO()
    set_up_logging(Log(), stream=stream)
    logging.getLogger("sluicegate.mqtt").info("client %s left", name, extra={"event": "E", "client": name})
    line = stream.getvalue()
    assert read_pairs(line) == {"event": "E", "client": name.replace("\u202e", "\\u202e")}
    assert "client='admin'" not in line
    assert re.findall(r"(?<!\S)client='", line) == ["client='"]


@given(name=st.text(max_size=30), text=st.text(max_size=30))
@example(name="", text="' ")
def test_whatever_is_said_the_pairs_of_a_line_are_those_that_were_given(name: str, text: str) -> None:
    record = logging.makeLogRecord(
        {"name": "n", "levelname": "INFO", "msg": "%s", "args": (text + "=",), "client": name}
    )
    line = TextLines().format(record)
    assert line.isprintable()
    assert list(read_pairs(line.partition(" n ")[2])) == ["client"]


def test_control_characters_are_escaped_in_json_lines_too(root: logging.Logger) -> None:
    stream = io.StringIO()
    set_up_logging(Log(format="json"), stream=stream)
    logging.getLogger("gateway.test").info("bad \x9b31m", extra={"client": "\u202ex\x7f"})
    assert stream.getvalue().rstrip("\n").isprintable()
    assert orjson.loads(stream.getvalue())["client"] == "\u202ex\x7f"


def test_a_traceback_with_words_of_a_client_begins_no_line(root: logging.Logger) -> None:
    stream = io.StringIO()
    set_up_logging(Log(), stream=stream)
    try:
        raise ValueError("bad\n2026-01-01T00:00:00.000Z ERROR forged\x1b[2J")
    except ValueError:
        logging.getLogger("gateway.test").exception("failed")
    first, *others = stream.getvalue().rstrip("\n").split("\n")
    assert "failed" in first
    assert others[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_setting_up_again_replaces_the_handler_and_the_level(root: logging.Logger) -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up_logging(Log(level="debug"), stream=first)
    set_up_logging(Log(level="error"), stream=second)
    logging.getLogger("gateway.test").warning("not shown")
    logging.getLogger("gateway.test").error("shown")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


@pytest.mark.parametrize("kind", ["text", "json"])
def test_lines_of_one_broker_among_several_say_which(root: logging.Logger, kind: Literal["text", "json"]) -> None:
    stream = io.StringIO()
    set_up_logging(Log(format=kind), broker="edge-2", stream=stream)
    logging.getLogger("gateway.test").info("it is ready")
    line = stream.getvalue()
    assert ("broker='edge-2'" in line) if kind == "text" else (orjson.loads(line)["broker"] == "edge-2")


@pytest.fixture
def audit() -> Iterator[logging.Logger]:
    """The audit log, without a file at the end."""
    logger = logging.getLogger("sluicegate.audit")
    yield logger
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def test_an_audit_file_that_cannot_be_made_changes_nothing(
    root: logging.Logger, audit: logging.Logger, tmp_path: Path
) -> None:
    """docs/operate/configuration.md: a reload that fails at a file takes nothing over."""
    stream = io.StringIO()
    kept = Log(audit_file=tmp_path / "audit")
    set_up_logging(kept, stream=stream)
    other = Log(level="error", audit_file=tmp_path / "other")
    (tmp_path / "other").mkdir()
    with pytest.raises(IsADirectoryError):
        set_up_logging(other, stream=stream)
    audit.info("still audited")
    logging.getLogger("gateway.test").info("still shown")
    assert "still audited" in (tmp_path / "audit").read_text()
    assert "still shown" in stream.getvalue()


def test_an_audit_file_is_for_its_user_and_the_readers_of_its_group(
    root: logging.Logger, audit: logging.Logger, tmp_path: Path
) -> None:
    """It tells who came, and from where. One that is begun after the first was moved away is made so, too."""
    before = os.umask(0)
    try:
        set_up_logging(Log(audit_file=tmp_path / "audit"), stream=io.StringIO())
        audit.info("one")
        (tmp_path / "audit").rename(tmp_path / "moved")
        audit.info("two")
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {"audit": 0o640, "moved": 0o640}


def test_an_audit_file_on_a_full_disk_gives_way_to_another_one(
    root: logging.Logger, audit: logging.Logger, tmp_path: Path
) -> None:
    """docs/operate/security.md: operators name another file and reload, with lines that the old one did not take."""
    set_up_logging(Log(audit_file=Path("/dev/full")), stream=io.StringIO())
    audit.info("one")
    set_up_logging(Log(audit_file=tmp_path / "audit"), stream=io.StringIO())
    audit.info("two")
    assert orjson.loads((tmp_path / "audit").read_text())["message"] == "two"


def test_lines_that_an_audit_file_lost_are_reported_when_another_takes_its_place(
    root: logging.Logger, audit: logging.Logger, tmp_path: Path
) -> None:
    stream = io.StringIO()
    set_up_logging(Log(audit_file=Path("/dev/full")), stream=stream)
    audit.info("one")
    audit.info("two")
    set_up_logging(Log(audit_file=tmp_path / "audit"), stream=stream)
    assert stream.getvalue().endswith("the audit log /dev/full is closed; up to 2 lines are missing\n")


def test_an_audit_file_that_cannot_be_written_is_reported_once_and_resumed_later(
    root: logging.Logger, audit: logging.Logger, tmp_path: Path
) -> None:
    """docs/operate/security.md: the file may be moved away at any time; its folder comes back later here."""
    stream = io.StringIO()
    folder = tmp_path / "audits"
    folder.mkdir()
    set_up_logging(Log(audit_file=folder / "audit"), stream=stream)
    audit.info("one")
    folder.rename(tmp_path / "moved")
    audit.info("two")
    audit.info("three")
    folder.mkdir()
    audit.info("four")
    assert "one" in (tmp_path / "moved" / "audit").read_text()
    assert orjson.loads((folder / "audit").read_text())["message"] == "four"
    first, second = stream.getvalue().splitlines()
    assert "the audit log cannot be written: [Errno 2] No such file or directory" in first
    assert second.endswith("the audit log is written again; up to 2 lines are missing")


def test_a_crash_is_logged_with_its_traceback(root: logging.Logger) -> None:
    stream = io.StringIO()
    set_up_logging(Log(format="json"), stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("gateway.test").exception("an actor crashed")
    assert "ValueError: broken" in orjson.loads(stream.getvalue())["exception"]
