"""What is installed takes the names `sluicegate` and `pyspark_sluicegate`, and no other of a program's own modules."""

import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = sorted(link.name for link in (ROOT / "sluicegate").iterdir() if link.is_symlink())
PROGRAM = """
import actors, gateway, messaging, pipeline, protocols, storage
assert {each.MINE for each in (actors, gateway, messaging, pipeline, protocols, storage)} == {"mine"}
import sluicegate
import sluicegate.gateway.cli
import sluicegate.storage.interface
print(sluicegate.Client.__module__)
"""


@pytest.mark.skipif("SLUICEGATE_EXPECT" not in os.environ, reason="SLUICEGATE_EXPECT asks for no installed package")
def test_the_distribution_has_two_import_names() -> None:
    files = distribution("sluicegate").files or []
    names = {path.parts[0] for path in files if path.suffix == ".py"}
    assert names == {"sluicegate", "pyspark_sluicegate"}


def test_an_application_may_have_modules_of_the_same_names(tmp_path: Path) -> None:
    """As `storage` or `gateway`, which are names that programs have for modules of their own."""
    for room in ROOMS:
        (tmp_path / f"{room}.py").write_text("MINE = 'mine'\n")
    ours = os.environ.get("PYTHONPATH", "")
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), ours]))}
    ran = subprocess.run([sys.executable, "-P", "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("sluicegate.protocols.flow.client.")
