"""The list of tests that need a single broker names tests that there are."""

from pathlib import Path

import pytest

from support.processes.one_broker import ONE_BROKER
from support.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("entry", ONE_BROKER)
def test_an_exception_from_several_brokers_is_a_test_that_exists(entry: str) -> None:
    file, _, test = entry.partition("::")
    functions = [getattr(each, "name", "") for each in syntax_of(ROOT / file).body]
    assert not test or test in functions
    assert ONE_BROKER[entry]
