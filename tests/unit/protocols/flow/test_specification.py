"""`docs/connect/flow-protocol.md` against the code: frame types, fields, codes, and every golden frame."""

import re
from pathlib import Path

from sluicegate.protocols.flow.codec import codes, fields
from sluicegate.protocols.flow.codec import frame as frames
from support.flow.golden import compressed_frames, golden_frames

PAGE = (Path(__file__).parents[4] / "docs" / "connect" / "flow-protocol.md").read_text()


def numbered_rows(after: str) -> dict[int, str]:
    """Return number and second cell of the rows of the first table behind a heading."""
    rows: dict[int, str] = {}
    for line in PAGE.split(after, 1)[1].splitlines():
        found = re.match(r"\| (0x[0-9a-f]+) \| ([^|]*) \|", line)
        if found:
            rows[int(found[1], 16)] = found[2].strip()
        elif rows:
            break
    return rows


def test_the_page_names_every_frame_type() -> None:
    assert numbered_rows("### Frame types") == frames.NAMES


def test_the_page_names_every_field() -> None:
    assert set(numbered_rows("### Fields")) == fields.KNOWN


def test_the_page_names_every_code() -> None:
    assert numbered_rows("## Errors") == codes.NAMES


def test_the_page_shows_every_golden_frame() -> None:
    shown = dict(re.findall(r"\| ([a-z-]+) \| `([0-9a-f]+)` \|", PAGE.split("## Every frame", 1)[1]))

    assert shown == {frame.name: frame.data.hex() for frame in golden_frames()}


def test_the_page_shows_every_compressed_frame() -> None:
    section = PAGE.split("## Compressed frames", 1)[1].split("## Every frame", 1)[0]
    shown = re.findall(r"\| ([a-z-]+) \| ([a-z -]+) \| `([0-9a-f]+)` \|", section)

    assert shown == [(frame.name, frame.says, frame.data.hex()) for frame in compressed_frames()]
