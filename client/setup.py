"""The build of `sluicegate-client`: the client library, and those modules of the broker that it shares. All pure.

The broker's distribution, `sluicegate`, has the same modules, and pip lets no two distributions own one file. So those
of this one lie in a folder of their own:

    sluicegate.py                  loads the package below, unless the broker is installed
    sluicegate_client/sluicegate/  the package
    sluicegate_client.pth          shows the package to type checkers, which do not run sluicegate.py

`sluicegate_client/sluicegate` is a link to the package in the checkout.
"""

import shutil
from pathlib import Path
from typing import Final

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDER: Final = "sluicegate_client"
PACKAGE: Final = f"{FOLDER}.sluicegate"

# Patterns below the package; the __init__.py of each folder comes with them. tests/house/test_import_graph.py compares
# them with what the library imports.
MODULES: Final = (
    "client.py",  # the public names
    "messaging/bulk/durable_cursors.py",
    "messaging/message/headers.py",
    "messaging/message/outcomes.py",
    "messaging/message/ranges.py",
    "protocols/flow/client/**/*.py",
    "protocols/flow/codec/**/*.py",
    "protocols/flow/engine/*.py",
    "protocols/transport/interface.py",
    "protocols/transport/loop/uninitialised_bytes.py",
)


def modules() -> list[Path]:
    """Return the files of the package, relative to it: what the patterns match, and each __init__.py above it."""
    root = Path(__file__).resolve().parent / PACKAGE.replace(".", "/")
    chosen = {path.relative_to(root) for pattern in MODULES for path in root.glob(pattern)}
    return sorted(chosen | {folder / "__init__.py" for path in chosen for folder in path.parents})


class BuildPy(build_py):
    """Copies the modules of the list, in place of all modules of each package, and writes the .pth file."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return (package, module, file) of the modules in one package."""
        folder = Path(*package.split(".")[2:])
        here = [path for path in modules() if path.parent == folder]
        return [(package, path.stem, str(Path(package_dir, path.name))) for path in here]

    def run(self) -> None:
        """Copy modules into an empty folder, and write the .pth file, whose line is a folder that joins the path."""
        shutil.rmtree(self.build_lib, ignore_errors=True)  # an earlier build may have left modules that are gone
        super().run()
        Path(self.build_lib, f"{FOLDER}.pth").write_text(f"{FOLDER}\n")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Return the files of the build, the .pth file with them."""
        return [*super().get_outputs(include_bytecode), str(Path(self.build_lib, f"{FOLDER}.pth"))]


if __name__ == "__main__":
    setup(
        packages=sorted({".".join((PACKAGE, *path.parent.parts)) for path in modules()}),
        package_data={PACKAGE: ["py.typed"]},
        py_modules=["sluicegate"],
        cmdclass={"build_py": BuildPy},
    )
