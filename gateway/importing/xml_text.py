"""Read XML as elements that know their lines, and which of their attributes were looked at."""

import xml.parsers.expat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, final

from sluicegate.gateway.importing.report import UNKNOWN, ImportFailed, Report, Setting, is_secret

DEPTH_MAX: Final = 100
ELEMENTS_MAX: Final = 200_000


@final
@dataclass(slots=True)
class Element:
    """One element, with its names without namespaces."""

    file: str
    line: int
    name: str
    attributes: dict[str, str]
    children: list["Element"] = field(default_factory=list)
    text: str = ""
    is_noted: bool = False
    looked_at: set[str] = field(default_factory=set)

    def get(self, name: str, default: str = "") -> str:
        """Return an attribute; it counts as a part of what its element is called."""
        self.looked_at.add(name)
        return self.attributes.get(name, default)

    def setting(self, attribute: str = "") -> Setting:
        """Return the element, or one of its attributes, as it stands in the report."""
        where = f"{self.file}:{self.line}"
        if attribute:
            self.looked_at.add(attribute)
            names = [attribute, *[self.attributes.get(name, "") for name in ("name", "key") if attribute == "value"]]
            value = "..." if any(is_secret(name) for name in names) else self.attributes.get(attribute, "")
            return Setting(where, f'<{self._called()}> {attribute}="{value}"')
        self.is_noted = True
        return Setting(where, f"<{self._called()}>")

    def note(self, how: Callable[[Setting, str], None], text: str) -> None:
        """Note the element and all that is in it: `how` is the part of the report."""
        how(self.setting(), text)
        for attribute in self.attributes:
            if attribute not in self.looked_at:
                how(self.setting(attribute), text)
        for each in self.children:
            each.note(how, text)

    def all(self, name: str) -> Iterator["Element"]:
        """Yield the elements of a name in this one, at any depth."""
        for each in self.children:
            if each.name == name:
                yield each
            yield from each.all(name)

    def finish(self, report: Report) -> None:
        """Note what is in no part of the report: elements, and attributes of those that are."""
        for each in self.children:
            own = [name for name in each.attributes if name not in each.looked_at]
            if not each.is_noted and not each.children:
                report.not_taken(each.setting(), UNKNOWN)
            for name in own:
                report.not_taken(each.setting(name), UNKNOWN)
            each.finish(report)

    def _called(self) -> str:
        for name in ("queue", "topic", "physicalName", "name", "username", "group"):
            if self.attributes.get(name):
                return f'{self.name} {name}="{self.attributes[name]}"'
        return self.name


@final
class _Builder:
    def __init__(self, file: str) -> None:
        self.root = Element(file, 0, "", {})
        self.parser = xml.parsers.expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._entity
        self._open = [self.root]
        self._count = 0

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) > DEPTH_MAX or self._count > ELEMENTS_MAX:
            raise ImportFailed(self._where(), f"more than {ELEMENTS_MAX} elements, or {DEPTH_MAX} levels")
        own = {key.rpartition(" ")[2]: value for key, value in attributes.items() if "XMLSchema-instance" not in key}
        made = Element(self.root.file, self.parser.CurrentLineNumber, name.rpartition(" ")[2], own)
        self._open[-1].children.append(made)
        self._open.append(made)

    def _end(self, name: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        self._open[-1].text += text

    def _entity(self, *declared: object) -> None:
        """Refuse entities: a few of them can stand for more text than there is memory."""
        raise ImportFailed(self._where(), "the document declares entities; allowed: the text itself")

    def _where(self) -> str:
        return f"{self.root.file}:{self.parser.CurrentLineNumber}"


def read_xml(text: str, file: str) -> Element:
    """Return an element without a name that has the document's root. Raises ImportFailed."""
    builder = _Builder(file)
    try:
        builder.parser.Parse(text, True)
    except xml.parsers.expat.ExpatError as problem:
        reason = xml.parsers.expat.ErrorString(problem.code)
        raise ImportFailed(f"{file}:{problem.lineno}", f"this is not XML: {reason}") from None
    return builder.root
