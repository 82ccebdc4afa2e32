"""Hostile clients that run beside those of a test: all at once, repeatedly, until the test ends them.

Some have an account with the limits of a careful operator, others have none. Each attack is one coroutine, which does
one thing to a gateway that may die meanwhile, and records the answers. It asserts nothing: the test checks `answers` at
the end.
"""

import asyncio
import base64
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED
from sluicegate.protocols.amqp.codec.performatives import Detach
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Symbol, ulong
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE
from support.amqp.client import AmqpClient, body
from support.amqp.received import Received
from support.flow.client import FlowClient, Refused
from support.hostile.mutated_bytes import mutated, spoiled
from support.load.mqtt_clients import Account
from support.mqtt.raw_client import RawClient

FORBIDDEN: Final = "load/forbidden"  # a topic that none of them may publish to
HONEST_QUEUE: Final = "load"
OWN_TOPIC: Final = "evil"  # below which they may publish
OWN_QUEUE: Final = "evil"
ATTEMPT_S: Final = 5  # for an answer that may never come, from a gateway that is dead
PAUSE_S: Final = 0.05  # between two attacks of a kind, so that honest clients have some of the two processors, too
KEPT_OPEN_MAX: Final = 60  # connections that are left half-way, of all kinds together
EVIL_PAGE: Final = "https://evil.example"
ODD_NAMES: Final = ("a\0b", "a\x1b[31m", "\u202egnp", "x" * 3000, "../../etc/passwd", "$SYS/x", "#", "", "\x7f\r\nX: y")

Ports = dict[str, int]
Attack = Callable[["Visit"], Awaitable[None]]


class HostileClients:
    """All of them, in a thread of their own, from `__enter__` to `__exit__`."""

    def __init__(self, ports: Ports, account: Account, known_user: str, *, seed: int) -> None:
        self.answers: Counter[str] = Counter()  # by what was tried, and what became of it
        self.failures: list[str] = []  # of attacks, by faults of their own
        self.kept_open: list[asyncio.StreamWriter] = []
        self._visits = [Visit(self, ports, account, known_user, random.Random(seed + at)) for at in range(len(ATTACKS))]
        self._ends = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._storm()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    async def _storm(self) -> None:
        pairs = zip(ATTACKS, self._visits, strict=True)
        await asyncio.gather(*[self._again_and_again(attack, visit) for attack, visit in pairs])
        for writer in self.kept_open:
            writer.transport.abort()

    async def _again_and_again(self, attack: Attack, visit: "Visit") -> None:
        name = attack.__name__
        while not self._ends.is_set():
            try:
                async with asyncio.timeout(ATTEMPT_S):
                    await attack(visit)
                self.answers[name] += 1
            except (OSError, EOFError, TimeoutError, AssertionError, Refused):
                self.answers[f"{name}: cut off"] += 1  # by the gateway, or with it
            except Exception as error:
                self.failures.append(f"{name}: {error!r}")
            visit.is_over()
            await asyncio.sleep(PAUSE_S)


class Visit:
    """What one attack can do, and the connections that it has made."""

    def __init__(
        self, all_: HostileClients, ports: Ports, account: Account, known_user: str, chance: random.Random
    ) -> None:
        self.ports = ports
        self.account = account
        self.known_user = known_user  # of somebody else
        self.chance = chance
        self.kept_open = all_.kept_open
        self._answers = all_.answers
        self._transports: list[asyncio.WriteTransport] = []
        self._clients: list[object] = []
        self._clients_before: list[object] = []  # of the visit before: whose connections may not have ended yet

    def is_over(self) -> None:
        """Drop what is still connected."""
        for transport in self._transports:
            transport.abort()
        self._transports.clear()
        self._clients_before, self._clients = self._clients, []

    async def dial(self, listener: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, from one of some addresses."""
        source = f"127.0.3.{self.chance.randint(1, 20)}"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[listener], local_addr=(source, 0))
        self._transports.append(writer.transport)
        self._clients.append(writer)
        return reader, writer

    async def keep_open(self, listener: str, data: bytes) -> None:
        """Connect, send something, and leave the connection open."""
        _, writer = await self.dial(listener)
        self._transports.pop()
        self.kept_open.append(writer)
        writer.write(data)
        await writer.drain()
        while len(self.kept_open) > KEPT_OPEN_MAX:
            given_up = self.kept_open.pop(self.chance.randrange(len(self.kept_open)))
            given_up.transport.abort()

    async def raw_mqtt(self, level: int = 5) -> RawClient:
        client = await RawClient.open(self.ports["mqtt"], level)
        self._transports.append(client.transport)
        self._clients.append(client)
        return client

    async def mqtt(self, name: str) -> RawClient:
        client = await self.raw_mqtt()
        user, password = self.account
        answer = await client.connect(name, user_name=user, password=password.encode())
        assert answer.reason_code == 0, answer
        return client

    async def amqp(self, name: str) -> AmqpClient:
        client = await AmqpClient.open(self.ports["amqp"], name, account=self.account)
        self._transports.append(client.transport)
        self._clients.append(client)
        return client

    async def raw_flow(self, name: str) -> FlowClient:
        client = FlowClient(self.ports["flow"], name=name)
        self._clients.append(client)
        await client.connect()
        self._transports.append(client.transport)
        return client

    async def flow(self, name: str) -> FlowClient:
        client = await self.raw_flow(name)
        answer = await client.authenticate("PLAIN", "\0{}\0{}".format(*self.account).encode())
        assert answer.state == AUTH_DONE
        return client

    async def request(self, listener: str, request: bytes) -> int:
        """Send a request, and return the status of the answer."""
        reader, writer = await self.dial(listener)
        writer.write(request)
        return int((await reader.readuntil(b"\r\n"))[9:12])

    def login(self) -> bytes:
        """Return the authorization header of a client with an account."""
        return b"Authorization: Basic %b\r\n" % base64.b64encode(":".join(self.account).encode())

    def note(self, what: str, answer: object) -> None:
        """Note what an attempt was answered."""
        self._answers[f"{what}: {answer}"] += 1


# --- good and broken frames in one write ---


async def broken_mqtt(visit: Visit) -> None:
    client, chance = await visit.mqtt("breaker"), visit.chance
    properties = mqtt.user_property("kkk", "vvv")
    packets = [
        mqtt.publish(f"{OWN_TOPIC}/t", b"x", level=5, qos=1, packet_id=packet_id, properties=properties)
        for packet_id in range(1, 5)
    ]
    client.send(*spoiled(chance, packets))
    await client.ends()


async def broken_flow(visit: Visit) -> None:
    client, chance = await visit.flow("breaker"), visit.chance
    opened = await client.opens_publisher(chance.choice(("", "breaker")))
    headers = Headers(partition_key="kkk", user_properties=[("kkk", "vvv")])
    frames = [
        write_publish(
            opened.flow_id, opened.stored_highest + row, OWN_QUEUE, b"x", headers, to_queue=True, ttl_ms=0, delay_ms=0
        )
        for row in range(1, 5)
    ]
    client.send(b"".join(spoiled(chance, frames)))
    await client.ends()


async def broken_amqp(visit: Visit) -> None:
    client, chance = await visit.amqp("breaker"), visit.chance
    await client.sender("out", OWN_QUEUE, handle=0)
    with client.one_write(lambda frames: spoiled(chance, frames)):
        for _ in range(4):
            client.transfer(0, body("kvt"), settled=chance.random() < 0.5)
    await client.ends()


async def broken_http(visit: Visit) -> None:
    reader, writer = await visit.dial("http")
    request = b"POST /QUEUE/%b HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: 1\r\n" % (
        OWN_QUEUE.encode(),
        visit.login(),
    )
    request += b"Sluicegate-Partition-Key: kkk\r\nSolace-User-Property-kkk: vvv\r\n\r\nx"
    writer.write(b"".join(spoiled(visit.chance, [request] * 4)))
    writer.write_eof()
    await reader.read()


# --- much that is no payload, until a quota says no ---


async def much_of_mqtt(visit: Visit) -> None:
    client = await visit.mqtt("filler")
    properties = b"".join([mqtt.user_property("k", "v" * 60_000)] * 4)
    topic = f"{OWN_TOPIC}/{visit.chance.randrange(9999)}/" + "t" * 60_000
    for said in ({"properties": properties, "topic": f"{OWN_TOPIC}/x"}, {"topic": topic}):
        visit.note("filled by MQTT", hex(await client.publish(payload=b"", qos=1, **said)))
    await client.leave()


async def much_of_amqp(visit: Visit) -> None:
    client = await visit.amqp("filler")
    value: AmqpValue = "end"
    for _ in range(30):
        value = AmqpMap([("k", value), ("n", [1, 2, 3])])
    deep = AmqpMap([(Symbol(f"x-{number}"), value) for number in range(60)])
    await client.sender("filler", OWN_QUEUE)
    outcome = await client.outcome(
        client.transfer(9, encode(Described(ulong(0x72), deep)) + encode(Described(ulong(0x75), b"")))
    )
    visit.note("filled by AMQP", outcome.code == ACCEPTED)
    await client.close()


async def much_of_flow(visit: Visit) -> None:
    client = await visit.flow("filler")
    opened = await client.opens_publisher()
    headers = Headers(user_properties=[(f"k{number}", "v" * 60) for number in range(1000)])
    client.publishes(opened.flow_id, [1, 2], queue=OWN_QUEUE, payload=b"", headers=headers)
    visit.note("filled by flow", len(await client.answered(opened.flow_id, 2)))
    await client.close()


async def much_of_http(visit: Visit) -> None:
    fields = b"".join(b"Solace-User-Property-k%d: %b\r\n" % (number, b"v" * 1000) for number in range(20))
    request = b"POST /QUEUE/%b HTTP/1.1\r\nHost: localhost\r\n%b%bContent-Length: 0\r\n\r\n"
    status = await visit.request("http", request % (OWN_QUEUE.encode(), visit.login(), fields))
    visit.note("filled by HTTP", status)


# --- as a web page of elsewhere ---


async def foreign_pages(visit: Visit) -> None:
    chance = visit.chance
    listener = chance.choice(("mqtt_websocket", "http", "admin"))
    host = chance.choice(("localhost", "rebound.example"))
    says = f"Host: {host}\r\nOrigin: {EVIL_PAGE}\r\n"
    if listener == "mqtt_websocket":
        key = base64.b64encode(chance.randbytes(16)).decode()
        says += (
            f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        )
        head = f"GET /mqtt HTTP/1.1\r\n{says}Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    elif listener == "http":
        head = f"POST /QUEUE/{HONEST_QUEUE} HTTP/1.1\r\n{says}Content-Type: text/plain\r\nContent-Length: 1\r\n\r\nx"
    else:
        head = f"DELETE /queues/{HONEST_QUEUE} HTTP/1.1\r\n{says}Content-Length: 0\r\n\r\n"
    visit.note("foreign page", await visit.request(listener, head.encode()))


# --- with passwords that are none ---


async def guesses(visit: Visit) -> None:
    chance = visit.chance
    user = chance.choice((visit.known_user, visit.account.user, f"nobody{chance.randrange(99)}"))
    guess = f"guess{chance.randrange(1 << 30)}"
    match chance.randrange(3):
        case 0:
            client = await visit.raw_mqtt()
            answer = await client.connect("guesser", user_name=user, password=guess.encode())
            visit.note("guess", "let in" if answer.reason_code == 0 else "refused")
            await client.vanish()
        case 1:
            login = base64.b64encode(f"{user}:{guess}".encode()).decode()
            head = f"POST /QUEUE/{HONEST_QUEUE} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\n"
            status = await visit.request("http", f"{head}Content-Length: 1\r\n\r\nx".encode())
            visit.note("guess", "let in" if status < 400 else "refused")
        case _:
            guesser = await visit.raw_flow("guesser")
            with suppress(Refused):
                is_in = (await guesser.authenticate("PLAIN", f"\0{user}\0{guess}".encode())).state == AUTH_DONE
                visit.note("guess", "let in" if is_in else "refused")
            guesser.cut()
            await guesser.ended()


async def strangers(visit: Visit) -> None:
    """Without any name."""
    match visit.chance.randrange(3):
        case 0:
            client = await visit.raw_mqtt(visit.chance.choice((3, 4, 5)))
            visit.note("stranger", "refused" if (await client.connect("stranger")).reason_code else "let in")
            await client.vanish()
        case 1:
            status = await visit.request("http", b"GET /QUEUE/load HTTP/1.1\r\nHost: localhost\r\n\r\n")
            visit.note("stranger", "let in" if status < 400 else "refused")
        case _:
            reader, writer = await visit.dial("amqp")
            writer.write(b"AMQP\x00\x01\x00\x00" + mutated(visit.chance, b"\x00\x00\x00\x08\x02\x00\x00\x00"))
            writer.write_eof()
            await reader.read()


# --- slowly, or not to the end ---


async def slow_requests(visit: Visit) -> None:
    listener = visit.chance.choice(("admin", "admin", "http"))
    head = b"POST /queues HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    await visit.keep_open(listener, visit.chance.choice((head, head + b"\r\n{", b"GET /hea", b"")))
    for writer in visit.kept_open[-5:]:
        if not writer.is_closing():
            writer.write(b"x")


async def unfinished_packets(visit: Visit) -> None:
    chance = visit.chance
    listener, data = chance.choice(
        (
            ("mqtt", mqtt.connect("half", level=5, user_name="x" * 100, password=b"y" * 100)),
            ("mqtt", b"\x10\xff\xff\xff\x7f" + b"x" * 1000),
            ("amqp", b"AMQP\x03\x01\x00\x00\x7f\xff\xff\xff\x02\x01\x00\x00" + b"x" * 1000),
            ("flow", b"SLUICE"),
            ("flow", bytes(range(256)) * 4),
            ("mqtt_websocket", b"GET /mqtt HTTP/1.1\r\nHost: local"),
        )
    )
    await visit.keep_open(listener, data[: chance.randint(1, len(data))])


# --- with names that are none ---


async def odd_names(visit: Visit) -> None:
    name = visit.chance.choice(ODD_NAMES)
    match visit.chance.randrange(4):
        case 0:
            client = await visit.mqtt(name)
            client.send(mqtt.publish(name, name.encode(), level=5, qos=1, packet_id=1))
            client.send(mqtt.subscribe((f"$queue/{name}", 1), packet_id=2, level=5))
            await client.ends()
        case 1:
            peer = await visit.amqp(name)
            await peer.sender(name, name, handle=0)
            await peer.ends()
        case 2:
            flow = await visit.flow(name)
            await flow.opens_publisher(name)
            await flow.binds(name)
            flow.cut()
            await flow.ended()
        case _:
            path = "".join(f"%{byte:02x}" for byte in name.encode()).encode()
            head = b"POST /QUEUE/%b HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: 1\r\n\r\nx"
            await visit.request("http", head % (path, visit.login()))


# --- without the right ---


async def forbidden_by_mqtt(visit: Visit) -> None:
    client = await visit.mqtt("thief")
    for topic in (FORBIDDEN, f"$queue/{HONEST_QUEUE}"):
        code = await client.publish(topic, b"theft", qos=1)
        visit.note("forbidden publish", "let in" if code < 0x80 else "refused")
    (code,) = await client.subscribe(f"$queue/{HONEST_QUEUE}", qos=1)
    visit.note("forbidden consumer", "let in" if code < 0x80 else "refused")
    (code,) = await client.subscribe("load/#", qos=1)
    visit.note("forbidden subscriber", "let in" if code < 0x80 else "refused")
    await client.leave()


async def forbidden_by_flow(visit: Visit) -> None:
    client = await visit.flow("thief")
    opened = await client.opens_publisher()
    client.publishes(opened.flow_id, [1], topic=FORBIDDEN, payload=b"theft")
    client.publishes(opened.flow_id, [2], queue=HONEST_QUEUE, payload=b"theft")
    refused = await client.answered(opened.flow_id, 2)
    count = sum(each.last - each.first + 1 for each in refused)
    visit.note("forbidden publish", "refused" if count == 2 else "let in")
    try:
        await client.binds(HONEST_QUEUE)
        visit.note("forbidden consumer", "let in")
    except Refused:
        visit.note("forbidden consumer", "refused")
    await client.close()


async def forbidden_by_http(visit: Visit) -> None:
    for method, path in (
        ("POST", f"TOPIC/{FORBIDDEN}"),
        ("POST", f"QUEUE/{HONEST_QUEUE}"),
        ("GET", f"QUEUE/{HONEST_QUEUE}"),
    ):
        head = f"{method} /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n".encode()
        status = await visit.request("http", head + visit.login() + b"\r\nx")
        what = "forbidden publish" if method == "POST" else "forbidden consumer"
        visit.note(what, "let in" if status < 400 else "refused")


async def forbidden_by_amqp(visit: Visit) -> None:
    client = await visit.amqp("thief")
    await client.receiver("in", HONEST_QUEUE, handle=1)
    client.flow(1, 1)
    while not isinstance(heard := await client.heard(), (Detach, Received)):
        pass
    visit.note("forbidden consumer", "refused" if isinstance(heard, Detach) else "let in")
    attached = await client.sender("out", f"topic://{FORBIDDEN}", handle=0)
    if attached.target is not None:
        outcome = await client.outcome(client.transfer(0, body("theft")))
        visit.note("forbidden publish", "let in" if outcome.code == ACCEPTED else "refused")
    client.vanish()


ATTACKS: Final[tuple[Attack, ...]] = (
    broken_mqtt,
    broken_flow,
    broken_amqp,
    broken_http,
    much_of_mqtt,
    much_of_amqp,
    much_of_flow,
    much_of_http,
    foreign_pages,
    guesses,
    strangers,
    slow_requests,
    unfinished_packets,
    odd_names,
    forbidden_by_mqtt,
    forbidden_by_flow,
    forbidden_by_http,
    forbidden_by_amqp,
)
