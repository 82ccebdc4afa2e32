"""A command on a pseudo-terminal: tests read what it draws and press keys."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import termios
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

DRAWN_S: Final = 60  # a cold start of Python, on a busy machine
READ_BYTES: Final = 65_536
SIZES: Final = ("LINES", "COLUMNS")  # would count for more than what the terminal says


class TerminalCommand:
    """Runs a command for the length of a `with` block, on a terminal of so many lines and columns."""

    def __init__(self, command: Sequence[str], *, lines: int, columns: int = 120) -> None:
        self._command = command
        self._size = (lines, columns)
        self._drawn = b""  # since somebody waited last

    def __enter__(self) -> Self:
        self._screen, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, self._size)
        inherited = {name: each for name, each in os.environ.items() if name not in SIZES}
        environment = {**inherited, "TERM": "xterm-256color"}
        # Ctrl-C ends what a terminal runs, also where the tests themselves were begun with it ignored.
        command = ["env", "--default-signal=INT", *self._command]
        self._process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
        os.close(terminal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(DRAWN_S)
        os.close(self._screen)

    def draws(self, text: str) -> None:
        """Wait until a text is drawn, from the last one that was waited for on."""
        while text.encode() not in self._drawn:
            readable, _, _ = select.select([self._screen], [], [], DRAWN_S)
            assert readable, (text, self._drawn)
            self._drawn += os.read(self._screen, READ_BYTES)
        self._drawn = self._drawn.partition(text.encode())[2]

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._screen, keys.encode())

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def ends(self) -> int:
        """Return the exit code."""
        with contextlib.suppress(OSError):  # how Linux says that nobody has the terminal open any more
            while os.read(self._screen, READ_BYTES):  # what is unread would keep it from ending
                pass
        return self._process.wait(DRAWN_S)
