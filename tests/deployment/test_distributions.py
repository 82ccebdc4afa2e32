"""The distributions `sluicegate` and `sluicegate-client`: alone and together, in either order, one of them removed.

Both are built from the checkout, and installed with pip into virtual environments that have nothing else in them.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import copy2, copytree
from typing import Final
from zipfile import ZipFile

import pytest

from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = sorted(link.name for link in (ROOT / "sluicegate").iterdir() if link.is_symlink())
BUILT: Final = (
    *ROOMS,
    "sluicegate",
    "pyspark_sluicegate",
    "client",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
)
BROKER: Final = "sluicegate"
CLIENT: Final = "sluicegate-client"
PIP: Final = (sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check")
BEHIND: Final = "zz_behind.pth"
BUILD_SDIST: Final = """
import os, sys
from setuptools import build_meta
os.chdir(sys.argv[1])
build_meta.build_sdist(sys.argv[2])
"""

# An application, in a folder with modules of its own that have the names of the broker's.
PUBLISHES_AND_CONSUMES: Final = """
import asyncio, importlib.util, sys
import actors, gateway, messaging, pipeline, protocols, storage
assert {each.MINE for each in (actors, gateway, messaging, pipeline, protocols, storage)} == {"mine"}
import sluicegate

URL = sys.argv[1]

async def publish() -> None:
    async with sluicegate.Client(URL) as client, client.publisher() as publisher:
        await publisher.publish(sluicegate.Message(b"21.5", queue="q"))

asyncio.run(publish())
with sluicegate.BlockingClient(URL) as client, client.consumer("q") as consumer:
    delivery = consumer.receive(timeout_s=20)
    delivery.accept()
    print(delivery.payload.decode())
print([room for room in ("actors", "gateway", "storage") if importlib.util.find_spec(f"sluicegate.{room}")])
"""
TYPED: Final = """
from typing import assert_type
import sluicegate

async def publish(client: sluicegate.Client) -> None:
    async with client.publisher() as publisher:
        assert_type(publisher, sluicegate.Publisher)
        await publisher.publish(sluicegate.Message(b"21.5", topic=5))
"""
WHICH_IS_IMPORTED: Final = (
    "import sluicegate, os; print(sluicegate.Client.__name__, os.path.dirname(sluicegate.__file__))"
)


class Environment:
    """A virtual environment without pip: the tests' own pip installs into it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        self.site = next(folder.glob("lib/python*/site-packages"))

    def install(self, *wheels: Path) -> None:
        ran(*PIP, "--python", self.python, "install", "--no-index", "--no-deps", *wheels)

    def uninstall(self, distribution: str) -> None:
        ran(*PIP, "--python", self.python, "uninstall", "--yes", distribution)

    def run(self, *arguments: str | Path) -> str:
        return ran(self.python, *arguments)

    def add_what_the_broker_needs(self) -> None:
        """Let the environment see the distributions that the tests run with, behind its own."""
        (self.site / BEHIND).write_text(sysconfig.get_path("purelib") + "\n")

    def files(self) -> set[str]:
        """Return the files that distributions have in site-packages, without what Python and pip write there."""
        found = (path.relative_to(self.site) for path in self.site.rglob("*") if path.is_file())
        return own(path.as_posix() for path in found if path.suffix != ".pyc" and path.name != BEHIND)


def ran(*command: str | Path, **variables: str) -> str:
    """Run a command to its end, and return what it wrote. The path of the tests is not handed to it."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, so that nothing is written into the checkout itself."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in BUILT:
        if (ROOT / name).is_dir():
            copytree(ROOT / name, folder / name, symlinks=True)
        else:
            copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheels(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution, by its name, uncompiled."""
    folder = tmp_path_factory.mktemp("wheels")
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir")
    ran(*PIP, "wheel", *options, folder, checkout, checkout / "client", SLUICEGATE_PURE="1")
    return {path.name.partition("-")[0].replace("_", "-"): path for path in folder.iterdir()}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[GatewayProcess]:
    with gateway(tmp_path) as started:
        started.create_queue("q")
        yield started


def files_in(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def own(files: Iterable[str]) -> set[str]:
    """Return those of the files that are not about the distribution itself."""
    return {file for file in files if ".dist-info/" not in file}


def test_no_file_is_in_both_distributions(wheels: dict[str, Path]) -> None:
    """pip removes the files of what it uninstalls, whatever else has them."""
    assert files_in(wheels[BROKER]) & files_in(wheels[CLIENT]) == set()


def test_the_client_alone_works_in_an_application_with_modules_of_the_same_names(
    wheels: dict[str, Path], environment: Environment, broker: GatewayProcess, tmp_path: Path
) -> None:
    environment.install(wheels[CLIENT])
    application = tmp_path / "application"
    application.mkdir()
    for room in ROOMS:
        (application / f"{room}.py").write_text("MINE = 'mine'\n")
    (application / "main.py").write_text(PUBLISHES_AND_CONSUMES)
    assert environment.run(application / "main.py", broker.flow_url).split("\n") == ["21.5", "[]", ""]


def test_the_client_works_from_a_folder_on_the_path(wheels: dict[str, Path], tmp_path: Path) -> None:
    """`pip install --target`, as for functions in a cloud: Python reads no .pth file there."""
    folder = tmp_path / "target"
    ran(*PIP, "install", "--no-index", "--no-deps", "--target", folder, wheels[CLIENT])
    written = ran(sys.executable, "-S", "-c", WHICH_IS_IMPORTED, PYTHONPATH=str(folder))
    assert written.split() == ["Client", str(folder / "sluicegate_client" / "sluicegate")]


def test_type_checkers_see_the_types_of_the_client(
    wheels: dict[str, Path], environment: Environment, tmp_path: Path
) -> None:
    """The one error in the program is found, and no other: `topic` is a str."""
    program = tmp_path / "program.py"
    program.write_text(TYPED)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}")
    for distribution in (CLIENT, BROKER):
        environment.install(wheels[distribution])
        command = (*mypy, "--python-executable", str(environment.python), str(program))
        checked = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        assert checked.stdout.count("error:") == 1
        assert 'Argument "topic" to "Message" has incompatible type "int"' in checked.stdout


@pytest.mark.parametrize(
    ("order", "removed"), [((CLIENT, BROKER), BROKER), ((BROKER, CLIENT), CLIENT)], ids=["broker", "client"]
)
def test_each_works_when_the_other_was_installed_and_removed(
    wheels: dict[str, Path], environment: Environment, order: tuple[str, str], removed: str
) -> None:
    """Together, `import sluicegate` is the broker's."""
    for each in order:
        environment.install(wheels[each])
    environment.add_what_the_broker_needs()
    of_broker, of_client = environment.site / "sluicegate", environment.site / "sluicegate_client" / "sluicegate"
    assert environment.run("-c", WHICH_IS_IMPORTED).split() == ["Client", str(of_broker)]
    assert "not compiled" in environment.run("-m", "sluicegate", "--version")

    environment.uninstall(removed)
    (kept,) = {CLIENT, BROKER} - {removed}
    left = of_broker if kept == BROKER else of_client
    assert environment.run("-c", WHICH_IS_IMPORTED).split() == ["Client", str(left)]
    if kept == BROKER:
        assert "not compiled" in environment.run("-m", "sluicegate", "--version")
    assert environment.files() == own(files_in(wheels[kept]))


def test_a_wheel_of_the_sdist_is_that_of_the_checkout(wheels: dict[str, Path], checkout: Path, tmp_path: Path) -> None:
    """An sdist has the files themselves, in place of the links of a checkout."""
    ran(sys.executable, "-c", BUILD_SDIST, checkout / "client", tmp_path)
    (sdist,) = tmp_path.glob("sluicegate_client-*.tar.gz")
    ran(*PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, sdist)
    (wheel,) = tmp_path.glob("sluicegate_client-*.whl")
    assert files_in(wheel) == files_in(wheels[CLIENT])


def test_the_sdist_of_the_broker_has_what_its_wheel_is_built_of_and_nothing_else(
    wheels: dict[str, Path], checkout: Path, tmp_path: Path
) -> None:
    """Tests, benchmarks and pages stay in the repository. Links of the checkout are files."""
    ran(sys.executable, "-c", BUILD_SDIST, checkout, tmp_path)
    (sdist,) = tmp_path.glob("sluicegate-*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert [member.name for member in archive if member.issym() or member.islnk()] == []
        files = {member.name.partition("/")[2] for member in archive if member.isfile()}
    own_files = {file for file in files if not file.startswith("sluicegate.egg-info/")}
    assert own_files - own(files_in(wheels[BROKER])) == {
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
        "setup.cfg",
        "setup.py",
    }
    assert own(files_in(wheels[BROKER])) - own_files == set()


def test_the_wheel_of_the_broker_has_its_licence_and_says_that_it_is_typed(wheels: dict[str, Path]) -> None:
    with ZipFile(wheels[BROKER]) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
    wanted = {"sluicegate/py.typed", "pyspark_sluicegate/py.typed", metadata.replace("METADATA", "licenses/LICENSE")}
    assert wanted <= set(names)
    assert "Description-Content-Type: text/markdown" in text
    assert (ROOT / "README.md").read_text().strip() in text
