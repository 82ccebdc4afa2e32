"""`make demo`, on few of its readings: its own process, gateway, workers and session."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark.processes import ENDS_S, small_spark_environment

ROOT = Path(__file__).resolve().parents[3]
SENSORS, EACH = 6, 100


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(900)
def test_all_readings_are_worked_on_once_and_in_order_though_a_worker_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo", "--folder", str(tmp_path), "--most", str(EACH)]
    ended = subprocess.run(
        command, cwd=ROOT, env=small_spark_environment(), capture_output=True, text=True, timeout=ENDS_S
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = tmp_path.iterdir()
    assert ended.stdout.count("kill -9 of a worker") == 1
    assert f"clean: all {SENSORS * EACH} messages came out" in (folder / "audit.html").read_text()
    assert "groups</div>" in (folder / "weekly.html").read_text()
    assert re.search(rf"came out\D*{SENSORS * EACH}\b", ended.stdout)
    for log in folder.glob("*.log"):
        assert "Traceback" not in log.read_text(), log.name
