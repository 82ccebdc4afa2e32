"""The process that brokers are forked from. `process` starts it, and is the other side.

It imports the broker and waits for orders on its socket. A fork serves the calls of the
test's process on a socket of its own. Both end when that process closes its end, or has ended.
"""

import asyncio
import gc
import os
import pickle
import random
import socket
import sys
from importlib import import_module
from typing import Final, NoReturn

from sluicegate.gateway.config.sections.observability import Log
from sluicegate.gateway.observability.logs import set_up_logging
from sluicegate.protocols.transport.loop import event_loop as socket_loop
from sluicegate.testing.errors import BrokerFailed, OperationRefused
from sluicegate.testing.running import wire
from sluicegate.testing.running.host import HostedBroker

# What a start imports late. A fork would import it again each time.
LATE: Final = ("concurrent.futures.thread", "encodings.idna", "sluicegate.gateway.operations.answers")


def main(fd: int) -> None:
    """Carry out the orders on a socket until the test's process has closed it, or has ended."""
    for module in LATE:
        import_module(module)
    gc.collect()
    gc.freeze()  # what is imported stays, and no broker looks through it
    gc.disable()
    orders = socket.socket(fileno=fd)
    while True:
        order, files, _, _ = socket.recv_fds(orders, wire.ORDER.size, 2)
        if len(order) < wire.ORDER.size:
            return
        kind, pid = wire.ORDER.unpack(order)
        if kind == wire.FORK:
            pid = os.fork()
            if pid == 0:
                orders.close()
                _be_a_broker(*files)
            for each in files:
                os.close(each)
            orders.sendall(wire.ANSWER.pack(pid))
        else:
            _, status = os.waitpid(pid, 0)
            orders.sendall(wire.ANSWER.pack(status))


def _be_a_broker(control_fd: int, log_fd: int) -> NoReturn:
    """Serve the calls of a test, and end the process."""
    for standard in (sys.stdout, sys.stderr):
        os.dup2(log_fd, standard.fileno())
    os.close(log_fd)
    status = 1
    try:
        gc.enable()
        random.seed()  # a fork has the state of the template
        set_up_logging(Log())
        socket_loop.run(_serve(socket.socket(fileno=control_fd)))
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)  # nothing of the template's may run again


async def _serve(control: socket.socket) -> None:
    """Carry out calls, one after the other, until the test hangs up."""
    hosted = HostedBroker()
    reader, writer = await asyncio.open_connection(sock=control)
    while True:
        try:
            [length] = wire.LENGTH.unpack(await reader.readexactly(wire.LENGTH.size))
            name, arguments = pickle.loads(await reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        writer.write(wire.framed(await _result_of(hosted, name, arguments)))
        await writer.drain()


async def _result_of(hosted: HostedBroker, name: str, arguments: tuple[object, ...]) -> tuple[bool, object]:
    try:
        return True, await hosted.call(name, arguments)
    except (BrokerFailed, OperationRefused, LookupError) as error:
        return False, error
    except Exception as error:  # of ours: the test is to hear of it, and the log has the traceback
        sys.excepthook(*sys.exc_info())
        return False, BrokerFailed(f"{name!r} failed: {error!r}")
