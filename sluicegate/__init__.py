"""Sluicegate: a message broker, and the client library that Python programs import by this name.

`import sluicegate` loads nothing else: the names of `sluicegate.client` are loaded when they are first used, so that
the broker's own modules, which live below this package, never load the client library. The folders below are links to
those of the same names at the top of the repository.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicegate.client import *  # noqa: F403  # with its __all__
else:
    from importlib import import_module

    def __getattr__(name: str) -> object:
        """Return a public name of the client library, or its `__all__` (PEP 562)."""
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        client = import_module("sluicegate.client")
        if name != "__all__" and name not in client.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(client, name)

    def __dir__() -> list[str]:
        """Return the module's names and those of the client library."""
        return sorted({*globals(), *import_module("sluicegate.client").__all__})
