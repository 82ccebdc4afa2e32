"""A full-screen view that is redrawn at an interval, and scrolls where it does not fit."""

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.segment import Segment, Segments
from rich.text import Text

KEY_BYTES_MAX: Final = 1024  # read at once: a key may repeat
KEY: Final = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)  # the characters of one key press
# Key -> lines to scroll (LINES), or screens (PAGES).
LINES: Final = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
PAGES: Final = {" ": 1, "f": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
QUIT: Final = "q"


def watch(console: Console, render: Callable[[], RenderableType], interval_s: float) -> None:
    """Show what `render` returns, until `q`. If it does not fit, the last line of the terminal explains the keys."""
    first = 0
    with _keyboard() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            content = render()
            due_s = time.monotonic() + interval_s
            while True:
                lines = console.render_lines(content, pad=False)
                page = max(console.height - 1, 1)  # the last line explains the keys
                first = max(0, min(first, len(lines) - page)) if len(lines) > console.height else 0
                live.update(_part(lines, first, page, console.height), refresh=True)
                wait_s = due_s - time.monotonic()
                if wait_s <= 0:
                    break
                for key in KEY.findall(pressed(wait_s)):
                    if key == QUIT:
                        return
                    first += LINES.get(key, 0) + page * PAGES.get(key, 0)


def _part(lines: list[list[Segment]], first: int, page: int, height: int) -> RenderableType:
    """Return the lines from `first` on that fit."""
    if len(lines) <= height:
        return _joined(lines)
    last = min(first + page, len(lines))
    hint = Text(f"lines {first + 1} to {last} of {len(lines)}: arrows and space scroll, q quits", "reverse")
    return Group(_joined(lines[first:last]), hint)


def _joined(lines: list[list[Segment]]) -> Segments:
    return Segments([each for line in lines for each in (*line, Segment.line())])


@contextmanager
def _keyboard() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits up to a number of seconds for key presses and returns their characters."""
    if not sys.stdin.isatty():
        yield _no_keys
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)  # keys are read one by one without echo; Ctrl-C still interrupts

    def pressed(within_s: float) -> str:
        readable, _, _ = select.select([terminal], [], [], max(within_s, 0))
        if not readable:
            return ""
        return os.read(terminal, KEY_BYTES_MAX).decode(errors="replace") or QUIT  # end of input

    try:
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _no_keys(within_s: float) -> str:
    time.sleep(max(within_s, 0))
    return ""
