"""A broker in a process of its own, seen from the test's side, and the template that it is forked from.

Importing the broker takes a hundred times as long as starting it. So one process, the template, imports it once, and
each broker is a fork of that process, which has neither threads nor sockets of its own. The test's process, which may
have both, is never forked. All of them end when the test's process does, however that ends.
"""

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from sluicegate.testing.errors import BrokerFailed
from sluicegate.testing.running import wire

CALL_S: Final = 60.0  # for a call to be carried out
# It finds modules where this process does. -P: the working directory must not hide what is installed.
PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from {module} import main; main({fd})"
MODULE: Final = "sluicegate.testing.running.template"

_template_lock: Final = threading.Lock()
_template: "Template | None" = None


class Template:
    """The process that brokers are forked from. It lives as long as this one."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        # A session of its own: Ctrl-C in a terminal is for the test's process, which ends the others.
        path = [each for each in sys.path if isinstance(each, str)]  # Python ignores all else in it
        program = PROGRAM.format(path=path, module=MODULE, fd=its.fileno())
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            start_new_session=True,
        )
        its.close()
        self._socket = ours
        self._lock = threading.Lock()
        self.owner = os.getpid()  # a fork of the test's process has its own

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def end(self) -> None:
        """End the process, with the one that has started it; a fork of that one ends without."""
        if self.owner == os.getpid():
            self._kill()
            self._errors.close()

    def fork(self, control: socket.socket, log_fd: int) -> int:
        """Fork a broker that answers on `control` and writes to a log; return its process id. Raises BrokerFailed."""
        with self._lock:
            try:
                socket.send_fds(self._socket, [wire.ORDER.pack(wire.FORK, 0)], [control.fileno(), log_fd])
                return self._answer()
            except OSError:
                raise BrokerFailed(f"no process can be made for it\n{self._said()}") from None

    def reap(self, pid: int) -> None:
        """Wait for the end of a broker; all that it had open is closed then. None waits when this process has ended."""
        with self._lock:
            if self.is_running:
                self._socket.sendall(wire.ORDER.pack(wire.REAP, pid))
                self._answer()

    def _answer(self) -> int:
        try:
            answer = self._socket.recv(wire.ANSWER.size, socket.MSG_WAITALL)
        except BaseException:
            self._kill()  # whoever asks next would get this answer
            raise
        if len(answer) < wire.ANSWER.size:
            raise BrokerFailed(f"the process that brokers are forked from has ended\n{self._said()}")
        [number] = wire.ANSWER.unpack(answer)
        return int(number)

    def _kill(self) -> None:
        self._socket.close()
        self._process.kill()  # it may be importing still, and has nothing to lose
        self._process.wait()

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")


def template() -> Template:
    """Return the template of this process; start it, if there is none. It imports the broker meanwhile."""
    global _template
    with _template_lock:
        if _template is None or _template.owner != os.getpid() or not _template.is_running:
            _template = Template()
            atexit.register(_template.end)
        return _template


class BrokerProcess:
    """A process with a broker."""

    def __init__(self, log: Path) -> None:
        """Fork it. What it writes is appended to `log`. Raises BrokerFailed."""
        self._template = template()
        self._socket, its = socket.socketpair()
        with its, log.open("ab") as output:
            try:
                self.pid = self._template.fork(its, output.fileno())
            except BaseException:
                self._socket.close()
                raise
        self._socket.settimeout(CALL_S)
        self._lock = threading.Lock()
        self._is_over = False

    def call(self, name: str, *arguments: object) -> object:
        """Have the broker carry out a call, and wait for it. Raises BrokerFailed and OperationRefused."""
        with self._lock:
            if self._is_over:
                raise BrokerFailed("its process has ended")
            try:
                self._socket.sendall(wire.framed((name, arguments)))
                is_done, result = pickle.loads(self._receive(wire.LENGTH.unpack(self._receive(wire.LENGTH.size))[0]))
            except TimeoutError:
                self._kill()  # it would not hear that we hang up
                raise BrokerFailed(f"{name!r} was not carried out within {CALL_S:g} s, and it was killed") from None
            except OSError:
                self._over()
                raise BrokerFailed("its process has ended") from None
            except BaseException:  # Ctrl-C, or the end of a test's time
                self._kill()  # whoever calls next would get the answer to this call
                raise
        if is_done:
            return result
        assert isinstance(result, Exception), "as `template` says"
        raise result

    def crash(self) -> None:
        """Kill the process."""
        with self._lock:
            self._kill()

    def end(self) -> None:
        """End the process. Its broker is stopped."""
        with self._lock:
            self._over()

    def _kill(self) -> None:
        if not self._is_over:
            with suppress(ProcessLookupError):  # it has ended, and so has the template that would have kept its id
                os.kill(self.pid, signal.SIGKILL)
            self._over()

    def _over(self) -> None:
        """Hang up, at which the process ends, and wait until it has."""
        if not self._is_over:
            self._is_over = True
            self._socket.close()
            self._template.reap(self.pid)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            if not piece:
                raise ConnectionError("it has hung up")
            received += piece
        return bytes(received)
