"""The namespaces in which rounds run: all or none of them."""

import subprocess

import pytest

from rounds.network import Namespaces


def test_what_cannot_be_made_as_a_whole_leaves_nothing() -> None:
    if not Namespaces.is_possible():
        pytest.skip("it needs the right to make network namespaces")
    namespaces = Namespaces(["a"], ["a-name-too-long-for-a-port"])
    with pytest.raises(subprocess.CalledProcessError), namespaces:
        pass
    made = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    assert namespaces.begins_with("a")[-1] not in made
    ports = subprocess.run(["ip", "link"], check=True, capture_output=True, text=True).stdout
    assert namespaces._bridge() not in ports
