"""One message as clients of every protocol send and receive it, for the conformance matrix.

A protocol has one adapter: how it sends a message, how it shows one, and which fields it can express. Values use the
words of the cross-protocol table. A value that a protocol has only as text comes back as text.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Protocol

from paho.mqtt.packettypes import PacketTypes
from proton import Message, symbol
from proton.utils import BlockingConnection

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.amqp.codec.addresses import JMS_REPLY_TO
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from support.flow.client import FlowClient
from support.foreign.paho_client import MQTT_3_1_1, MQTT_5, PahoClient, properties
from support.http.plain import HTTP, plain_client
from support.processes.gateway import GatewayProcess

ANSWER_S: Final = 20
TOPIC_ADDRESS: Final = "topic://"  # a plain name is a queue in AMQP
FIELDS_OF_ITS_OWN: Final = frozenset({"body", "durable"})  # what even MQTT 3.1.1 can say


@dataclass(frozen=True)
class Spoken:
    """A message. What is at its default was not said."""

    body: bytes | str | dict[str, Any] = b""
    durable: bool = True
    priority: int = 4
    ttl_s: int = 0
    message_id: str = ""
    correlation: str = ""
    reply_to: str = ""
    content_type: str = ""
    content_encoding: str = ""
    subject: str = ""
    created_ms: int = 0
    key: str = ""
    group_sequence: int = 0
    annotations: dict[str, str] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)

    def only(self, names: frozenset[str]) -> "Spoken":
        """Return what is left of it for whoever knows these fields only."""
        default = Spoken()
        return replace(
            self, **{each.name: getattr(default, each.name) for each in fields(self) if each.name not in names}
        )


EVERY_FIELD: Final = frozenset(each.name for each in fields(Spoken))


class Speaker(Protocol):
    """A client of one protocol."""

    name: str
    can_say: frozenset[str]  # fields
    keeps_types: bool  # of properties; else they are texts

    def send(self, topic: str, message: Spoken) -> None:
        """Publish, and wait until the gateway has confirmed it."""

    def close(self) -> None:
        """Disconnect."""


class Hearer(Speaker, Protocol):
    """One that consumes as well."""

    def receive(self, queue: str) -> Spoken:
        """Consume one message of a queue."""


class Mqtt3:
    """MQTT 3.1.1: a topic and bytes."""

    name = "mqtt-3.1.1"
    can_say = FIELDS_OF_ITS_OWN
    keeps_types = False
    version = MQTT_3_1_1

    def __init__(self, node: GatewayProcess, role: str = "speaker") -> None:
        self.client = PahoClient(f"{role}-{self.name}", version=self.version)
        self.client.connect(node.mqtt_port)

    def send(self, topic: str, message: Spoken) -> None:
        self.client.publish(topic, _bytes(message.body), 1)

    def receive(self, queue: str) -> Spoken:
        self.client.subscribe(f"$queue/{queue}", 1)
        return Spoken(body=bytes(self.client.next().payload))

    def close(self) -> None:
        self.client.disconnect()


class Mqtt5(Mqtt3):
    """MQTT 5.0: what has no property of its own is a user property."""

    name = "mqtt-5.0"
    can_say = EVERY_FIELD
    version = MQTT_5

    # The user properties that stand for fields, by the names of the cross-protocol table.
    named: Final = {
        "priority": "priority",
        "message-id": "message_id",
        "timestamp": "created_ms",
        "subject": "subject",
        "content-encoding": "content_encoding",
        "JMSXGroupID": "key",
        "JMSXGroupSeq": "group_sequence",
    }

    def send(self, topic: str, message: Spoken) -> None:
        said: dict[str, Any] = {}
        if message.ttl_s:
            said["MessageExpiryInterval"] = message.ttl_s
        if message.correlation:
            said["CorrelationData"] = message.correlation.encode()
        if message.reply_to:
            said["ResponseTopic"] = message.reply_to
        if message.content_type:
            said["ContentType"] = message.content_type
        if isinstance(message.body, str):
            said["PayloadFormatIndicator"] = 1
        default = Spoken()
        pairs = [
            (name, str(getattr(message, its)))
            for name, its in self.named.items()
            if getattr(message, its) != getattr(default, its)
        ]
        pairs += [(name, str(value)) for name, value in (message.annotations | message.properties).items()]
        if pairs:
            said["UserProperty"] = pairs
        self.client.publish(topic, _bytes(message.body), 1, properties=properties(PacketTypes.PUBLISH, **said))

    def receive(self, queue: str) -> Spoken:
        self.client.subscribe(f"$queue/{queue}", 1)
        message = self.client.next()
        shown = message.properties
        values: dict[str, Any] = {}
        annotations: dict[str, str] = {}
        others: dict[str, Any] = {}
        for name, text in getattr(shown, "UserProperty", []):
            if name in self.named:
                default = getattr(Spoken(), self.named[name])
                values[self.named[name]] = int(text) if isinstance(default, int) else text
            elif name.startswith("x-"):
                annotations[name] = text
            elif not name.startswith("sluicegate-"):  # what the gateway says of the delivery
                others[name] = text
        is_text = getattr(shown, "PayloadFormatIndicator", 0) == 1
        body = bytes(message.payload)
        return Spoken(
            body=body.decode() if is_text else body,
            ttl_s=getattr(shown, "MessageExpiryInterval", 0),
            correlation=getattr(shown, "CorrelationData", b"").decode(),
            reply_to=getattr(shown, "ResponseTopic", ""),
            content_type=getattr(shown, "ContentType", ""),
            annotations=annotations,
            properties=others,
            **values,
        )


class Amqp:
    """AMQP 1.0, by proton."""

    name = "amqp"
    can_say = EVERY_FIELD
    keeps_types = True

    def __init__(self, node: GatewayProcess, role: str = "speaker") -> None:
        self._port, self._role = node.amqp_port, role

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """Connect for one message: a blocking client that waits for its turn sends no heartbeats."""
        address = f"amqp://127.0.0.1:{self._port}"
        connection: Any = BlockingConnection(
            address, timeout=ANSWER_S, allowed_mechs="ANONYMOUS", container_id=self._role
        )
        try:
            yield connection
        finally:
            connection.close()

    def send(self, topic: str, message: Spoken) -> None:
        said: Any = Message(body=message.body, durable=message.durable, priority=message.priority)
        said.inferred = isinstance(message.body, bytes)
        said.ttl = message.ttl_s
        for name, its in (
            ("id", message.message_id),
            ("correlation_id", message.correlation),
            ("reply_to", message.reply_to and TOPIC_ADDRESS + message.reply_to),
            ("content_type", symbol(message.content_type)),
            ("content_encoding", symbol(message.content_encoding)),
            ("subject", message.subject),
            ("group_id", message.key),
        ):
            if its:
                setattr(said, name, its)
        if message.created_ms:
            said.creation_time = message.created_ms / 1000
        said.group_sequence = message.group_sequence
        said.annotations = {symbol(name): value for name, value in message.annotations.items()} or None
        said.properties = message.properties or None
        with self._connection() as connection:
            connection.create_sender(f"topic://{topic}").send(said)

    def receive(self, queue: str) -> Spoken:
        with self._connection() as connection:
            receiver = connection.create_receiver(queue, credit=1)
            message = receiver.receive(timeout=ANSWER_S)
            receiver.accept()
            receiver.close()
        body = bytes(message.body) if isinstance(message.body, memoryview) else message.body
        return Spoken(
            body=body,
            durable=message.durable,
            priority=message.priority,
            ttl_s=round(message.ttl),
            message_id=message.id or "",
            correlation=message.correlation_id or "",
            reply_to=(message.reply_to or "").removeprefix(TOPIC_ADDRESS),
            content_type=_text(message.content_type),
            content_encoding=_text(message.content_encoding),
            subject=message.subject or "",
            created_ms=round((message.creation_time or 0) * 1000),
            key=message.group_id or "",
            group_sequence=message.group_sequence,
            annotations={
                str(name): value
                for name, value in (message.annotations or {}).items()
                if name != JMS_REPLY_TO  # of what kind `reply_to` is, which its form says too
            },
            properties=dict(message.properties or {}),
        )

    def close(self) -> None:
        """Nothing is open between two messages."""


class Flow:
    """The flow protocol: what its fixed part and standard properties do not say are user properties, as in MQTT 5.0."""

    name = "flow"
    can_say = EVERY_FIELD
    keeps_types = True
    named: Final = {
        "subject": "subject",
        "content-encoding": "content_encoding",
        "JMSXGroupSeq": "group_sequence",
    }

    def __init__(self, node: GatewayProcess, role: str = "speaker") -> None:
        self._port, self._role = node.ports["flow"], role

    def send(self, topic: str, message: Spoken) -> None:
        asyncio.run(self._send(topic, message))

    async def _send(self, topic: str, message: Spoken) -> None:
        default = Spoken()
        pairs = [
            (name, getattr(message, its))
            for name, its in self.named.items()
            if getattr(message, its) != getattr(default, its)
        ]
        headers = Headers(
            partition_key=message.key or None,
            priority=message.priority,
            payload_is_text=isinstance(message.body, str),
            content_type=message.content_type or None,
            correlation=message.correlation.encode() or None,
            reply_to=message.reply_to or None,
            message_id=message.message_id or None,
            timestamp_ms=message.created_ms,
            user_properties=[*pairs, *message.annotations.items(), *message.properties.items()] or None,
        )
        async with FlowClient(self._port, name=self._role) as client:
            opened = await client.opens_publisher()
            client.send(
                write_publish(
                    opened.flow_id,
                    1,
                    topic,
                    _bytes(message.body),
                    headers,
                    to_queue=False,
                    ttl_ms=message.ttl_s * 1000,
                    delay_ms=0,
                )
            )
            assert await client.answered(opened.flow_id, 1) == []

    def receive(self, queue: str) -> Spoken:
        return asyncio.run(self._receive(queue))

    async def _receive(self, queue: str) -> Spoken:
        async with FlowClient(self._port, name=self._role) as client:
            flow_id = await client.binds(queue, credit=1)
            (message,) = await client.receives_in_all(1, flow_id)
            client.accepts_through(flow_id, message.delivery_id)
            await client.unbinds(flow_id)
        headers = message.headers or Headers()
        values: dict[str, Any] = {}
        annotations: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for name, value in headers.user_properties or ():
            if name in self.named:
                values[self.named[name]] = int(str(value)) if name == "JMSXGroupSeq" else value
            elif name.startswith("x-"):
                annotations[name] = value
            elif name not in Mqtt5.named:  # as MQTT wrote what has a field here
                others[name] = value
        left_ms = headers.expires_at_ms - time.time_ns() // 1_000_000 if headers.expires_at_ms else 0
        return Spoken(
            body=message.payload.decode() if headers.payload_is_text else message.payload,
            durable=not message.was_direct,
            priority=headers.priority,
            ttl_s=-(-left_ms // 1000),
            message_id=headers.message_id or "",
            correlation=(headers.correlation or b"").decode(),
            reply_to=headers.reply_to or "",
            content_type=headers.content_type or "",
            created_ms=headers.timestamp_ms,
            key=headers.partition_key or "",
            annotations=annotations,
            properties=others,
            **values,
        )

    def close(self) -> None:
        """Nothing is open between two messages."""


class Http:
    """HTTP, by httpx. Names are those of Solace's REST messaging."""

    name = "http"
    can_say = EVERY_FIELD - {"content_encoding"}  # HTTP's own is undone on arrival
    keeps_types = True
    types: Final = {bool: "boolean", int: "int64", float: "double"}
    values: Final[dict[str, Callable[[str], Any]]] = {
        "boolean": lambda text: text == "true",
        "int64": int,
        "double": float,
        "string": str,
    }

    def __init__(self, node: GatewayProcess, role: str = "speaker") -> None:
        self._url = f"http://127.0.0.1:{node.ports['http']}"

    def send(self, topic: str, message: Spoken) -> None:
        default = Spoken()
        headers = {
            name: str(getattr(message, its))
            for name, its in (
                ("Solace-Priority", "priority"),
                ("Solace-Message-ID", "message_id"),
                ("Solace-Correlation-ID", "correlation"),
                ("Solace-Timestamp", "created_ms"),
                ("Content-Type", "content_type"),
                ("Sluicegate-Partition-Key", "key"),
                ("Solace-User-Property-subject", "subject"),
                ("Solace-User-Property-JMSXGroupSeq", "group_sequence"),
            )
            if getattr(message, its) != getattr(default, its)
        }
        if message.ttl_s:
            headers["Solace-Time-To-Live-In-ms"] = str(message.ttl_s * 1000)
        if message.reply_to:
            headers["Solace-Reply-To-Destination"] = f"/TOPIC/{message.reply_to}"
        for name, value in (message.annotations | message.properties).items():
            kind = self.types.get(type(value))
            text = str(value).lower() if kind == "boolean" else str(value)
            headers[f"Solace-User-Property-{name}"] = text if kind is None else f"{text}; type={kind}"
        address = f"{self._url}/TOPIC/{topic}"
        answer = HTTP.post(address, content=_bytes(message.body), headers=headers, timeout=ANSWER_S)
        assert (answer.status_code, answer.content) == (200, b"")

    def receive(self, queue: str) -> Spoken:
        with plain_client(self._url, timeout=2 * ANSWER_S) as client:
            got = client.get(f"/QUEUE/{queue}", params={"wait_s": ANSWER_S})
            assert got.status_code == 200
            assert client.post(got.headers["sluicegate-settle"]).status_code == 204
            assert client.delete(got.headers["sluicegate-flow"]).status_code == 204
        told = got.headers
        annotations: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for raw_name, raw_value in told.raw:
            name = raw_name.decode().lower()  # as it comes, for headers have no case
            if name.startswith("solace-user-property-"):
                text, is_typed, kind = raw_value.decode().rpartition("; type=")
                value = self.values[kind](text) if is_typed else kind
                own_name = name[len("solace-user-property-") :]
                (annotations if own_name.startswith("x-") else others)[own_name] = value
        content_type = told["content-type"]
        is_text = content_type.startswith("text/")
        return Spoken(
            body=got.text if is_text else got.content,
            durable=told["solace-delivery-mode"] == "Persistent",
            priority=int(told.get("solace-priority", "4")),
            ttl_s=-(-int(told.get("solace-time-to-live-in-ms", "0")) // 1000),
            message_id=told.get("solace-message-id", ""),
            correlation=told.get("solace-correlation-id", ""),
            reply_to=told.get("solace-reply-to-destination", "").removeprefix("/TOPIC/"),
            content_type="" if content_type == "application/octet-stream" else content_type,
            subject=others.pop("subject", ""),
            created_ms=int(told.get("solace-timestamp", "0")),
            key=others.pop("jmsxgroupid", ""),
            group_sequence=int(others.pop("jmsxgroupseq", 0)),
            annotations=annotations,
            properties={name: each for name, each in others.items() if name not in Mqtt5.named},
        )

    def close(self) -> None:
        """Nothing is open between two messages."""


SENDERS: Final = (Mqtt3, Mqtt5, Amqp, Flow, Http)
RECEIVERS: Final = (Mqtt3, Mqtt5, Amqp, Flow, Http)


def _text(name: symbol) -> str:
    """Return a symbol's text; proton shows one that is not there as a symbol of its own making."""
    return "" if name in (None, "None") else str(name)


def _bytes(body: bytes | str | dict[str, Any]) -> bytes:
    assert not isinstance(body, dict), "only AMQP says maps"
    return body.encode() if isinstance(body, str) else body
