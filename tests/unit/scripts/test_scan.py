"""`make scan`: what is said of known holes, and that silence of every service is not taken for none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "scan"

CLEAN = {"name": "pykka", "version": "4.2.0", "vulns": []}
HOLED = {"name": "pyyaml", "version": "5.3", "vulns": [{"id": "PYSEC-2021-142", "fix_versions": ["5.4"]}]}
UNKNOWN = {"name": "sluicegate", "skip_reason": "Dependency not found on PyPI"}


def scanned(tmp_path: Path, **answers: str) -> tuple[int, str]:
    """Run it with a pip-audit that prints these answers; return exit code and output."""
    for service in ("pypi", "osv"):
        (tmp_path / service).write_text(answers.get(service, ""))
    program = tmp_path / "pip-audit"
    program.write_text(
        f"""#!{sys.executable}
import pathlib, sys
(service,) = [each.partition("=")[2] for each in sys.argv if each.startswith("--vulnerability-service=")]
answer = (pathlib.Path(__file__).parent / service).read_text()
sys.exit(print(answer) if answer else "no route to host")
"""
    )
    program.chmod(0o755)
    run = subprocess.run([sys.executable, SCRIPT, program], capture_output=True, text=True, timeout=60, env=os.environ)
    return run.returncode, run.stdout + run.stderr


def answer(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.parametrize(
    ("answers", "code", "words"),
    [
        ({"pypi": answer(CLEAN, UNKNOWN)}, 0, "pypi knows 0 holes in 1 packages; not known there: sluicegate"),
        ({"pypi": answer(CLEAN, HOLED)}, 1, "pyyaml 5.3 has PYSEC-2021-142; mended by 5.4"),
        ({"pypi": answer(UNKNOWN), "osv": answer(CLEAN)}, 0, "osv knows 0 holes in 1 packages"),
        ({"osv": answer(HOLED)}, 1, "pyyaml 5.3 has PYSEC-2021-142"),
        ({"pypi": answer(UNKNOWN)}, 3, "pypi: it knows none of 1 packages; osv: no route to host"),
        ({}, 3, "no advisory service could be asked"),
    ],
)
def test_a_known_hole_is_reported_and_no_response_is_no_all_clear(
    tmp_path: Path, answers: dict[str, str], code: int, words: str
) -> None:
    """pip-audit ends with 0 where an index answers, and knows no package."""
    ended_with, told = scanned(tmp_path, **answers)
    assert ended_with == code
    assert words in told
