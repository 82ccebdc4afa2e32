"""The report of an import: what was taken, what differs in behaviour, and what could not be taken.

Invariant of a finished report: every setting of the source is in at least one of the three parts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, final

UNKNOWN: Final = "this importer does not know it"
_SECRET: Final = re.compile("pass|secret|token|psk", re.IGNORECASE)  # in the name of a setting whose value is not shown
_LOGIN: Final = re.compile(r"://[^\s/@]*@")  # of an address
_OPTION: Final = re.compile(r"([?&;][^=?&;\s]*(?:pass|secret|token|psk)[^=?&;\s]*=)[^&;\s\"']*", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Return whether the value of a setting is not to be shown, by its name."""
    return _SECRET.search(name) is not None


def without_login(text: str) -> str:
    """Return a text without the user names and passwords of its addresses, and the secrets of their options."""
    return _OPTION.sub(r"\1...", _LOGIN.sub("://...@", text))


class ImportFailed(Exception):
    """The source cannot be read. The text has file and line, what is wrong, and what is allowed."""

    def __init__(self, where: str, text: str) -> None:
        super().__init__(f"{where}: {without_login(text)}")


class Part(StrEnum):
    """One of the parts of a report."""

    TAKEN = "taken"
    DIFFERS = "differs"
    NOT_TAKEN = "not taken"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the source: where it is, and what it is for a reader."""

    where: str  # file and line, or the path in a document
    text: str

    @property
    def place(self) -> str:
        """Where it is, and what it is."""
        return f"{self.where}: {self.text}" if self.where and self.text else self.where or self.text


@dataclass(frozen=True, slots=True)
class Note:
    """What became of a setting."""

    part: Part
    setting: Setting
    text: str


@final
@dataclass(slots=True)
class Report:
    """The notes of an import, in the order in which they were made."""

    notes: list[Note] = field(default_factory=list)
    _noted: set[Setting] = field(default_factory=set)

    def taken(self, setting: Setting, text: str) -> None:
        """Note what a setting has become."""
        self._add(Part.TAKEN, setting, text)

    def differs(self, setting: Setting, text: str) -> None:
        """Note what is different here. A setting may be taken as well."""
        self._add(Part.DIFFERS, setting, text)

    def not_taken(self, setting: Setting, text: str) -> None:
        """Note why there is nothing like a setting here, and what to do."""
        self._add(Part.NOT_TAKEN, setting, text)

    def finish(self, settings: Iterable[Setting]) -> None:
        """Note all settings that are in no part yet as not taken."""
        for each in settings:
            if each not in self._noted:
                self.not_taken(each, UNKNOWN)

    def has(self, setting: Setting) -> bool:
        """Return whether a setting is in a part."""
        return setting in self._noted

    def part(self, part: Part) -> list[Note]:
        """Return the notes of one part."""
        return [each for each in self.notes if each.part is part]

    def lines(self) -> list[str]:
        """Return the report as text."""
        titles = {
            Part.TAKEN: "Taken",
            Part.DIFFERS: "Differs in behaviour",
            Part.NOT_TAKEN: "Could not be taken",
        }
        lines: list[str] = []
        for part, title in titles.items():
            notes = self.part(part)
            lines += ["", f"{title} ({len(notes)})"]
            lines += [without_login(f"  {each.setting.place}\n      {each.text}") for each in notes]
        return "\n".join(lines[1:]).split("\n")

    def to_dict(self) -> dict[str, list[dict[str, str]]]:
        """Return the report for programs."""
        return {
            part.value.replace(" ", "_"): [
                {
                    "where": each.setting.where,
                    "setting": without_login(each.setting.text),
                    "text": without_login(each.text),
                }
                for each in self.part(part)
            ]
            for part in Part
        }

    def _add(self, part: Part, setting: Setting, text: str) -> None:
        note = Note(part, setting, text)
        self._noted.add(setting)
        if note not in self.notes[-50:]:  # the same of neighbouring settings
            self.notes.append(note)
