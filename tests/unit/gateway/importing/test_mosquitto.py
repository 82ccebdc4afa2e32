"""What becomes of mosquitto.conf: every line is in the report, and what is written is valid."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import lists, sampled_from

from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.mosquitto import import_mosquitto
from sluicegate.gateway.importing.mosquitto.conf import OF_BRIDGES, OF_LISTENERS, read_conf
from sluicegate.gateway.importing.mosquitto.general import DIFFERENT, NOTHING_LIKE_IT, TAKEN
from sluicegate.gateway.importing.mosquitto.volumes import parse_volume
from sluicegate.gateway.importing.report import ImportFailed, Part
from support.importing.sources import Texts, loaded, notes

HASH = "$7$101$" + "A" * 16 + "$" + "A" * 86 + "=="
VALUES = {  # of options that are read as more than a text
    "protocol": "websockets",
    "persistent_client_expiration": "14d",
    "restart_timeout": "5 60",
    "topic": "a/# both 1 here/ there/",
    "address": "broker.example:8883",
    "socket_domain": "ipv4",
    "websockets_origin": "https://shop.example",
    "port": "1885",
    "max_qos": "1",
}
NUMBERS = {
    "keepalive_interval", "max_connections", "max_inflight_messages", "max_keepalive", "max_packet_size",
    "max_topic_alias", "message_size_limit", "sys_interval", "bridge_max_packet_size",
}  # fmt: skip
FLAGS = {
    "allow_anonymous", "allow_zero_length_clientid", "cleansession", "require_certificate", "retain_available",
    "use_identity_as_username", "use_username_as_clientid", "listener_allow_anonymous", "bridge_insecure",
    "per_listener_settings",
}  # fmt: skip


def imported(folder: Path, conf: str, **files: str) -> Imported:
    return import_mosquitto("main", Texts(main=conf, **files), node="here", folder=str(folder))


def line(name: str) -> str:
    value = VALUES.get(name, "5" if name in NUMBERS else "true" if name in FLAGS else "x")
    return f"{name} {value}"


GENERAL = sorted([*DIFFERENT, *NOTHING_LIKE_IT, *TAKEN, "allow_anonymous", "log_type", "no_such_option"])
BLOCKS = [
    [""],
    ["listener 1883", *map(line, sorted(OF_LISTENERS))],
    ["listener 8883 127.0.0.1", "protocol mqtt", "certfile c", "keyfile k", "max_qos 0"],
    ["connection one", "address one.example", *map(line, sorted(OF_BRIDGES))],
    ["connection two", "address 192.0.2.1:1884", "topic # out 0", "topic t in 2", "bridge_cafile ca"],
    ["connection one", "address three.example", "bridge_protocol_version mqttv311", 'topic "" in 1 a b'],
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blocks=lists(sampled_from(BLOCKS), max_size=4), general=lists(sampled_from(GENERAL), max_size=12))
def test_every_line_is_in_the_report_and_the_configuration_is_valid(
    blocks: list[list[str]], general: list[str], tmp_path: Path
) -> None:
    conf = "\n".join([*map(line, general), *[each for block in blocks for each in block]])
    made = imported(tmp_path, conf)
    said = {note.setting for note in made.report.notes}
    assert [each.text for each in read_conf("main", Texts(main=conf)).lines if each not in said] == []
    loaded(made, tmp_path)


def test_without_a_listener_it_listens_for_this_machine_and_needs_no_account(tmp_path: Path) -> None:
    config = loaded(imported(tmp_path, "persistence true\n"), tmp_path)
    assert [*config.listeners.enabled()] == ["mqtt"]
    assert (config.listeners.mqtt.host, config.listeners.mqtt.port) == ("127.0.0.1", 1883)
    assert config.authentication.allow_anonymous is True


def test_listeners_of_each_transport_are_taken_and_a_second_one_is_not(tmp_path: Path) -> None:
    conf = "listener 1883\nlistener 9001 127.0.0.1\nprotocol websockets\nlistener 1884\nmax_connections 5\n"
    made = imported(tmp_path, conf)
    config = loaded(made, tmp_path)
    enabled = config.listeners.enabled()
    assert {name: (each.host, each.port) for name, each in enabled.items()} == {
        "mqtt": ("0.0.0.0", 1883),
        "mqtt_websocket": ("127.0.0.1", 9001),
    }
    assert config.authentication.allow_anonymous is False
    assert {"listener 1884", "max_connections 5"} <= {*notes(made, Part.NOT_TAKEN)}


def test_limits_are_taken(tmp_path: Path) -> None:
    conf = (
        "max_inflight_messages 40\nmax_keepalive 90\nmax_packet_size 90000\nmessage_size_limit 1000\n"
        "persistent_client_expiration 2w\nsys_interval 0\nretain_available false\nlistener 1883\nmax_qos 1\n"
        "max_topic_alias 3\nmax_connections 77\n"
    )
    config = loaded(imported(tmp_path, conf), tmp_path)
    mqtt = config.mqtt
    assert (mqtt.receive_maximum, mqtt.unacknowledged_window_v3, mqtt.keep_alive_s_max) == (40, 40, 90)
    assert (mqtt.maximum_packet_size, mqtt.session_expiry_s_max, mqtt.sys_interval_s) == (66_536, 1_209_600, 0)
    assert (mqtt.retain_available, mqtt.maximum_qos, mqtt.topic_alias_maximum) == (False, 1, 3)
    assert config.listeners.mqtt.max_connections == 77


def test_folders_are_included_in_the_order_of_names(tmp_path: Path) -> None:
    made = imported(
        tmp_path,
        "include_dir d\n",
        d__b_conf="max_keepalive 1",
        **{"d__B.conf": "max_keepalive 20", "d__a.conf": "max_keepalive 10"},
    )
    assert loaded(made, tmp_path).mqtt.keep_alive_s_max == 20
    assert notes(made, Part.DIFFERS)["max_keepalive 10"] == "d/B.conf:1 has it again: that one counts"


def test_paths_in_a_container_are_those_of_its_volumes(tmp_path: Path) -> None:
    conf = "listener 8883\ncertfile /etc/certs/server.pem\nkeyfile /mosquitto/config/tls/key.pem\n"
    conf += "password_file /mosquitto/config/passwords\ninclude_dir /mosquitto/config/conf.d\n"
    files = {f"{tmp_path}/own/passwords": f"ann:{HASH}\n", f"{tmp_path}/own/conf.d/more.conf": "max_keepalive 60\n"}
    volumes = [f"{tmp_path}/data:/mosquitto", f"{tmp_path}/own:/mosquitto/config:ro", f"{tmp_path}/tls:/etc/certs"]
    made = import_mosquitto(
        "main",
        Texts(main=conf, **files),
        node="here",
        folder=str(tmp_path),
        volumes=[parse_volume(each) for each in volumes],
    )
    listener = made.configuration["listeners"]["mqtt_tls"]
    assert listener["certificate"] == f"{tmp_path}/tls/server.pem"
    assert listener["key"] == f"{tmp_path}/own/tls/key.pem"
    assert [each["name"] for each in made.configuration["authentication"]["users"]] == ["ann"]


@pytest.mark.parametrize("text", ["config", ":/mosquitto", "./config:mosquitto", "a:/b:ro:x", ""])
def test_what_is_no_volume_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: HERE:INSIDE"):
        parse_volume(text)


def test_a_file_that_is_not_here_may_be_in_a_container(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"main:1: .*--volume \./config:/mosquitto/config"):
        imported(tmp_path, "password_file /mosquitto/config/passwords\n")


def test_users_keep_their_hashes_and_get_their_topics(tmp_path: Path) -> None:
    acl = (
        "topic read news/#\nuser ann\ntopic write up/ann\ntopic deny up/x\nuser gone\ntopic a\n"
        "pattern readwrite own/%u/#\npattern read id/%c\npattern read mail-%u/+\npattern write in-%c/x\n"
    )
    made = imported(
        tmp_path, "listener 1883\npassword_file p\nacl_file a\n", p=f"ann:{HASH}\nbob:{HASH}\nplain:secret\n", a=acl
    )
    config = loaded(made, tmp_path)
    users = {user.name: user for user in config.authentication.users}
    assert [*users] == ["ann", "bob"]
    assert users["ann"].secret() == HASH
    profiles = {each.name: each.profile() for each in config.authentication.acl_profiles}
    ann = profiles[users["ann"].acl_profile]
    publish, subscribe = ann.publish.of_client("ann", "c1"), ann.subscribe.of_client("ann", "c1")
    assert [
        topic for topic in ("up/ann", "up/x", "own/ann/1", "own/bob/1", "in-c1/x") if publish.allows_topic(topic)
    ] == [
        "up/ann",
        "own/ann/1",
    ]
    readable = [t for t in ("id/c1", "id/c2", "mail-ann/x", "mail-bob/x", "news/1") if subscribe.allows_topic(t)]
    assert readable == ["id/c1", "mail-ann/x"]
    assert profiles["default"].subscribe.allows_topic("news/1")
    missing = notes(made, Part.NOT_TAKEN)
    assert "no hash" in missing["plain:..."]
    assert "no account" in missing["user gone"]
    assert "whole level" in missing["pattern write in-%c/x"]


def test_a_user_called_default_has_a_profile_of_its_own(tmp_path: Path) -> None:
    conf = "listener 1883\npassword_file p\nacl_file a\n"
    made = imported(tmp_path, conf, p=f"default:{HASH}\n", a="topic read a\nuser default\ntopic read b\n")
    authentication = loaded(made, tmp_path).authentication
    profiles = {each.name: each.profile() for each in authentication.acl_profiles}
    assert profiles["default"].subscribe.allows_topic("a")
    own = profiles[authentication.users[0].acl_profile].subscribe
    assert (own.allows_topic("a"), own.allows_topic("b")) == (False, True)


def test_a_denied_part_is_never_allowed(tmp_path: Path) -> None:
    """Rather less is allowed than mosquitto allows: a profile has one action, and exceptions from it."""
    acl = (
        "user all\ntopic readwrite #\ntopic deny keys/#\nuser part\ntopic readwrite a/#\ntopic deny a/secret/#\n"
        "topic readwrite a/secret/x\ntopic read b\n"
    )
    made = imported(tmp_path, "listener 1883\npassword_file p\nacl_file a\n", p=f"all:{HASH}\npart:{HASH}\n", a=acl)
    config = loaded(made, tmp_path)
    profiles = {each.name: each.profile() for each in config.authentication.acl_profiles}
    topics = ("x", "keys/1", "$SYS/x", "$queue/q")
    assert [each for each in topics if profiles["all"].publish.allows_topic(each)] == ["x"]
    assert [each for each in ("a/1", "a/secret/x", "b") if profiles["part"].subscribe.allows_topic(each)] == ["b"]
    assert "less is allowed" in notes(made, Part.NOT_TAKEN)["topic readwrite a/#"]


@pytest.mark.parametrize(
    ("second", "anonymous", "open_names"),
    [
        ("allow_anonymous true", "on-loopback", ["mqtt", "mqtt_websocket"]),
        ("allow_anonymous false", False, ["mqtt", "mqtt_websocket"]),
        ("allow_anonymous false\npassword_file other", False, ["mqtt"]),
        ("allow_anonymous true\nacl_file a", False, ["mqtt"]),
        ("allow_anonymous true\nplugin x.so", False, ["mqtt"]),
    ],
)
def test_a_listener_with_other_rights_is_closed(
    second: str, anonymous: object, open_names: list[str], tmp_path: Path
) -> None:
    conf = (
        "per_listener_settings true\nlistener 1883\nallow_anonymous false\npassword_file p\n"
        f"listener 9001 127.0.0.1\nprotocol websockets\n{second}\n"
    )
    if "other" not in second and "acl" not in second and "false" in second:
        conf += "password_file p\n"
    made = imported(tmp_path, conf, p=f"ann:{HASH}\n", other=f"bob:{HASH}\n", a="topic x\n")
    config = loaded(made, tmp_path)
    assert config.authentication.allow_anonymous == anonymous
    assert [*config.listeners.enabled()] == open_names
    assert [user.name for user in config.authentication.users] == ["ann"]


def test_a_listener_that_is_not_taken_has_no_say_in_rights(tmp_path: Path) -> None:
    conf = (
        "per_listener_settings true\nlistener 1883\nallow_anonymous true\n"
        "listener 1884\nallow_anonymous false\npassword_file p\nacl_file a\n"
    )
    made = imported(tmp_path, conf, p=f"ann:{HASH}\n", a="topic x\n")
    config = loaded(made, tmp_path)
    assert [(name, each.port) for name, each in config.listeners.enabled().items()] == [("mqtt", 1883)]
    assert config.authentication.allow_anonymous is True
    assert config.authentication.users == ()
    assert {"password_file p", "acl_file a", "listener 1884"} <= {*notes(made, Part.NOT_TAKEN)}


def test_bridges_carry_the_same_topics_under_the_same_names(tmp_path: Path) -> None:
    conf = (
        "connection cloud.1\naddress mqtt.example:8883\nremote_username me\nremote_password word\n"
        "topic data/# out 1 plant/ edge/7/\ntopic cmd/# in 2 plant/ edge/7/\ntopic t both 0\n"
        'topic "" in 1 alarm all/alarm\nkeepalive_interval 90\ncleansession true\n'
    )
    made = imported(tmp_path, conf)
    config = loaded(made, tmp_path)
    (bridge,) = config.bridges
    assert (bridge.name, bridge.remote_url, bridge.username) == ("cloud.1", "mqtt://mqtt.example:8883", "me")
    assert bridge.password_file is not None
    assert bridge.password_file.read_text() == "word\n"
    assert (bridge.keep_alive_s, bridge.session_expiry_s, bridge.mqtt_version) == (90, 0, "5")
    outgoing = [(each.queue, each.topic, each.strip_prefix, each.add_prefix, each.qos) for each in bridge.outgoing]
    assert outgoing == [("bridge/cloud.1/1", "", "plant/", "edge/7/", 1), ("", "t", "", "", 0)]
    incoming = [
        (each.remote_topic, each.topic, each.strip_prefix, each.add_prefix, each.qos) for each in bridge.incoming
    ]
    assert incoming == [
        ("edge/7/cmd/#", "", "edge/7/", "plant/", 2),
        ("t", "", "", "", 0),
        ("all/alarm", "alarm", "", "", 1),
    ]
    (queue,) = config.queues.declared
    assert queue.subscriptions == ("plant/data/#",) or [*queue.subscriptions] == ["plant/data/#"]
    assert queue.config.owner == "#bridge/cloud.1"


def test_of_rules_that_overlap_the_wider_one_is_kept(tmp_path: Path) -> None:
    conf = "connection c\naddress b\ntopic a/x in 2\ntopic a/# in 0\ntopic a/+ in 1 p/\n"
    made = imported(tmp_path, conf)
    (bridge,) = loaded(made, tmp_path).bridges
    assert [(each.remote_topic, each.qos) for each in bridge.incoming] == [("a/#", 2)]
    assert "once" in notes(made, Part.DIFFERS)["topic a/x in 2"]
    assert "twice" in notes(made, Part.NOT_TAKEN)["topic a/+ in 1 p/"]


def test_circles_of_mqtt_3_1_1_become_mqtt_5(tmp_path: Path) -> None:
    conf = "connection c\naddress b\nbridge_protocol_version mqttv311\ntopic t/# {direction} 1\n"
    both = imported(tmp_path, conf.format(direction="both"))
    assert loaded(both, tmp_path).bridges[0].mqtt_version == "5"
    assert "circles" in notes(both, Part.DIFFERS)["bridge_protocol_version mqttv311"]
    assert loaded(imported(tmp_path, conf.format(direction="out")), tmp_path).bridges[0].mqtt_version == "3.1.1"


def test_what_would_admit_others_is_closed(tmp_path: Path) -> None:
    for option in ("mount_point x/", "psk_hint h", "use_subject_as_username true", "enable_proxy_protocol 2"):
        made = imported(tmp_path, f"listener 1883\n{option}\n")
        assert [*loaded(made, tmp_path).listeners.enabled()] == []
        assert "enabled: false" in notes(made, Part.NOT_TAKEN)[option]


@pytest.mark.parametrize("plugin", ["plugin x.so", "auth_plugin x.so", "plugin_load d x.so", "plugin_use d"])
@pytest.mark.parametrize("scope", ["", "per_listener_settings true\n"])
def test_rights_of_a_plugin_are_given_to_nobody(plugin: str, scope: str, tmp_path: Path) -> None:
    conf = f"{scope}listener 1883\n{plugin}\nallow_anonymous true\npassword_file p\n"
    made = imported(tmp_path, conf, p=f"ann:{HASH}\n")
    authentication = loaded(made, tmp_path).authentication
    assert authentication.allow_anonymous is False
    assert [user.acl_profile for user in authentication.users] == ["default"]
    (profile,) = (each.profile() for each in authentication.acl_profiles)
    assert not any(rules.allows_topic("a") for rules in (profile.publish, profile.subscribe))
    assert "nobody may publish" in notes(made, Part.NOT_TAKEN)["rights of accounts"]


def test_with_a_plugin_and_an_acl_file_the_file_says_who_may_do_what(tmp_path: Path) -> None:
    conf = "listener 1883\nplugin x.so\nallow_anonymous true\npassword_file p\nacl_file a\n"
    made = imported(tmp_path, conf, p=f"ann:{HASH}\n", a="topic read open\nuser ann\ntopic write a\n")
    authentication = loaded(made, tmp_path).authentication
    assert authentication.allow_anonymous is False
    profiles = {each.name: each.profile() for each in authentication.acl_profiles}
    assert profiles[authentication.users[0].acl_profile].publish.allows_topic("a")


@pytest.mark.parametrize(
    ("conf", "anonymous"),
    [
        ("allow_anonymous true\nlistener 1883\nlistener_allow_anonymous false\n", False),
        ("allow_anonymous false\nlistener 1883 127.0.0.1\nlistener_allow_anonymous true\n", True),
        (
            "allow_anonymous true\nlistener 1883 127.0.0.1\nlistener 9001\nprotocol websockets\n"
            "listener_allow_anonymous false\n",
            "on-loopback",
        ),
        (  # the last listener on loopback admits everybody, the first one does not
            "listener 1883 127.0.0.1\nlistener 8883 127.0.0.1\nprotocol websockets\nlistener_allow_anonymous true\n",
            False,
        ),
        ("allow_anonymous true\nlistener 1883\nuse_username_as_clientid true\n", False),
    ],
)
def test_the_strictest_listener_says_who_needs_an_account(conf: str, anonymous: object, tmp_path: Path) -> None:
    made = imported(tmp_path, conf)
    assert loaded(made, tmp_path).authentication.allow_anonymous == anonymous
    assert all("does not know" not in text for text in notes(made, Part.NOT_TAKEN).values())


def test_a_client_identifier_that_is_the_user_name_is_the_user_name_in_patterns(tmp_path: Path) -> None:
    conf = "listener 1883\npassword_file p\nacl_file a\nuse_username_as_clientid true\n"
    acl = "pattern write up/%c\npattern write in-%c/x\n"
    made = imported(tmp_path, conf, p=f"ann:{HASH}\n", a=acl)
    authentication = loaded(made, tmp_path).authentication
    profiles = {each.name: each.profile() for each in authentication.acl_profiles}
    rules = profiles[authentication.users[0].acl_profile].publish.of_client("ann", "bob")
    topics = ("up/ann", "up/bob", "in-ann/x", "in-bob/x")
    assert [each for each in topics if rules.allows_topic(each)] == ["up/ann", "in-ann/x"]


@pytest.mark.parametrize(
    "options",
    [
        "certfile c\nkeyfile k\ncapath /ca\nrequire_certificate true\nuse_identity_as_username true",
        "require_certificate true",
        "bind_interface eth0",
    ],
)
def test_a_listener_that_would_be_wider_is_closed(options: str, tmp_path: Path) -> None:
    made = imported(tmp_path, f"listener 1883\n{options}\n")
    names = ("mqtt", "mqtt_tls")
    assert not any(made.configuration["listeners"][name]["enabled"] for name in names)
    assert any("enabled: false" in text for text in notes(made, Part.NOT_TAKEN).values())


def test_an_interface_with_an_address_is_that_address(tmp_path: Path) -> None:
    config = loaded(imported(tmp_path, "listener 1883 192.0.2.1\nbind_interface eth0\n"), tmp_path)
    assert config.listeners.enabled()["mqtt"].host == "192.0.2.1"


def test_mosquittos_http_api_is_no_listener(tmp_path: Path) -> None:
    made = imported(tmp_path, "listener 9883\nprotocol http_api\nmax_qos 1\n")
    assert [*loaded(made, tmp_path).listeners.enabled()] == []
    assert "HTTP API" in notes(made, Part.NOT_TAKEN)["listener 9883"]


@pytest.mark.parametrize(
    ("lines", "origins"),
    [
        (["websockets_origin https://a https://b"], ("https://a", "https://b")),
        ([""], ("*",)),
        (["websockets_origin https://a https://b", "websockets_origin https://b"], ("https://b",)),
        (["", "websockets_origin https://b"], ("https://b",)),
        (["websockets_origin https://b", ""], ("https://b",)),
    ],
)
def test_origins_that_a_listener_names_are_the_only_ones(
    lines: list[str], origins: tuple[str, ...], tmp_path: Path
) -> None:
    ends = ("", "certfile c\nkeyfile k\n")
    blocks = [
        f"listener {9001 + number}\nprotocol websockets\n{ends[number]}{line}\n" for number, line in enumerate(lines)
    ]
    assert tuple(loaded(imported(tmp_path, "".join(blocks)), tmp_path).mqtt.allowed_origins) == origins


def test_a_bridge_with_tls_has_it_here(tmp_path: Path) -> None:
    conf = "connection c\naddress b:8883\ntopic t out\n{}\n"
    (bridge,) = loaded(imported(tmp_path, conf.format("bridge_tls_use_os_certs true")), tmp_path).bridges
    assert bridge.remote_url == "mqtts://b:8883"
    made = imported(tmp_path, conf.format("bridge_tls_later x"))
    assert loaded(made, tmp_path).bridges[0].enabled is False
    assert "enabled: false" in notes(made, Part.NOT_TAKEN)["bridge_tls_later x"]


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    conf = (
        "auth_opt_pg_password word\nplugin_opt_x word\npassword_file p\nconnection c\naddress b\nremote_password word\n"
        "topic t out\n"
    )
    made = imported(tmp_path, conf, p=f"ann:{HASH}\n")
    said = "\n".join(made.report.lines())
    assert "auth_opt_pg_password ..." in said
    assert "password_file p" in said
    assert " word" not in said


def test_who_logs_in_by_certificate_needs_an_account(tmp_path: Path) -> None:
    conf = "listener 8883\ncertfile c\nkeyfile k\ncafile ca\nrequire_certificate true\nuse_identity_as_username true\n"
    made = imported(tmp_path, conf + "acl_file a\n", a="pattern readwrite own/%u/#\n")
    assert "each common name" in notes(made, Part.NOT_TAKEN)["use_identity_as_username true"]


def test_the_same_files_of_two_listeners_are_taken(tmp_path: Path) -> None:
    conf = (
        "per_listener_settings true\nlistener 1883\npassword_file p\nacl_file a\n"
        "listener 9001\nprotocol websockets\npassword_file p\nacl_file a\n"
    )
    made = imported(tmp_path, conf, p=f"ann:{HASH}\n", a="topic x\n")
    assert {"password_file p", "acl_file a"} & {*notes(made, Part.NOT_TAKEN)} == set()


def test_everything_but_a_part_has_no_topics_of_the_broker(tmp_path: Path) -> None:
    acl = "user ann\ntopic readwrite #\ntopic deny keys/#\n"
    made = imported(tmp_path, "listener 1883\npassword_file p\nacl_file a\n", p=f"ann:{HASH}\n", a=acl)
    profiles = {each.name: each.profile() for each in loaded(made, tmp_path).authentication.acl_profiles}
    topics = ("#LOG/INFO/x", "#P2P/QUE/q", "x")
    assert [each for each in topics if profiles["ann"].publish.allows_topic(each)] == ["x"]


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ("<xml/>", "main:1: '<xml/>' is no setting of mosquitto.conf"),
        ("\nlistener ²\n", "main:2: '²' is no port of a listener; allowed: 0 to 65535"),
        (f"listener {'1' * 5000}", "main:1: '1111"),
        ("connection c\naddress a\nrestart_timeout ²", "main:3: restart_timeout '²' is not allowed; allowed: seconds"),
        ("listener 1\nprotocol smtp", "main:2: protocol 'smtp' is not allowed; allowed: mqtt, websockets"),
        ("\nlistener x\n", "main:2: 'x' is no port of a listener; allowed: 0 to 65535"),
        ("max_keepalive many", "main:1: max_keepalive 'many' is not allowed; allowed: a number"),
        ("allow_anonymous perhaps", "main:1: allow_anonymous 'perhaps' is not allowed; allowed: true, false"),
        ("topic x out", "main:1: topic stands before any bridge"),
        ("connection c\ntopic x out", "main:1: connection 'c' has no address"),
        ("connection c\naddress a\ntopic x up", "main:3: 'topic x up' is no topic of a bridge"),
        ("persistent_client_expiration 3 weeks", "main:1: persistent_client_expiration '3 weeks' is not allowed"),
        ("password_file none", "main:1: the file 'none' cannot be read: No such file"),
        ("include_dir none", "main:1: include_dir 'none': No such file"),
        ("password_file p", "p:2: this is no line of a password file"),
        ("acl_file a", "a:1: 'grant x' is no line of an ACL file"),
    ],
)
def test_mistakes_have_file_and_line(conf: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed) as failure:
        imported(tmp_path, conf, p=f"ann:{HASH}\nbob\n", a="grant x\n")
    assert str(failure.value).startswith(message)


def test_each_line_of_log_dest_counts(tmp_path: Path) -> None:
    made = imported(tmp_path, "log_dest stdout\nlog_dest topic")
    assert not any("has it again" in note.text for note in made.report.notes)
    assert {note.setting.text for note in made.report.part(Part.DIFFERS)} >= {"log_dest stdout", "log_dest topic"}


def test_a_listener_with_an_address_says_nothing_of_ipv6(tmp_path: Path) -> None:
    said = [note.setting.text for note in imported(tmp_path, "listener 1883 0.0.0.0").report.notes]
    assert "a listener without an address" not in said
    said = [note.setting.text for note in imported(tmp_path, "listener 1883").report.notes]
    assert "a listener without an address" in said


def test_a_comment_behind_a_listener_is_no_address(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"main:1: '#' is no address of a listener; allowed: .* line of its own"):
        imported(tmp_path, "listener 1883 # the first one")


def test_deny_with_an_access_is_reported(tmp_path: Path) -> None:
    """mosquitto takes `write a/x` as the topic, so a reader of the file believes more to be denied than is."""
    acl = "user ada\ntopic deny write a/x\ntopic a/x"
    made = imported(tmp_path, "listener 1883\npassword_file p\nacl_file acl", p=f"ada:{HASH}", acl=acl)
    assert [note.setting.text for note in made.report.part(Part.DIFFERS) if "denies nothing" in note.text] == [
        "topic deny write a/x"
    ]
