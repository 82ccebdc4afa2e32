"""How a release is made: the workflow, the wheels it builds, and the first minute with one."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
WORKFLOW: Final = ROOT / ".github" / "workflows" / "release.yaml"
JOBS: Final[dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MINUTE: Final = ROOT / "scripts" / "first-minute"
# A network of its own, where the default ports are free whatever else runs here.
ALONE: Final = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def pythons() -> list[str]:
    """Return the releases of Python that the package names."""
    return re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)


def before(job: str) -> set[str]:
    """Return the jobs that have to pass before one begins."""
    needs = JOBS[job].get("needs", [])
    needed = {needs} if isinstance(needs, str) else set(needs)
    return needed.union(*(before(each) for each in needed))


def steps_using(action: str) -> dict[str, list[dict[str, Any]]]:
    """Return the steps of each job that use an action."""
    found = {name: [step for step in job["steps"] if action in step.get("uses", "")] for name, job in JOBS.items()}
    return {name: steps for name, steps in found.items() if steps}


@pytest.mark.parametrize("workflow", sorted(WORKFLOW.parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_workflow_follows_the_schema_of_workflows(workflow: Path) -> None:
    command = ["check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(workflow)]
    checked = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_what_runs_each_night_is_a_target_of_the_makefile() -> None:
    """With variables that it knows: make does not mind others."""
    nightly = yaml.safe_load((WORKFLOW.parent / "nightly.yaml").read_text())["jobs"]["nightly"]
    makefile = (ROOT / "Makefile").read_text()
    included = nightly["strategy"]["matrix"]["include"]
    assert included
    for each in included:
        assert f".PHONY: {each['target']}\n" in makefile
        if "seeds" in each:
            recipe = makefile.partition(f"\n{each['target']}: ")[2].partition("\n\n")[0]
            assert "--first $(FIRST) --seeds $(SEEDS)" in recipe


def test_wheels_are_built_and_tried_for_every_python_on_both_machines() -> None:
    built, tried = (JOBS[name]["strategy"]["matrix"] for name in ("wheels", "try"))
    assert tried["python"] == pythons()
    assert built["python"] == [f"cp{each.replace('.', '')}" for each in pythons()]
    assert built["machine"] == tried["machine"] == ["x86_64", "aarch64"]


def test_only_compiled_wheels_are_built() -> None:
    """Otherwise an error of the compiler would make a wheel that is several times slower."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert tool["environment"]["SLUICEGATE_REQUIRE_EXT"] == "1"


def test_nothing_is_published_that_was_not_tried_or_has_no_tag() -> None:
    (publishing,) = steps_using("pypi-publish")
    assert before(publishing) == {"tests", "sdist", "wheels", "try", "bill"}
    assert JOBS[publishing]["if"] == "github.ref_type == 'tag'"


def test_all_tests_pass_before_as_wheels_are_compiled() -> None:
    (run,) = [step for step in JOBS["tests"]["steps"] if "run" in step]
    assert run == {"run": "bash .ci/run", "env": {"SLUICEGATE_OPT_LEVEL": "3"}}


def test_the_wheel_is_tried_without_compiler_and_sources() -> None:
    assert re.fullmatch(r"python:\$\{\{ matrix\.python \}\}-slim", JOBS["try"]["container"])
    assert "try" not in steps_using("actions/checkout")
    (run,) = [step["run"] for step in JOBS["try"]["steps"] if "first-minute" in step.get("run", "")]
    assert run == "bash first-minute wheel/*.whl"


def test_only_the_job_that_publishes_may_sign_or_write() -> None:
    assert yaml.safe_load(WORKFLOW.read_text())["permissions"] == {"contents": "read"}
    assert {name: job["permissions"] for name, job in JOBS.items() if "permissions" in job} == {
        "publish": {"contents": "write", "id-token": "write"}
    }
    assert {name for name in JOBS if "secrets." in yaml.safe_dump(JOBS[name])} == set()


def test_what_is_published_is_signed() -> None:
    (attested,) = steps_using("pypi-publish")["publish"]
    assert attested["with"]["attestations"] is True
    (signed,) = steps_using("sigstore")["publish"]
    assert signed["with"]["inputs"].split() == ["dist/*.whl", "dist/*.tar.gz", "bill/sluicegate.cdx.json"]


def test_every_job_ends() -> None:
    assert [name for name, job in JOBS.items() if "timeout-minutes" not in job] == []


def test_the_first_minute_ends_with_a_delivered_message(tmp_path: Path) -> None:
    """The commands of the README, with the installation under test as `sluicegate`."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("it takes root, unshare and ip to have a network of its own")
    command = tmp_path / "sluicegate"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m sluicegate "$@"\n')
    command.chmod(0o755)
    variables = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*ALONE, str(MINUTE)], env=variables, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\norders/eu hello" in done.stdout
    typed = re.findall(r"^\$ (sluicegate (?:queue|pub) .*)$", done.stdout, re.MULTILINE)
    assert len(typed) == 2
    readme = (ROOT / "README.md").read_text()
    assert [each for each in typed if each not in readme] == []


def test_a_gateway_that_does_not_start_fails_the_first_minute(tmp_path: Path) -> None:
    command = tmp_path / "sluicegate"
    command.write_text("#!/bin/sh\necho no >&2; exit 1\n")
    command.chmod(0o755)
    variables = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([MINUTE], env=variables, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "does not get ready" in done.stderr) == (1, True)
