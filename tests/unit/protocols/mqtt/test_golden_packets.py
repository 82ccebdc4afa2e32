"""Bytes of real clients and of the standard's examples, one file each in `tests/data/mqtt`.

A file `client_*` has the bytes of a client and the events they are; a file `server_*` has a command and its bytes. A
new case is a new file.
"""

import ast
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.events import (
    AcknowledgementReceived,
    AuthReceived,
    ConnectReceived,
    DisconnectReceived,
    MqttEvent,
    PeerViolated,
    PublishReceived,
    SubscribeReceived,
    UnsubscribeReceived,
)
from sluicegate.protocols.mqtt.codec.fixed_header import NAMES
from support.mqtt.conversation import WALL_MS, Conversation, connected

CASES = Path(__file__).parents[3] / "data" / "mqtt"


def sections(path: Path) -> dict[str, str]:
    """Return the parts of a case by name; a name is what stands before a colon at the beginning of a line."""
    parts: dict[str, str] = {}
    name = ""
    for line in path.read_text().splitlines():
        head, colon, rest = line.partition(":")
        if colon and head in ("source", "level", "command", "bytes", "events"):
            name = head
            parts[name] = rest.strip()
        else:
            parts[name] += f"{line}\n"
    return parts


def described(event: MqttEvent) -> str:
    """Return an event as a line of a case: what is at its default is left out."""
    match event:
        case ConnectReceived():
            return _connect(event)
        case PublishReceived():
            batch = event.batch
            rows = [(batch.topic_of(row), payload) for row, payload in enumerate(batch.payloads())]
            line = f"PUBLISH qos={batch.qos} retain={batch.retain} packet_ids={event.packet_ids} rows={rows}"
            return line if batch.headers() is None else f"{line} headers={_headers(event)}"
        case AcknowledgementReceived():
            return f"{NAMES[event.kind]} {event.first}..{event.last} reason_code={event.reason_code}"
        case SubscribeReceived():
            requests = [
                (each.filter_text, each.qos, each.no_local, each.retain_as_published, each.retain_handling)
                for each in event.requests
            ]
            identifier = event.subscription_identifier
            return f"SUBSCRIBE packet_id={event.packet_id} requests={requests} subscription_identifier={identifier}"
        case UnsubscribeReceived():
            return f"UNSUBSCRIBE packet_id={event.packet_id} filters={event.filters}"
        case DisconnectReceived():
            return f"DISCONNECT reason_code={event.reason_code} session_expiry_s={event.session_expiry_s}"
        case AuthReceived():
            return f"AUTH reason_code={event.reason_code} method={event.method!r} data={event.data!r}"
        case PeerViolated():
            return f"VIOLATED 0x{event.reason_code:02x}"


def _connect(event: ConnectReceived) -> str:
    line = f"CONNECT level={event.level} client_id={event.client_id!r} clean_start={event.clean_start}"
    line += f" keep_alive_s={event.keep_alive_s} session_expiry_s={event.session_expiry_s}"
    if event.receive_maximum != 65_535:
        line += f" receive_maximum={event.receive_maximum}"
    if event.user_name is not None:
        line += f" user_name={event.user_name!r}"
    if event.password is not None:
        line += f" password={event.password!r}"
    if event.will is not None:
        will = event.will
        line += f" will={(will.topic, will.payload, will.qos, will.retain, will.delay_s)}"
    if event.authentication_method is not None:
        line += f" authentication_method={event.authentication_method!r}"
    return line


def _headers(event: PublishReceived) -> list[dict[str, object] | None]:
    shown: list[dict[str, object] | None] = []
    for row in range(event.batch.count):
        headers = event.batch.headers_of(row)
        if headers is None:
            shown.append(None)
            continue
        fields: dict[str, object] = {
            "partition_key": headers.partition_key,
            "content_type": headers.content_type,
            "expires_in_s": (headers.expires_at_ms - WALL_MS) // 1000 if headers.expires_at_ms else None,
            "reply_to": headers.reply_to,
            "correlation": headers.correlation,
            "user_properties": headers.user_properties,
        }
        shown.append({name: value for name, value in fields.items() if value is not None})
    return shown


@pytest.mark.parametrize("path", sorted(CASES.glob("client_*.txt")), ids=lambda path: path.stem)
def test_the_bytes_of_a_client_are_these_events(path: Path) -> None:
    case = sections(path)
    conversation = Conversation()
    conversation.hears(bytes.fromhex(case["bytes"]))

    assert [described(event) for event in conversation.events] == case["events"].splitlines()


@pytest.mark.parametrize("path", sorted(CASES.glob("server_*.txt")), ids=lambda path: path.stem)
def test_a_command_has_these_bytes(path: Path) -> None:
    case = sections(path)
    level = int(case["level"])
    call = ast.parse(case["command"], mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    if call.func.id in ("accept", "refuse"):
        conversation = Conversation(level)
        assigned = any(keyword.arg == "assigned_client_id" for keyword in call.keywords)
        conversation.hears(mqtt.connect("" if assigned else "c1", level=level))
    else:
        conversation = connected(level)
    keywords = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
    getattr(conversation.engine, call.func.id)(*[ast.literal_eval(each) for each in call.args], **keywords)

    assert conversation.said() == bytes.fromhex(case["bytes"])


def test_every_case_names_its_source() -> None:
    paths = list(CASES.iterdir())

    assert len(paths) >= 18
    assert [path.name for path in paths if not sections(path).get("source")] == []
