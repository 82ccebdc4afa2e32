"""Configuration files of other makers, as their packages bring them: each becomes a configuration that is valid."""

import zipfile
from pathlib import Path

import pytest

from sluicegate.gateway.importing.activemq import import_activemq
from sluicegate.gateway.importing.report import ImportFailed
from support.foreign.brokers import ActiveMq
from support.importing.sources import loaded

FILES_MIN = 100  # of the test data of ActiveMQ
TWO_BROKERS = "allowed: one"

pytestmark = [pytest.mark.interop]


def configurations(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the configurations of brokers in a jar, by their paths."""
    texts = {name: archive.read(name).decode(errors="replace") for name in archive.namelist() if name.endswith(".xml")}
    return {name: text for name, text in texts.items() if "<broker" in text or ":broker" in text}


def test_each_configuration_of_activemq_is_taken_or_refused_in_words(tmp_path: Path) -> None:
    with zipfile.ZipFile(ActiveMq.test_data()) as archive:
        found = configurations(archive)
    assert len(found) > FILES_MIN
    refused = []
    for number, (name, text) in enumerate(found.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            imported = import_activemq(name, text, node="new", folder=str(folder))
        except ImportFailed as problem:
            refused.append(str(problem))
            continue
        loaded(imported, folder)
        assert imported.report.notes
    assert all(TWO_BROKERS in each for each in refused), refused
    assert len(refused) < len(found) // 10
