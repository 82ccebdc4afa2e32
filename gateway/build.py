"""The release of this installation, and whether its hot modules run compiled.

setup.py decides which modules are compiled. A build falls back to the pure package with only a warning, so `sluicegate
--version`, the gateway at its start, and CI check here what they really run.
"""

import importlib
import importlib.util
import pkgutil
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from typing import Final

# The release that runs, as its installed package says.


def _installed() -> str:
    try:
        return version("sluicegate")
    except PackageNotFoundError:
        return "0+source"  # run from a checkout that was never installed


VERSION: Final = _installed()


ROOMS_WITH_COMPILED_MODULES: Final = ("messaging", "storage", "actors", "protocols")
# The build compiles all of its modules or none, so one can speak for all.
WITNESS: Final = "sluicegate.messaging.message.batch"


def release() -> str:
    """Return the release for people: `0.1.0 (compiled)`, or `(not compiled)`, which is several times slower."""
    return f"{VERSION} ({'compiled' if compiled() else 'not compiled'})"


def compiled() -> bool:
    """Tell whether the hot modules run as extensions."""
    spec = importlib.util.find_spec(WITNESS)  # which does not import it
    return spec is not None and _is_extension(spec.origin)


def compiled_modules() -> list[str]:
    """Return the names of the modules that run, or would run when imported, as extensions. Sorted."""
    found: list[str] = []
    for room in ROOMS_WITH_COMPILED_MODULES:
        path = importlib.import_module(f"sluicegate.{room}").__path__
        for module in pkgutil.walk_packages(path, prefix=f"sluicegate.{room}."):
            spec = importlib.util.find_spec(module.name)
            if spec is not None and _is_extension(spec.origin):
                found.append(module.name)
    return sorted(found)


def _is_extension(path: str | None) -> bool:
    return path is not None and path.endswith(tuple(EXTENSION_SUFFIXES))
