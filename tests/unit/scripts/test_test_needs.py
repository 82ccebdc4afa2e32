"""`scripts/test-needs` on a machine that has nothing: what it asks Debian for, and what it says it could not get."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "test-needs"
BASH = shutil.which("bash")

pytestmark = pytest.mark.skipif(
    BASH is None or Path("/usr/sbin").resolve() == Path("/usr/bin").resolve(),
    reason="it is a script of bash, and looks into /usr/sbin, where no other programs may be",
)


def provided(folder: Path, *, unavailable: str = "none", ci: str = "") -> tuple[int, list[str], str]:
    """Run it as root of a machine whose Debian lacks one package; return exit code, calls of apt-get, and output."""
    programs = {
        "id": "echo 0",
        "dirname": 'echo "${1%/*}"',
        "apt-get": f'echo "$*" >> {folder}/calls; case " $* " in *" {unavailable} "*) exit 100; esac',
    }
    for name, lines in programs.items():
        (folder / name).write_text(f"#!{BASH}\n{lines}\n")
        (folder / name).chmod(0o755)
    run = subprocess.run(
        [str(BASH), SCRIPT], env={"PATH": str(folder), "CI": ci}, capture_output=True, text=True, timeout=60
    )
    return run.returncode, (folder / "calls").read_text().splitlines(), run.stdout + run.stderr


def test_debian_is_asked_for_its_lists_once(tmp_path: Path) -> None:
    code, calls, told = provided(tmp_path)
    assert calls[0] == "update -qq"
    assert all(call.startswith("install ") for call in calls[1:])
    assert {call.split()[-1] for call in calls} >= {"mosquitto-clients", "curl", "chromium"}
    assert "missing mqtt.js, rhea and axe-core: node and npm are not installed" in told
    assert code == 0, "their tests skip"


def test_unavailable_packages_are_named_and_the_others_are_installed(tmp_path: Path) -> None:
    code, calls, told = provided(tmp_path, unavailable="mosquitto", ci="true")
    assert "missing mosquitto mosquitto-clients: apt-get could not install it" in told
    assert {call.split()[-1] for call in calls} >= {"curl", "chromium", "npm"}
    assert code == 1, "no test may skip where a change is judged"
