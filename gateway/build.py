"""How this installation was built: its version, and whether its hot modules run compiled.

Which modules are compiled is decided in setup.py. A build falls back to the pure package with no more than a warning,
so `sluicegate version`, the logs at start and CI ask here what they really run.
"""

import importlib
import importlib.metadata
import importlib.util
import pkgutil
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final

ROOMS_WITH_COMPILED_MODULES: Final = ("messaging", "storage", "actors", "protocols")
WITNESS: Final = "messaging.batch"  # the build compiles all of its modules or none, so one can speak for all


def version() -> str:
    """Return the version installed, or "unknown" when the sources run without being installed."""
    try:
        return importlib.metadata.version("sluicegate")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def compiled() -> bool:
    """Tell whether the hot modules run as extensions."""
    return _is_extension(importlib.import_module(WITNESS).__file__)


def compiled_modules() -> list[str]:
    """Return the names of the modules that run, or would run when imported, as extensions. Sorted."""
    found: list[str] = []
    for room in ROOMS_WITH_COMPILED_MODULES:
        path = importlib.import_module(room).__path__
        for module in pkgutil.walk_packages(path, prefix=f"{room}."):
            spec = importlib.util.find_spec(module.name)
            if spec is not None and _is_extension(spec.origin):
                found.append(module.name)
    return sorted(found)


def _is_extension(path: str | None) -> bool:
    return path is not None and path.endswith(tuple(EXTENSION_SUFFIXES))
