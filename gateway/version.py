"""The release that runs, as its installed package says."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final


def _installed() -> str:
    try:
        return version("sluicegate")
    except PackageNotFoundError:
        return "0+source"  # run from a checkout that was never installed


VERSION: Final = _installed()
