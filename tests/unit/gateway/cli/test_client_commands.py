"""`sluicegate client|subscription|session|retained|listener|...-profile` against a real admin server."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from sluicegate.gateway.cli import app
from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE
from sluicegate.gateway.config.sections.security.client_profiles import (
    AclProfileSettings,
    ClientProfileSettings,
    TopicException,
)
from sluicegate.gateway.views.clients.accounts import ProfileKind
from sluicegate.gateway.views.clients.clients import ClientView
from sluicegate.gateway.views.clients.connections import (
    AmqpConnectionView,
    AmqpLinkView,
    ClientFlowView,
    ClientSubscriptionView,
    ConnectionView,
    FlowConnectionView,
    FlowPublisherView,
    WillView,
)
from sluicegate.gateway.views.clients.retained import RetainedContentView, RetainedMessageView
from sluicegate.gateway.views.clients.sessions import MqttSessionView
from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.gateway.views.node.listeners import ListenerView
from sluicegate.gateway.views.queues.queues import FlowView
from support.operations.memory_clients import ANN, connection_view
from support.operations.memory_node import MemoryNode
from support.operations.shell import Shell

PUBLISHED = RetainedMessageView(
    topic="hall/1",
    size_bytes=2,
    qos=1,
    publisher="lamp",
    published_ms=1_700_000_000_000,
    expires_ms=None,
    content_type="text/plain",
)
RETAINED = RetainedContentView(
    message=PUBLISHED,
    payload="/wA=",
    payload_encoding="base64",
    correlation_id=None,
    reply_to="answers",
    user_properties=(("room", "1"),),
)
SESSION = MqttSessionView(
    client_id="lamp",
    client_username="ann",
    connected=False,
    expiry_s=3600,
    disconnected_ms=1_700_000_000_000,
    expires_ms=1_700_003_600_000,
    subscriptions_count=1,
    queue="#mqtt/lamp",
    ready_count=2,
    unacked_count=1,
    spooled_bytes=20,
    unreleased_count=0,
    will=WillView(topic="state/lamp", size_bytes=4, qos=1, retain=True, delay_s=30),
)
FLOW = FlowView(
    id="1", client="sensor-1", protocol="mqtt", window=15, unacked_count=3, active=True, activity="active-consumer"
)
LINK = AmqpLinkView(
    name="in",
    role="receiver",
    channel=0,
    handle=0,
    address="topic://stock",
    state="attached",
    credit=5,
    delivery_count=0,
    settle_mode="mixed",
    durable=False,
)
PUBLISHER = FlowPublisherView(
    id=1, name="till", epoch=2, window=64, received_through=7, answered_through=6, unanswered_count=1
)


def test_a_client_is_shown_with_what_its_protocol_has_agreed_on(shell: Shell, node: MemoryNode) -> None:
    node.clients = [ANN]
    shown = shell.run("client", "show", "sensor-1")
    said = [line.split(maxsplit=1) for line in shown.splitlines() if line.startswith(("protocol", "reading"))]
    assert [each[1].strip() for each in said] == ["mqtt 5.0", "paused"]
    assert "session expiry   never" in shown
    assert "keep alive       60 s" in shown
    assert json.loads(shell.run("client", "show", "sensor-1", "--json"))["connections"][0]["mqtt"]["clean_start"]
    assert "there is no client 'other'" in shell.run("client", "show", "other", expect=FAILED)


def test_flows_links_and_publishers_of_a_client_are_tables(
    shell: Shell, node: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.clients = [ANN]
    connection = replace(
        connection_view(ANN),
        flows=(ClientFlowView(queue="orders", flow=FLOW),),
        mqtt=None,
        amqp=AmqpConnectionView(
            container_id="shop", max_frame_size=4096, heartbeat_ms=0, sessions_count=1, links=(LINK,)
        ),
        flow=FlowConnectionView(keep_alive_ms=30_000, compresses=True, publishers=(PUBLISHER,)),
    )
    monkeypatch.setattr("support.operations.memory_clients.connection_view", lambda client: connection)
    lines = [line.split() for line in shell.run("client", "show", "sensor-1").splitlines()]
    assert ["orders", "active-consumer", "15", "3", "-", "-"] in lines
    assert ["in", "receiver", "topic://stock", "attached", "5", "0", "mixed"] in lines
    assert ["till", "2", "64", "7", "6", "1"] in lines


def test_flows_are_shown_once_for_several_connections_of_a_protocol(
    shell: Shell, node: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has all flows of the client; those at another broker are others."""
    node.clients = [ANN, ANN, replace(ANN, address="127.0.0.1:6")]
    connection = replace(connection_view(ANN), flows=(ClientFlowView(queue="orders", flow=FLOW),))

    def connection_of(client: ClientView) -> ConnectionView:
        return connection if client is ANN else replace(connection, broker="two")

    monkeypatch.setattr("support.operations.memory_clients.connection_view", connection_of)
    lines = shell.run("client", "show", "sensor-1").splitlines()
    assert sum(line.startswith("protocol") for line in lines) == 3
    assert sum(line.startswith("orders") for line in lines) == 2


def test_packets_of_a_client_are_printed_line_by_line(shell: Shell, node: MemoryNode) -> None:
    node.clients = [ANN]
    sent = TracedPacket(
        time_ms=1_700_000_000_120,
        client="sensor-1",
        address="127.0.0.1:5",
        direction="received",
        kind="PUBLISH",
        size_bytes=31,
        fields={"topic": "a\x1b", "qos": 1, "retain": False, "packet_id": None},
        properties=(("Topic Alias", 3),),
        reason_code=0x87,
        reason="not authorized",
        payload="21",
        payload_encoding="text",
        left_out_count=2,
    )
    begun = replace(sent, direction="connection", kind="begun", left_out_count=0)
    node.packets = [begun, sent]
    first, second = shell.run("client", "trace", "sensor-1", "--payload", "9").splitlines()
    assert first == "22:13:20.120 --- begun       127.0.0.1:5"
    assert second == (
        "22:13:20.120 (2 left out) in  PUBLISH     31 B topic='a\\x1b' qos=1 retain=no 0x87 not authorized "
        "[Topic Alias: 3] payload='21'"
    )
    assert "payload" not in shell.run("client", "trace", "sensor-1")
    assert json.loads(shell.run("client", "trace", "sensor-1", "--json").splitlines()[1])["reason_code"] == 0x87
    assert "there is no client" in shell.run("client", "trace", "other", expect=FAILED)


def test_a_trace_of_a_user_names_the_client_on_each_line(shell: Shell, node: MemoryNode) -> None:
    node.packets = [
        TracedPacket(
            time_ms=1_700_000_000_120,
            client="#http/edge/17",
            address="127.0.0.1:5",
            direction="received",
            kind="request",
            size_bytes=31,
            fields={"method": "POST"},
        )
    ]
    line = shell.run("client", "trace", "--username", "ada").rstrip()
    assert line == "22:13:20.120 #http/edge/17 in  request     31 B method='POST'"
    assert node.traced_username == "ada"
    shell.run("client", "trace", "--username", "")
    assert node.traced_username == ""
    for wrong in ((), ("sensor-1", "--username", "ada")):
        assert "give the name of a client, or --username" in shell.run("client", "trace", *wrong, expect=USAGE)


def test_an_empty_name_traces_nobody(shell: Shell, node: MemoryNode) -> None:
    """It may be an unset variable of a shell."""
    assert "the name of a client is not empty" in shell.run("client", "trace", "", expect=USAGE)
    assert node.traced_username is None


def test_a_client_is_disconnected(shell: Shell, node: MemoryNode) -> None:
    node.clients = [ANN]
    assert shell.run("client", "disconnect", "sensor-1") == "disconnected sensor-1\n"
    assert node.clients == []


def test_the_list_of_clients_has_two_names(shell: Shell, node: MemoryNode) -> None:
    node.clients = [ANN]
    assert shell.run("client", "list") == shell.run("show", "client")


def test_subscriptions_of_a_client_are_shown_with_their_options(shell: Shell, node: MemoryNode) -> None:
    asked = ClientSubscriptionView(
        subscription="cmd/+",
        topic="cmd/+",
        share_name=None,
        queue=None,
        dto_priority="P1",
        qos=1,
        no_local=True,
        retain_as_published=True,
        retain_handling=2,
        identifier=9,
        selector=None,
    )
    other = replace(asked, subscription="a", qos=None, no_local=None, retain_as_published=None, identifier=None)
    node.client_topics["lamp"] = [asked, replace(other, retain_handling=None, queue="#amqp/1")]
    lines = shell.run("client", "subscriptions", "lamp").splitlines()
    assert "no local, retain as published, retain handling 2  9" in lines[1]
    assert lines[2].split() == ["a", "-", "-", "-", "P1", "-", "#amqp/1"]
    assert "showing 1 of 2 subscriptions" in shell.run("client", "subscriptions", "lamp", "--limit", "1")
    assert len(json.loads(shell.run("client", "subscriptions", "lamp", "c*", "--json"))["subscriptions"]) == 1


def test_sessions_are_listed_by_whether_their_clients_are_away(shell: Shell, node: MemoryNode) -> None:
    here = replace(SESSION, client_id="tv", connected=True, disconnected_ms=None, expires_ms=None, will=None)
    node.sessions = [SESSION, here]
    lines = shell.run("session", "list").splitlines()
    assert "away since 2023-11-14T22:13:20Z  2023-11-14T23:13:20Z" in lines[1]
    assert "3600 s after the connection" in lines[2]
    assert "tv" not in shell.run("session", "list", "--away")
    assert "lamp" not in shell.run("session", "list", "t*", "--connected")
    shown = shell.run("session", "show", "lamp")
    assert "state/lamp: 4 bytes, QoS 1, retained, 30 s later" in shown


def test_a_session_is_ended_by_who_confirms_it(shell: Shell, node: MemoryNode) -> None:
    node.sessions = [SESSION]
    assert "nothing was changed" in shell.run("session", "delete", "lamp", expect=USAGE)
    asked = shell.run("session", "delete", "lamp", answered="n\n", expect=FAILED)
    assert "End the session of lamp with 1 subscription and 3 messages?" in asked
    assert len(node.sessions) == 1
    assert shell.run("session", "delete", "lamp", "--yes") == "ended the session of lamp\n"
    assert "there is no MQTT session 'lamp'" in shell.run("session", "delete", "lamp", "--yes", expect=FAILED)


def test_retained_messages_are_listed_shown_and_deleted(shell: Shell, node: MemoryNode) -> None:
    node.retained = {"hall/1": RETAINED}
    (line,) = shell.run("retained", "list", "hall/#").splitlines()[1:]
    assert line.split() == ["hall/1", "2", "1", "2023-11-14T22:13:20Z", "lamp", "never"]
    shown = shell.run("retained", "show", "hall/1")
    assert "payload (2 bytes, in base64)  /wA=" in shown
    assert "property room" in shown
    assert "wrong" not in shell.run("retained", "list", "other/*")
    assert "Delete the retained message of hall/1?" in shell.run(
        "retained", "delete", "hall/1", answered="n\n", expect=FAILED
    )
    assert shell.run("retained", "delete", "hall/1", "--yes") == "deleted the retained message of hall/1\n"
    assert node.retained == {}


def test_the_payload_of_a_retained_message_is_written_byte_for_byte(shell: Shell, node: MemoryNode) -> None:
    node.retained = {"hall/1": RETAINED}
    written = CliRunner(env={"SLUICEGATE_URL": shell.url}).invoke(app, ["retained", "show", "hall/1", "--raw"])
    assert written.stdout_bytes == b"\xff\x00"


def test_listeners_are_listed_with_their_connections(shell: Shell, node: MemoryNode) -> None:
    node.listeners = [
        ListenerView(
            name="mqtt_tls",
            protocol="mqtt",
            host="0.0.0.0",
            port=8883,
            url="mqtts://0.0.0.0:8883",
            tls=True,
            websocket=False,
            client_certificates=True,
            vpn_name="default",
            connections_count=7,
            max_connections=100,
            accepted_total=9,
            refused_total=1,
            beyond_files_total=0,
            failed_handshakes_total=2,
        )
    ]
    (line,) = shell.run("listener", "list").splitlines()[1:]
    assert line.split("  ")[0:3] == ["mqtt_tls", "mqtts://0.0.0.0:8883", "TLS, client certificates"]
    assert line.split()[-4:] == ["7", "100", "9", "3"]


def test_client_profiles_are_listed_and_shown(shell: Shell, node: MemoryNode) -> None:
    node.profiles[ProfileKind.CLIENT]["small"] = ClientProfileSettings(name="small", max_connection_count=3)
    lines = [line.split() for line in shell.run("client-profile", "list").splitlines()]
    (small,) = [line for line in lines if line[0] == "small"]
    assert small[2:6] == ["yes", "yes", "yes", "3"]
    assert "max_connection_count                      3" in shell.run("client-profile", "show", "small")
    assert "other" in shell.run("client-profile", "show", "other", expect=FAILED)
    assert json.loads(shell.run("client-profile", "show", "small", "--json"))["max_connection_count"] == 3


def test_acl_profiles_are_shown_with_each_exception(shell: Shell, node: MemoryNode) -> None:
    exceptions = (TopicException(topic="a/b", syntax="mqtt"), TopicException(topic="c/>"))
    node.profiles[ProfileKind.ACL]["devices"] = AclProfileSettings(name="devices", publish_topic_exceptions=exceptions)
    (line,) = [line for line in shell.run("acl-profile", "list").splitlines() if line.startswith("devices")]
    assert "disallow, but 2" in line
    shown = shell.run("acl-profile", "show", "devices")
    assert "publish_topic_exceptions             a/b (mqtt)" in shown
    assert "c/> (smf)" in shown
