"""rhea as the interop tests use it: a node process that executes one command after another.

Every command gets one answer when it is done, so a test that has the answer need not wait any more.
"""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from support.processes.foreign_programs import node_modules, program

SCRIPT: Final = Path(__file__).with_suffix(".js")
END_S: Final = 20


class RheaClient:
    """One connection. An answer that never comes is ended by the time limit of the test."""

    def __init__(self, container_id: str, **task: Any) -> None:
        """`task`: host, port and ca, or websocket; reconnect; options of rhea."""
        environment = {**os.environ, "NODE_PATH": str(node_modules("rhea"))}
        self._process = subprocess.Popen(
            [program("node"), str(SCRIPT), json.dumps({"id": container_id, "host": "127.0.0.1", **task})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.first_word = self._answer()

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Carry out a command, and return the answer to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def send(self, address: str | None, *messages: dict[str, Any], presettled: bool = False) -> list[str]:
        """Send messages, and return the outcome of each."""
        answer = self.ask("send", address=address, messages=messages, presettled=presettled)
        outcomes: list[str] = answer["outcomes"]
        return outcomes

    def attach(self, name: str, address: str, **source: Any) -> dict[str, Any]:
        """Attach a receiver without credit."""
        return self.ask("attach", name=name, source={"address": address, **source})

    def receive(self, name: str, count: int, *outcomes: str, credit: int = 0) -> list[dict[str, Any]]:
        """Return so many messages, settled as given; the default is accepted."""
        answer = self.ask("receive", name=name, count=count, outcomes=outcomes, credit=credit or count)
        messages: list[dict[str, Any]] = answer["messages"]
        return messages

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"rhea is gone, exit code {self._process.wait(END_S)}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_S)
            raise
