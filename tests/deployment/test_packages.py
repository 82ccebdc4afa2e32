"""The scripts that build wheels, the Debian package and the image: what they check, and what they refuse."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any, Final
from zipfile import ZipFile

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
SCRIPTS: Final = ROOT / "scripts"
DEBIAN: Final = ROOT / "deploy" / "debian"
GOOD: Final = (
    "sluicegate/py.typed",
    "pyspark_sluicegate/py.typed",
    "sluicegate/messaging/topic.py",
    "sluicegate/messaging/topic.cpython-311-x86_64-linux-gnu.so",
    "sluicegate__mypyc.cpython-311-x86_64-linux-gnu.so",
    "sluicegate-0.1.0.dist-info/licenses/LICENSE",
)


def script(name: str) -> dict[str, Any]:
    """Return what a script defines."""
    return runpy.run_path(str(SCRIPTS / name), run_name=name)


def package() -> dict[str, Any]:
    """Return the description of the Debian package, filled as for Debian 12."""
    given = {"version": "1.2.3", "tag": "cp311", "arch": "amd64", "python": "3.11", "next_python": "3.12"}
    text = Template((DEBIAN / "nfpm.yaml").read_text()).substitute(given, root="/laid-out", sources=str(ROOT))
    described = yaml.safe_load(text)
    assert isinstance(described, dict)
    return described


@pytest.mark.parametrize(
    ("added", "left_out", "problem"),
    [
        ((), (), []),
        (("tests/test_x.py",), (), ["has tests/test_x.py"] * 2),
        (("sluicegate/messaging/tests/test_x.py",), (), ["has sluicegate/messaging/tests/test_x.py"]),
        (("sluicegate/messaging/topic.c",), (), ["has sluicegate/messaging/topic.c"]),
        ((), (GOOD[0],), ["lacks sluicegate/py.typed"]),
        ((), (GOOD[3],), ["has sluicegate/messaging/topic.py uncompiled"]),
        ((), (GOOD[5],), ["lacks its licence"]),
    ],
)
def test_a_wheel_with_wrong_contents_is_found(
    added: tuple[str, ...], left_out: tuple[str, ...], problem: list[str], tmp_path: Path
) -> None:
    wheel = tmp_path / "a.whl"
    with ZipFile(wheel, "w") as archive:
        for name in (*GOOD, *added):
            if name not in left_out:
                archive.writestr(name, "")
    assert script("build-wheels")["problems"](wheel, {"sluicegate/messaging/topic.py"}) == problem


def test_wheels_are_built_for_this_python_if_the_package_names_it() -> None:
    """What is found has the headers, which a compiler needs."""
    wheels = script("build-wheels")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert version in wheels["versions"]()
    found = wheels["interpreter"](version)
    if found is None:
        pytest.skip("no Python of this release on the path has its headers")
    asked = "import sys, sysconfig; print(*sys.version_info[:2], sep='.'); print(sysconfig.get_path('include'))"
    told, headers = subprocess.run([found, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert told == version
    assert Path(headers, "Python.h").exists()


def test_no_wheel_is_built_for_a_python_that_is_not_here() -> None:
    assert script("build-wheels")["interpreter"]("3.99") is None


@pytest.mark.parametrize(
    ("wheel", "problem"),
    [
        ("sluicegate-0.1.0-py3-none-any.whl", "no compiled wheel"),
        ("sluicegate_client-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl", "no compiled wheel"),
        ("sluicegate-0.1.0-cp399-cp399-manylinux_2_28_x86_64.whl", "run this script with python3.99"),
    ],
)
def test_a_debian_package_needs_a_compiled_wheel_of_this_python(wheel: str, problem: str) -> None:
    command = [sys.executable, str(SCRIPTS / "build-deb"), wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert problem in done.stderr


def test_the_debian_package_has_files_that_are_there_and_needs_its_python() -> None:
    described = package()
    sources = [each["src"] for each in described["contents"] if each["src"].startswith(str(ROOT))]
    assert len(sources) == 3
    assert [each for each in (*sources, *described["scripts"].values()) if not Path(each).is_file()] == []
    assert {"python3 (>= 3.11)", "python3 (<< 3.12)"} <= set(described["depends"])


def test_nothing_in_the_debian_package_is_writable_by_a_group() -> None:
    """Whatever the umask was of whoever checked the sources out: nfpm keeps the modes of files, less these bits."""
    assert int(package()["umask"], 8) == 0o022


def test_the_debian_package_lays_things_where_the_unit_looks_for_them() -> None:
    places = {each["dst"] for each in package()["contents"]}
    unit = (ROOT / "deploy" / "systemd" / "sluicegate.service").read_text()
    (started,) = re.findall(r"^ExecStart=(\S+) serve --config (\S+)$", unit, re.MULTILINE)
    assert started[0] == f"/{script('build-deb')['HOME']}/bin/sluicegate"
    assert started[1] in places
    user = re.findall(r"^User=(\S+)$", unit, re.MULTILINE)
    assert "useradd --system" in (DEBIAN / "postinst").read_text()
    assert (DEBIAN / "postinst").read_text().count(f"nologin {user[0]}") == 1


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_the_scripts_of_the_debian_package_do_nothing_where_there_is_nothing_to_do(name: str) -> None:
    """dpkg also calls them to undo a step."""
    done = subprocess.run([DEBIAN / name, "abort-upgrade"], capture_output=True, text=True, env={}, check=False)
    if Path("/run/systemd/system").exists():
        pytest.skip("systemd runs here, and would be told")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("version", "changed"),
    [("", ["chgrp sluicegate /etc/sluicegate", "chmod 0750 /etc/sluicegate"]), ("0.1.0", [])],
)
def test_an_update_leaves_modes_and_a_deleted_configuration_to_the_operator(
    version: str, changed: list[str], tmp_path: Path
) -> None:
    """The first installation sets modes, of the configuration only if it is there."""
    if Path("/run/systemd/system").exists() or Path("/etc/sluicegate/gateway.yaml").exists():
        pytest.skip("systemd runs here, and would be told, or the package is installed")
    calls = tmp_path / "calls"
    for name in ("getent", "useradd", "chgrp", "chmod"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {calls}\n')
        (tmp_path / name).chmod(0o755)
    subprocess.run([DEBIAN / "postinst", "configure", version], env={"PATH": str(tmp_path)}, check=True)
    assert [each for each in calls.read_text().splitlines() if each.startswith("ch")] == changed


def test_without_a_program_that_builds_images_one_is_told_so(tmp_path: Path) -> None:
    """The client of Docker is there, and no engine answers it."""
    for name in ("bash", "sed", "dirname"):
        found = [Path(folder, name) for folder in os.defpath.split(":") if Path(folder, name).exists()]
        (tmp_path / name).symlink_to(found[0])
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    done = subprocess.run(
        [SCRIPTS / "build-image"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "nothing here builds images" in done.stderr


def test_the_image_is_built_of_the_containerfile_with_the_version_as_its_tag(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/called\n')
    (tmp_path / "docker").chmod(0o755)
    variables = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([SCRIPTS / "build-image"], env=variables, capture_output=True, check=True)
    file = "deploy/k8s/image/Containerfile"
    assert (ROOT / file).exists()
    (tag,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    called = (tmp_path / "called").read_text().splitlines()
    assert called == ["info", f"build --file {file} --tag sluicegate:{tag} ."]
