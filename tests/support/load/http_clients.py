"""An HTTP publisher and an HTTP worker among the clients of `mqtt_clients`: requests on a bare socket."""

import base64
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import httptools
import orjson

from support.load.mqtt_clients import Account, NumberedPublisher, Received, Sent, WireClient, dialled

OK, NO_CONTENT, NOT_FOUND = 200, 204, 404
READ, SETTLE = "read", "settle"
WAIT_S: Final = 1  # of a poll: what holds everything up at the end


class Answers:
    """Cuts what comes into answers."""

    def __init__(self) -> None:
        self.whole: deque[tuple[int, dict[str, str], bytes]] = deque()  # status, headers, body
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body = b""

    def feed(self, data: bytes) -> None:
        """Take in bytes, cut anywhere."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._headers, self._body = {}, b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.whole.append((self._parser.get_status_code(), self._headers, self._body))


def read_answers(client: WireClient, answers: Answers) -> None:
    """Take in what has arrived; at the end of the stream, let go of the socket."""
    assert client.socket is not None
    try:
        data = client.socket.recv(1 << 18)
    except BlockingIOError:
        return
    except OSError:
        data = b""
    if data:
        answers.feed(data)
    else:
        client.hang_up()


def head(method: str, path: str, account: Account | None, *fields: str) -> bytes:
    """Return a request up to its body."""
    said = [f"{method} {path} HTTP/1.1", "Host: localhost", *fields]
    if account is not None:
        said.append(f"Authorization: Basic {base64.b64encode(':'.join(account).encode()).decode()}")
    return "\r\n".join([*said, "", ""]).encode()


class HttpWirePublisher(NumberedPublisher):
    """Posts before earlier responses have come, and again without one; the gateway cannot recognise repetitions."""

    def __init__(
        self, name: str, *, topic: str, keys: Sequence[str], window: int = 10, account: Account | None = None
    ) -> None:
        super().__init__(name, topic=topic, keys=keys)
        self.account = account
        self.window = window
        self._line: deque[Sent] = deque()  # posted and not answered
        self._answers = Answers()

    def connect(self, port: int) -> None:
        """Connect, and post again what was not answered."""
        self._answers = Answers()
        dialled(self, port).setblocking(False)
        for sent in self._line:
            self._post(sent)

    def step(self) -> None:
        """Post while there is room."""
        while self.publishing and self.socket is not None and len(self._line) < self.window:
            self._line.append(self.next_sent())
            self._post(self._line[-1])

    def read_on(self) -> None:
        """Take confirmations."""
        read_answers(self, self._answers)
        while self._answers.whole:
            status, _, body = self._answers.whole.popleft()
            assert status == OK, (status, body)
            self.is_confirmed(self._line.popleft())

    def _post(self, sent: Sent) -> None:
        body = f"{sent.key}:{sent.number}".encode()
        fields = (
            f"Content-Length: {len(body)}",
            "Content-Type: text/plain",
            f"Sluicegate-Partition-Key: {sent.key}",
        )
        self.send(head("POST", f"/TOPIC/{self.topic}/{sent.key}", self.account, *fields) + body)


class HttpWireConsumer(WireClient):
    """Polls a queue, and settles late: up to `hold_count` messages stay unsettled until the next answer."""

    def __init__(
        self,
        name: str,
        *,
        queue: str,
        record: Callable[[Received], None],
        hold_count: int = 0,
        account: Account | None = None,
    ) -> None:
        super().__init__(name)
        self.hold_count = hold_count
        self.account = account
        self._queue = queue
        self._record = record
        self._begin()

    def _begin(self) -> None:
        self._answers = Answers()
        self._flow = ""  # its path
        self._unsettled: deque[int] = deque()
        self._asked = ""

    def connect(self, port: int) -> None:
        """Connect, and bind another flow: the gateway has forgotten the one before."""
        self._begin()
        dialled(self, port).setblocking(False)
        self._read()

    def read_on(self) -> None:
        """Handle answers, and ask for the next thing."""
        read_answers(self, self._answers)
        while self._answers.whole:
            status, headers, body = self._answers.whole.popleft()
            if self._asked == READ:
                assert status in (OK, NO_CONTENT), (status, body)
                self._flow = headers["sluicegate-flow"]
                for line in body.splitlines():
                    self._note(orjson.loads(line))
            else:
                assert status == NO_CONTENT, (status, body)
            if self.socket is not None and not self._settles():
                self._read()

    def settle_down_to(self, hold_count: int) -> None:
        """Do so with the next answer."""
        self.hold_count = hold_count

    def _read(self) -> None:
        path = self._flow or f"/QUEUE/{self._queue}"
        query = f"?wait_s={WAIT_S}&max=20" + ("" if self._flow else "&lock_s=120")
        self._asked = READ
        name = f"Solace-Client-Name: {self.client_id}"
        self.send(head("GET", path + query, self.account, name, "Accept: application/x-ndjson"))

    def _settles(self) -> bool:
        """Ask for the settlement of what is too much; return whether there is any."""
        count = len(self._unsettled) - self.hold_count
        if count <= 0:
            return False
        numbers = ",".join([str(self._unsettled.popleft()) for _ in range(count)])
        self._asked = SETTLE
        self.send(head("POST", f"{self._flow}/{numbers}", self.account, "Content-Length: 0"))
        return True

    def _note(self, line: dict[str, object]) -> None:
        key, _, number = str(line["payload"]).partition(":")
        delivery = line["delivery"]
        assert isinstance(delivery, int)
        self._unsettled.append(delivery)
        redelivered = line["redelivered"] is True
        self._record(Received(self.client_id, key, int(number), str(line["partition"]), redelivered, False))
