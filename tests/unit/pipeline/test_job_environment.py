"""What a job finds where it runs, and what it leaves there: Java, environment, temporary files."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from sluicegate.pipeline.cli import FATAL
from sluicegate.pipeline.spark.environment import spark_environment
from sluicegate.pipeline.spark.session import PREFIX, working_folder
from support.processes.programs import running
from support.storage.spool_file import same_imports

HOLDS_ONE: Final = """\
import signal
from sluicegate.pipeline.spark.session import working_folder
with working_folder() as folder:
    (folder / "blockmgr-1").mkdir()
    print(folder, flush=True)
    signal.pause()
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for temporary files of the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_job_that_ends_leaves_nothing_and_removes_what_one_left_that_was_killed(place: Path) -> None:
    other = place / "other"
    other.mkdir()
    with running([sys.executable, "-c", HOLDS_ONE], environment={**same_imports(), "TMPDIR": str(place)}) as job:
        assert job.stdout is not None
        folder = Path(job.stdout.readline().strip())
        with working_folder() as mine:
            assert {folder, mine, other} == set(place.iterdir()), "it runs"
        job.kill()
        job.communicate()
    assert (folder / "blockmgr-1").is_dir()
    with working_folder() as mine:
        assert mine.name.startswith(PREFIX)
        assert {mine, other} == set(place.iterdir())
    assert [other] == list(place.iterdir())


def test_a_host_without_java_has_that_of_a_package_though_it_lacks_a_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Decision 0042."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with spark_environment(tmp_path):
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
        asked = ["-Dsaid=two words", "--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version"]
        done = subprocess.run([java, *asked], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "said = two words" in done.stderr
    assert "JAVA_HOME" not in os.environ


def test_settings_of_operators_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {"SPARK_HOME": "/opt/spark", "JAVA_HOME": "/opt/java", "PYSPARK_PYTHON": "/opt/python"}
    for name, value in {**given, "SPARK_SUBMIT_OPTS": "-Dmine=1"}.items():
        monkeypatch.setenv(name, value)
    with spark_environment(tmp_path):
        assert {name: os.environ[name] for name in given} == given
        assert os.environ["SPARK_SUBMIT_OPTS"] == f'-Djava.io.tmpdir="{tmp_path}" -Dmine=1'
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1"


def test_a_spark_that_does_not_start_is_reported_in_one_line_and_is_no_finding(tmp_path: Path) -> None:
    """docs/data/pipeline.md, exit codes: 1 would say that the archive is not as it should be."""
    file = tmp_path / "audit.toml"
    tables = "".join(f'[audit.{each}]\npath = "/none"\n' for each in ("ingress", "egress"))
    file.write_text(f'[audit]\nreport = "/none"\nidentity = "message_id"\n{tables}')
    command = [sys.executable, "-P", "-m", "sluicegate.pipeline", "run", "audit", "--config", str(file)]
    environment = {**same_imports(), "JAVA_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == FATAL, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: Spark did not begin: ")
    assert "Traceback" not in done.stderr
    assert [file] == list(tmp_path.iterdir())
