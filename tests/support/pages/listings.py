"""The listings of a page, in order, as what its reader does with them.

A listing says by its language what it is, and by `title` where:

- `sh` is typed into a terminal: the one of the title, or the reader's first. A titled one may run on.
- `console` has lines that are typed, each behind `$ `, and what the terminal shows then.
- `text` is what a terminal then shows, since it was last looked at: the one of the title, or the last one typed into.
  `...` stands for what varies: within a line, or as a line of its own for any lines.
- Any other language with a title is a file, which the reader saves under this name.
- `yaml`, `toml`, `json` and `python` without a title are read: a part of a configuration, the file of a Spark job, a
  document, a part of a program.

Comments say what prose tells the reader to do in words:

- `<!-- Ctrl-C: TITLE -->` ends what runs in a terminal;
- `<!-- again -->` before `sh` or `console`: the reader looks until it shows what follows;
- `<!-- fails -->` before `sh`: it ends with an error, which the page shows;
- `<!-- runs on -->` before `sh`: it has a terminal of its own, and does not end by itself;
- `<!-- not here -->` before `sh`: a test cannot do it, such as installing a release;
- `<!-- form -->` before any other: a form, such as that of a frame, or of another program's file; nobody types it;
- `<!-- first:`, lines, and `-->`: commands that a test types before the next listing, in the same shell, for what the
  page takes for granted.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

STEP: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^(?P=indent)```$"
    r"|^ *<!-- first:\n(?P<first>.*?)^ *-->$|^ *<!-- (?P<comment>[^\n]*?) -->$",
    re.DOTALL | re.MULTILINE,
)
NOTES: Final = frozenset({"again", "fails", "not here", "runs on", "form"})
READ: Final = frozenset({"yaml", "toml", "json", "python"})


@dataclass(frozen=True, slots=True)
class Typed:
    """Commands that the reader types."""

    terminal: str
    commands: str
    again: bool = False
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """What a terminal shows since it was last looked at."""

    terminal: str
    text: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A file that the reader saves."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Read:
    """What the reader sees of a configuration, a document or a program."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Ctrl-C in a terminal."""

    terminal: str


Step = Typed | Shown | Saved | Read | Interrupted


def steps(page: str) -> Iterator[Step]:
    """Yield what the reader of a page does. Raises ValueError for a listing that says nothing of this."""
    terminal = ""
    first = ""
    notes: set[str] = set()
    for number, match in enumerate(STEP.finditer(page)):
        language, title, comment = match.group("language", "title", "comment")
        if comment is not None:
            if comment.startswith("Ctrl-C: "):
                yield Interrupted(comment.removeprefix("Ctrl-C: "))
            else:
                notes.add(comment)
            continue
        if match["first"] is not None:
            first = textwrap.dedent(match["first"])
            continue
        if notes - NOTES:
            raise ValueError(f"unknown comments before a listing: {notes}")
        text = textwrap.dedent(match["text"])
        if language in ("sh", "console"):
            terminal = title or (f"listing {number}" if "runs on" in notes else "")
        if "form" not in notes and "not here" not in notes:
            yield from _done(match[0], language, title or "", first, text, terminal, notes)
        first = ""
        notes = set()


def _done(
    listing: str, language: str, title: str, first: str, text: str, terminal: str, notes: set[str]
) -> Iterator[Step]:
    if language == "sh":
        yield Typed(terminal, first + text, again="again" in notes, fails="fails" in notes)
    elif language == "console":
        yield from _session(terminal, first, text, again="again" in notes)
    elif language == "text":
        yield Shown(title or terminal, text)
    elif title:
        yield Saved(title, text)
    elif language in READ:
        yield Read(language, text)
    else:
        raise ValueError(f"a listing is neither typed, shown, saved nor read: {listing}")


def _session(terminal: str, first: str, text: str, *, again: bool) -> Iterator[Step]:
    """Yield what is typed and shown by turns."""
    for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        typed, _, shown = re.sub(r"\\\n", " ", each).partition("\n")
        yield Typed(terminal, f"{first}{typed}\n", again=again)
        if shown.strip():
            yield Shown(terminal, shown.strip("\n"))
        first = ""


def shows(expected: str, actual: str) -> bool:
    """Tell whether a terminal shows a text, up to the number of blanks."""
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"\s+".join(_word(each) for each in line.split()) + r"[ \t]*\n"
    return re.fullmatch(pattern, "".join(f"{line.lstrip()}\n" for line in actual.splitlines())) is not None


def _word(word: str) -> str:
    return r"\S.*?".join(re.escape(each) for each in word.split("..."))
