"""Log lines: one per event, for people or for machines."""

import io
import logging
from collections.abc import Iterator

import orjson
import pytest

from gateway.config.sections import Log
from gateway.logs import HANDLER_NAME, set_up_logging


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


def test_setting_up_again_replaces_the_handler_and_the_level(root: logging.Logger) -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up_logging(Log(level="debug"), stream=first)
    set_up_logging(Log(level="error"), stream=second)
    logging.getLogger("gateway.test").warning("not shown")
    logging.getLogger("gateway.test").error("shown")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_a_crash_is_logged_with_its_traceback(root: logging.Logger) -> None:
    stream = io.StringIO()
    set_up_logging(Log(format="json"), stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("gateway.test").exception("an actor crashed")
    assert "ValueError: broken" in orjson.loads(stream.getvalue())["exception"]
