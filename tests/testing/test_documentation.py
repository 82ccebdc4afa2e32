"""docs/connect/test-your-application.md: its programs run, and its tests pass by the plugin."""

import inspect
import re
from pathlib import Path

import pytest

from sluicegate.testing import AsyncBroker, Broker
from support.processes.user_tests import run_program, run_tests

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "connect" / "test-your-application.md").read_text()
FILE = re.compile(r"^`(\w+\.py)`\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAM = re.compile(r"^```python\n((?:(?!```).*\n)*)```\n\n```text\n((?:(?!```).*\n)*)```", re.MULTILINE)
HELPER = re.compile(r"`(?:with broker\.)?([a-z_]+)\(")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["process", "thread"])
def test_the_tests_of_the_page_pass(tmp_path: Path, place: str) -> None:
    files = dict(FILE.findall(PAGE))
    assert set(files) == {"test_greeting.py", "shop.py", "test_shop.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nsluicegate_broker_place = {place}\n")
    done = run_tests(tmp_path)
    assert (done.returncode, done.stdout.rpartition("\n\n")[0].count("failed")) == (0, 0), done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_the_programs_of_the_page_print_what_stands_beside_them(tmp_path: Path) -> None:
    programs = PROGRAM.findall(PAGE)
    assert len(programs) == 2
    for program, said in programs:
        done = run_program(tmp_path, program)
        assert (done.stdout, done.stderr) == (said, "")


def test_the_page_names_every_helper_and_no_other() -> None:
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    public = {name for name in vars(Broker) if not name.startswith("_")}
    called = set(HELPER.findall(prose)) - {"get_exposed_port", "get_container_host_ip", "with_env", "with_command"}
    named = set(re.findall(r"`(?:broker\.)?([a-z_]+)`", prose)) | called
    assert public - named == set()
    assert called - public - {"wait_for_logs", "get_logs"} == set()


def test_what_can_be_asked_of_a_broker_can_be_awaited() -> None:
    """With the same arguments."""
    for name, member in vars(Broker).items():
        if not name.startswith("_"):
            twin = vars(AsyncBroker)[name]
            assert type(twin) is type(member), name
            if callable(member):
                given = inspect.signature(member).parameters
                assert inspect.signature(twin).parameters.keys() == given.keys(), name
                assert {each.default for each in inspect.signature(twin).parameters.values()} == {
                    each.default for each in given.values()
                }
