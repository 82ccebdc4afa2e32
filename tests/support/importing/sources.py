"""Texts in the place of files, and the checks of what an import wrote."""

from pathlib import Path

from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.importing.imported import PASSWORDS, Imported
from sluicegate.gateway.importing.report import Part
from sluicegate.gateway.importing.usable import switch_off_unusable


class Texts:
    """The files of a source, in memory."""

    def __init__(self, **files: str) -> None:
        self._files = {name.replace("__", "/"): text for name, text in files.items()}

    def text(self, path: str) -> str:
        if path not in self._files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self._files[path]

    def names(self, folder: str) -> list[str]:
        found = [name.removeprefix(f"{folder}/") for name in self._files if name.startswith(f"{folder}/")]
        if not found:
            raise FileNotFoundError(2, "No such file or directory", folder)
        return found


def loaded(imported: Imported, folder: Path) -> Config:
    """Write what was imported, and return it as `check-config` reads it."""
    assert imported.secrets.folder == str(folder)
    switch_off_unusable(imported)
    (folder / PASSWORDS).mkdir(exist_ok=True)
    for name, secret in imported.secrets.lines.items():
        (folder / name).write_text(f"{secret}\n")
    file = folder / "sluicegate.yaml"
    file.write_text(imported.yaml_text("a test"))
    return load(file)


def notes(imported: Imported, part: Part) -> dict[str, str]:
    """Return the texts of one part of the report by what they are about; several are joined."""
    found: dict[str, str] = {}
    for note in imported.report.part(part):
        key = note.setting.text or note.setting.where
        found[key] = f"{found[key]}; {note.text}" if key in found else note.text
    return found
