"""Loads the package `sluicegate` of the client library, from the folder `sluicegate_client` beside this file.

The broker's distribution has a package `sluicegate` in the same site-packages. Python prefers a package to a module of
the same name in one folder, so where the broker is installed this file is not loaded.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_FOLDER = os.path.join(os.path.dirname(__file__), "sluicegate_client")
_spec = PathFinder.find_spec(__name__, [_FOLDER])
if _spec is None or _spec.loader is None:
    raise ImportError(f"sluicegate-client is not installed completely: no package sluicegate in {_FOLDER}")

_package = sys.modules[__name__] = module_from_spec(_spec)  # `import` returns what stands there in the end
_spec.loader.exec_module(_package)
