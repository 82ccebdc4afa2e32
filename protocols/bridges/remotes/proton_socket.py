"""Proton's protocol engine on a socket of ours.

Proton's own loop (`proton.reactor.Container`) makes an object and several calls of every event. This one serves one
connection, and hands events on as they are. TLS is Python's, as for all other connections: Proton sees plain bytes.
"""

import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, final

from cproton import isnull, pn_collector_peek, pn_collector_pop, pn_event_type
from proton import SASL, Collector, Connection, Transport, TransportException

from sluicegate.protocols.bridges.remote import RemoteFailed
from sluicegate.protocols.bridges.remotes.connecting import Connector
from sluicegate.protocols.bridges.remotes.sockets import READ_BYTES, TURN_BYTES_MAX, Waker, new_selector, why
from sluicegate.protocols.bridges.settings import RemoteSettings

FRAME_BYTES_MAX: Final = 65_536

_UNAUTHORIZED: Final = "amqp:unauthorized-access"
VIRTUAL_HOST: Final = "vhost:"  # how RabbitMQ and Sluicegate are told of a virtual host in `hostname` of open


@final
class ProtonSocket:
    """One connection: a socket, and Proton's engine behind it. For one thread."""

    def __init__(self, remote: RemoteSettings) -> None:
        """Raises RemoteFailed: the system has no more sockets."""
        self.connection: Any = Connection()
        self.transport: Any = Transport(Transport.CLIENT)
        self.is_ended = False  # the foreign broker has closed the socket
        self._remote = remote
        self._collector: Any = Collector()
        self._events: Any = self._collector._impl
        self._sasl: Any = None
        self._selector = new_selector()
        self.waker = Waker()
        self._socket: socket.socket | None = None
        self._is_readable = False  # the socket, or the TLS above it
        self._is_full = False  # the socket takes no more for now
        self._deadline_s = 0.0  # of Proton's heartbeats; 0: none

    def open(self, connector: Connector, is_closed: Callable[[], bool]) -> None:
        """Connect, and begin the protocol. Raises RemoteFailed and LineClosed."""
        sock = self._socket = connector.connect(self.waker, is_closed)
        try:
            password = self._remote.current_password()
        except ValueError as error:  # the file is being replaced
            raise RemoteFailed(str(error)) from None
        self._selector.register(self.waker.socket, selectors.EVENT_READ)
        self._selector.register(sock, selectors.EVENT_READ)
        self._begin(password)

    def _begin(self, password: str) -> None:
        remote, connection, transport = self._remote, self.connection, self.transport
        connection.collect(self._collector)
        connection.container = remote.client_id
        connection.hostname = VIRTUAL_HOST + remote.message_vpn if remote.message_vpn else remote.host
        mechanism = "ANONYMOUS"
        if remote.username:
            connection.user, connection.password = remote.username, password
            mechanism = "PLAIN"
        elif remote.tls is not None and remote.tls.certificate_file is not None:
            mechanism = "EXTERNAL"
        sasl = self._sasl = transport.sasl()
        sasl.allowed_mechs(mechanism)
        sasl.allow_insecure_mechs = True  # Proton does not know of the TLS, and whoever configures none wants none
        transport.idle_timeout = remote.keep_alive_s
        transport.max_frame_size = FRAME_BYTES_MAX
        transport.bind(connection)
        connection.open()

    def close(self) -> None:
        """Close the socket."""
        self._selector.close()
        self.waker.close()
        if self._socket is not None:
            self._socket.close()

    # --- a turn: wait, events, whatever the caller does, write ---

    def wait(self, timeout_s: float) -> None:
        """Wait for the socket or for `waker`, at most so long, and read what came. Raises RemoteFailed."""
        if self._is_readable:
            timeout_s = 0.0
        elif self._deadline_s:
            timeout_s = max(0.0, min(timeout_s, self._deadline_s - time.monotonic()))
        is_readable = self._is_readable
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self.waker.socket:
                self.waker.clear()
            else:
                is_readable = True
        if is_readable:
            self._read()

    def _read(self) -> None:
        assert self._socket is not None, "it is open"
        transport = self.transport
        self._is_readable = True
        taken = 0
        try:
            while taken < TURN_BYTES_MAX:
                capacity = transport.capacity()
                if capacity <= 0:  # Proton has ended the connection: its reason is among the events
                    self._is_readable = False
                    return
                data = self._socket.recv(min(capacity, READ_BYTES))
                if not data:
                    self._is_readable = False
                    self.is_ended = True
                    transport.close_tail()
                    return
                transport.push(data)
                taken += len(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._is_readable = False
        except TransportException:
            self._is_readable = False  # its reason is the transport's condition
        except OSError as error:
            raise RemoteFailed(f"the connection was lost: {why(error)}") from None

    def events(self) -> Iterator[tuple[int, Any]]:
        """Yield types and events, as Proton's C library has them."""
        events = self._events
        while True:
            event = pn_collector_peek(events)
            if isnull(event):
                return
            yield pn_event_type(event), event
            pn_collector_pop(events)

    def write(self) -> bool:
        """Write what there is; return whether all is written. Raises RemoteFailed."""
        assert self._socket is not None, "it is open"
        transport = self.transport
        self._deadline_s = transport.tick(time.monotonic())
        is_full = False
        written = 0
        try:
            while (size := transport.pending()) > 0:
                if written >= TURN_BYTES_MAX:  # it is not full: the next turn goes on
                    is_full = True
                    break
                sent = self._socket.send(transport.peek(min(size, READ_BYTES)))
                transport.pop(sent)
                written += sent
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            is_full = True
        except TransportException as error:
            raise RemoteFailed(f"Proton: {error}") from None
        except OSError as error:
            raise RemoteFailed(f"the connection was lost: {why(error)}") from None
        if is_full != self._is_full:
            self._is_full = is_full
            wanted = selectors.EVENT_READ | selectors.EVENT_WRITE if is_full else selectors.EVENT_READ
            self._selector.modify(self._socket, wanted)
        return not is_full

    @property
    def was_refused(self) -> bool:
        """Whether the foreign broker has refused the sign-in."""
        return self._sasl.outcome not in (None, SASL.OK)

    @property
    def failure(self) -> str:
        """Why Proton has ended the connection; empty: it has not."""
        condition = self.transport.condition
        if self.was_refused and (condition is None or condition.name != _UNAUTHORIZED):
            return f"{_UNAUTHORIZED}: SASL outcome {self._sasl.outcome}"  # the end of the socket came with it
        if condition is None:
            return ""
        return f"{condition.name}: {condition.description}" if condition.description else str(condition.name)
