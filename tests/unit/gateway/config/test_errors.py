"""A wrong configuration says where, what was seen and what would do; the texts are the product here."""

from pathlib import Path

import pytest

from sluicegate.gateway.config.allowed import allowed_by, leaves
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from support.network.certificates import make_certificates


def problems_of(text: str, tmp_path: Path, **environment: str) -> list[str]:
    """Return the lines an operator reads, with the file's folder left out."""
    file = tmp_path / "gate.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(file, environment=environment)
    return [line.removeprefix(f"{tmp_path}/") for line in str(error.value).split("\n")]


def test_a_wrong_value_names_its_place_and_its_range(tmp_path: Path) -> None:
    assert problems_of("listeners:\n  mqtt:\n    port: 70000\n", tmp_path) == [
        "gate.yaml:3:11: listeners.mqtt.port: 70000 is not allowed; allowed: a whole number from 0 to 65535"
    ]


def test_a_value_that_breaks_a_rule_of_ours_names_the_rule(tmp_path: Path) -> None:
    """What it may be says too little there: a text, a path."""
    text = f"tracing: {{endpoint: here}}\nlog: {{audit_file: {tmp_path}/none/audit}}\n"
    assert problems_of(text, tmp_path) == [
        "gate.yaml:1:21: tracing.endpoint: 'here' is not allowed; "
        "allowed: http://HOST:PORT/PATH or https://..., without a user",
        f"gate.yaml:2:19: log.audit_file: there is no folder '{tmp_path}/none'",
    ]
    (found,) = problems_of(f"log: {{audit_file: {tmp_path}}}\n", tmp_path)
    assert "is a folder; allowed: a file" in found


def test_texts_that_no_browser_sends_are_neither_origins_nor_hosts(tmp_path: Path) -> None:
    """A slash too many would keep the page out, and nobody would know why."""
    text = "http: {allowed_origins: ['null', https://shop.example/, shop.example, 'https://a b', http://u@h]}\n"
    text += "node: {allowed_hosts: ['broker.lan:9000', 'http://broker.lan']}\n"
    origin = "allowed: SCHEME://HOST or SCHEME://HOST:PORT, as 'https://shop.example'; '*': all"
    host = "allowed: a name without scheme and port, as 'broker.example'; '*': all"
    assert [line.partition(": ")[2] for line in problems_of(text, tmp_path)] == [
        "http.allowed_origins.0: 'null' is what every page in a sandbox says, whatever its site; "
        "allowed: an origin, or '*': all",
        f"http.allowed_origins.1: 'https://shop.example/' is not an origin of a web page; {origin}",
        f"http.allowed_origins.2: 'shop.example' is not an origin of a web page; {origin}",
        f"http.allowed_origins.3: 'https://a b' is not an origin of a web page; {origin}",
        f"http.allowed_origins.4: 'http://u@h' is not an origin of a web page; {origin}",
        f"node.allowed_hosts.0: 'broker.lan:9000' is no name of a host; {host}",
        f"node.allowed_hosts.1: 'http://broker.lan' is no name of a host; {host}",
    ]


def test_origins_and_hosts_are_kept_as_browsers_write_them(tmp_path: Path) -> None:
    """RFC 6454 6.2: in lower case, without the port that the scheme has by itself."""
    file = tmp_path / "gate.yaml"
    file.write_text(
        "mqtt: {allowed_origins: ['HTTPS://Shop.Example:443', 'http://[::1]:3000', 'chrome-extension://abc']}\n"
        "amqp: {allowed_origins: ['*', 'http://shop.example:443']}\nnode: {allowed_hosts: [Broker.LAN., '*']}\n"
    )
    config = load(file)
    assert config.mqtt.allowed_origins == ("https://shop.example", "http://[::1]:3000", "chrome-extension://abc")
    assert config.amqp.allowed_origins == ("*", "http://shop.example:443")
    assert config.node.allowed_hosts == ("broker.lan", "*")


def test_a_server_reference_names_servers(tmp_path: Path) -> None:
    """MQTT 5.0, section 4.11."""
    for text in ("b.example", "b.example:1883  [2001:db8::1]:1884 [::1]", "10.0.0.1:1883"):
        file = tmp_path / "gate.yaml"
        file.write_text(f"mqtt: {{server_reference: '{text}', server_moved: true}}\n")
        assert load(file).mqtt.server_reference == " ".join(text.split())
    text = "mqtt: {server_reference: 'b.example mqtt://b.example'}\n"
    text += "links: {b: {server_reference: 'b.example:0'}, c: {server_reference: '2001:db8::1'},"
    text += f" d: {{server_reference: '{'a' * 1025}'}}}}\n"
    server = "is no server; allowed: HOST, HOST:PORT, or [IPV6-ADDRESS]:PORT"
    assert [line.partition(": ")[2] for line in problems_of(text, tmp_path)] == [
        f"mqtt.server_reference: 'mqtt://b.example' {server}",
        f"links.b.server_reference: 'b.example:0' {server}",
        f"links.c.server_reference: '2001:db8::1' {server}",
        "links.d.server_reference: it has 1025 characters; allowed: 1024",
    ]


def test_a_pattern_of_response_topics_is_a_topic(tmp_path: Path) -> None:
    for pattern in ("r/%x", "r/+/%c", "$r", "r" * 1025):
        (found,) = problems_of(f"mqtt: {{response_information: '{pattern}'}}\n", tmp_path)
        assert "mqtt.response_information: " in found
        assert "allowed: " in found


def test_a_broker_that_has_moved_says_where_to(tmp_path: Path) -> None:
    (found,) = problems_of("mqtt: {server_moved: true}\n", tmp_path)
    assert "server_moved needs server_reference" in found


def test_a_path_that_cannot_be_looked_at_is_a_mistake_like_any_other(tmp_path: Path) -> None:
    """A folder above it may not be entered, or, as here for root's sake, the name is too long for the file system."""
    name = "x" * 300
    text = (
        f"log: {{audit_file: /{name}}}\nlisteners: {{mqtt_tls: {{enabled: true, certificate: {name}, key: {name}}}}}\n"
    )
    assert problems_of(text, tmp_path) == [
        f"gate.yaml:1:19: log.audit_file: '/{name}': File name too long",
        f"gate.yaml:2:23: listeners.mqtt_tls: certificate '{name}': File name too long",
    ]


def test_files_of_rest_delivery_points_are_looked_at(tmp_path: Path) -> None:
    """As those of ports and accounts are; else the point would not start, and only the log would say why."""
    certificates = make_certificates(tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(b"\xff")
    tls = "tls_enabled: true, tls_authorities_file"
    shown = "authentication_scheme: client-certificate, authentication_client_certificate_file"
    basic = "authentication_scheme: http-basic, authentication_http_basic_username: u"
    consumers = [
        f"{tls}: {tmp_path}/none",
        f"{tls}: {secret}",
        f"tls_enabled: true, {shown}: {certificates.client}, "
        f"authentication_client_certificate_key_file: {certificates.server_key}",
        f"{basic}, authentication_http_basic_password_file: {tmp_path}/none",
        f"{basic}, authentication_http_basic_password_file: {secret}",
        f"{tls}: {certificates.authority}",
    ]
    lines = [f"        - {{name: c{number}, remote_host: h, {each}}}" for number, each in enumerate(consumers)]
    resting = "      enabled: false\n      rest_consumers: [" + lines[0].strip(" -") + "]\n"
    text = "vpns:\n  sales:\n    rest_delivery_points:\n    - name: p\n      rest_consumers:\n" + "\n".join(lines)
    found = problems_of(f"{text}\n    - name: resting\n{resting}", tmp_path)
    at = "vpns.sales.rest_delivery_points.0.rest_consumers"
    assert found == [
        f"gate.yaml:6:11: {at}.0: tls_authorities_file {tmp_path}/none: No such file or directory",
        f"gate.yaml:7:11: {at}.1: tls_authorities_file {secret}: this is not certificates in PEM "
        "(NO_CERTIFICATE_OR_CRL_FOUND)",
        f"gate.yaml:8:11: {at}.2: certificate {certificates.client} with key {certificates.server_key}: "
        "this is not a certificate and its own key, both in PEM (KEY_VALUES_MISMATCH)",
        f"gate.yaml:9:11: {at}.3: authentication_http_basic_password_file '{tmp_path}/none': No such file or directory",
        f"gate.yaml:10:11: {at}.4: the first line of {secret} is not UTF-8 text",
    ]


def test_a_truth_is_no_number(tmp_path: Path) -> None:
    """Python counts it as 1: the gateway would listen on port 1."""
    for path, field, value in leaves(Config()):
        if isinstance(value, int | float) and not isinstance(value, bool):
            *sections, name = path.split(".")
            text = "".join([f"{{{each}: " for each in sections]) + f"{{{name}: true}}" + "}" * len(sections)
            (found,) = problems_of(text, tmp_path)
            assert found.endswith(f": {path}: true is not allowed; allowed: {allowed_by(field)}")
    assert problems_of("listeners: {mqtt: {port: true}}", tmp_path) == [
        "gate.yaml:1:26: listeners.mqtt.port: true is not allowed; allowed: a whole number from 0 to 65535"
    ]


@pytest.mark.parametrize(("written", "port"), [("0777", 777), ("'0777'", 777), ("1_883", 1883), ("0x75B", 1883)])
def test_a_number_is_what_its_digits_say(written: str, port: int, tmp_path: Path) -> None:
    """To YAML 1.1 a zero in front makes it octal."""
    file = tmp_path / "gate.yaml"
    file.write_text(f"listeners: {{mqtt: {{port: {written}}}}}")
    assert load(file).listeners.mqtt.port == port


@pytest.mark.parametrize("value", ["yes", "12:30", "1e3", "0b11", "2026-01-01"])
def test_an_invalid_number_is_reported_as_it_was_written(value: str, tmp_path: Path) -> None:
    """To YAML 1.1 `12:30` is 750 seconds, and `yes` is true."""
    assert problems_of(f"listeners: {{mqtt: {{port: {value}}}}}", tmp_path) == [
        f"gate.yaml:1:26: listeners.mqtt.port: '{value}' is not allowed; allowed: a whole number from 0 to 65535"
    ]


@pytest.mark.parametrize("value", ["yes", "off", "n", "0777", "12:30", "2026-01-01", "2026-01-01 10:00:00", "1e3", "="])
def test_a_text_is_what_it_says_with_quotes_and_without(value: str, tmp_path: Path) -> None:
    """Also as an item of a list, and in one that comes from outside."""
    text = f"data: {{path: {value}}}\n"
    text += f"queues: {{declared: [{{name: {value}, owner: {value}, subscriptions: [{value}, '{value}']}}]}}\n"
    file = tmp_path / "gate.yaml"
    file.write_text(text)
    config = load(file, settings=[f"authentication.users=[{{name: {value}, password_file: {file}}}]"])
    assert (str(config.data.path), config.authentication.users[0].name) == (value, value)
    (queue,) = config.queues.declared
    assert (queue.config.name, queue.config.owner, set(queue.subscriptions)) == (value, value, {value})


@pytest.mark.parametrize(
    ("word", "truth"), [("yes", True), ("On", True), ("TRUE", True), ("no", False), ("off", False)]
)
def test_a_truth_may_be_said_in_words(word: str, truth: bool, tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(f"spool: {{sync: {word}}}\nqueues: {{declared: [{{name: q, egress_enabled: '{word}'}}]}}\n")
    config = load(file)
    assert (config.spool.sync, config.queues.declared[0].config.egress_enabled) == (truth, truth)


@pytest.mark.parametrize(("value", "shown"), [("5", "5"), ("true", "true"), ("1.50", "1.5")])
def test_a_text_that_looks_like_a_number_or_a_truth_wants_quotes(value: str, shown: str, tmp_path: Path) -> None:
    text = f"data: {{path: {value}}}\nauthentication:\n  users:\n    - {{name: {value}, password: {value}}}\n"
    assert problems_of(text, tmp_path) == [
        f"gate.yaml:1:14: data.path: {shown} is not allowed; allowed: a path, in quotes",
        f"gate.yaml:4:14: authentication.users.0.name: {shown} is not allowed; "
        f"allowed: a text of 1 to 255 characters, in quotes",
        f"gate.yaml:4:{26 + len(value)}: authentication.users.0.password: this value is not allowed; "
        f"allowed: a text, in quotes",
    ]


def test_a_wrong_item_of_a_list_is_reported_with_the_form_of_an_item(tmp_path: Path) -> None:
    text = (
        "authentication:\n  acl_profiles:\n    - {name: p, publish_topic_exceptions: [x]}\nrest_delivery_points: [a]\n"
    )
    exception, point = problems_of(text, tmp_path)
    where = "gate.yaml:3:44: authentication.acl_profiles.0.publish_topic_exceptions.0"
    assert exception == f"{where}: 'x' is not allowed; allowed: a mapping with some of the keys topic, syntax"
    assert "rest_delivery_points.0: 'a' is not allowed; allowed: a mapping with some of the keys name, enabled" in point


def test_a_rule_of_a_whole_list_says_what_breaks_it(tmp_path: Path) -> None:
    assert problems_of("rest_delivery_points: [{name: a}, {name: a}]\n", tmp_path) == [
        "gate.yaml:1:23: rest_delivery_points: the name 'a' appears 2 times"
    ]


def test_a_wrong_key_gets_a_guess_and_the_list(tmp_path: Path) -> None:
    assert problems_of("log:\n  levle: info\n", tmp_path) == [
        "gate.yaml:2:3: log.levle: there is no such key (did you mean 'level'?); allowed: level, format, audit_file"
    ]


def test_every_problem_is_named_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "log: {format: xml}\nspool: 5\nmqtt:\n  maximum_packet_size: 16 gigs\n"
    text += "authentication: {allow_anonymous: maybe}\n"
    assert problems_of(text, tmp_path) == [
        "gate.yaml:1:15: log.format: 'xml' is not allowed; allowed: one of: text, json",
        "gate.yaml:2:8: spool: 5 is not allowed; allowed: a mapping with some of the keys map_bytes_max, "
        "usage_bytes_max, memory_bytes_max, usage_threshold, commit_interval_ms, sync",
        "gate.yaml:4:24: mqtt.maximum_packet_size: '16 gigs' is not allowed; allowed: a size from 1 KiB to "
        "268435455 B, such as '1 MiB'",
        "gate.yaml:5:35: authentication.allow_anonymous: 'maybe' is not allowed; allowed: true, false or on-loopback",
    ]


def test_a_field_is_named_inside_its_queue_template(tmp_path: Path) -> None:
    text = "queues:\n  templates:\n    - name: t\n    - name: u\n      queue_name_filter: u/>\n      ownr: me\n"
    text += "    - name: v\n      queue_name_filter: v\n      max_ttl: soon\n"
    found = problems_of(text, tmp_path)
    assert found[0] == (
        "gate.yaml:3:7: queues.templates.0.queue_name_filter: it is missing; "
        "allowed: levels between '/' or '.', in which `*` ends a level or is one, and `>` is the last level"
    )
    assert found[1].startswith("gate.yaml:6:7: queues.templates.1.ownr: there is no such key")
    assert found[2].startswith("gate.yaml:9:16: queues.templates.2.max_ttl: 'soon' is not allowed; allowed: a whole")


def test_a_queue_attribute_is_named_inside_its_queue(tmp_path: Path) -> None:
    text = (
        "queues:\n  declared:\n    - name: orders\n      partition_count: 8\n    - name: b\n      max_tll: 3\n    - 7\n"
    )
    found = problems_of(text, tmp_path)
    assert found[0] == (
        "gate.yaml:4:24: queues.declared.0.partition_count: 8 partitions on an exclusive queue; "
        "allowed: 0, or access_type non-exclusive"
    )
    assert found[1].startswith(
        "gate.yaml:6:7: queues.declared.1.max_tll: there is no such key (did you mean 'max_ttl'?); allowed: name, "
    )
    assert found[2] == (
        "gate.yaml:7:7: queues.declared.2: 7 is not allowed; "
        "allowed: a mapping with the name of a queue, and its attributes"
    )


@pytest.mark.parametrize(
    ("attribute", "shown"),
    [
        ("max_ttl: true", "true"),
        ("dead_msg_queue: false", "false"),
        ("max_ttl: [1]", "a list"),
        ("dead_msg_queue:", "nothing"),
    ],
)
def test_a_wrong_queue_attribute_is_reported_as_the_file_spells_it(attribute: str, shown: str, tmp_path: Path) -> None:
    for section in (
        "queues: {declared: [{name: q, %s}]}",
        "queues: {defaults: {%s}}",
        "queues: {templates: [{name: t, queue_name_filter: a, %s}]}",
    ):
        (found,) = problems_of(section % attribute, tmp_path)
        assert f": {shown} is not allowed; allowed: " in found


@pytest.mark.parametrize("value", ["!!int ''", "!!float ''", "!!bool maybe", "!!timestamp soon"])
def test_a_value_that_is_not_what_it_is_said_to_be_is_refused(value: str, tmp_path: Path) -> None:
    (found,) = problems_of(f"listeners: {{mqtt: {{port: {value}}}}}", tmp_path)
    assert found.startswith("gate.yaml:1:26: listeners.mqtt.port: this value cannot be read")


def test_invalid_yaml_is_refused_with_the_position(tmp_path: Path) -> None:
    assert problems_of("a: [1\nb: 2\n", tmp_path)[0].startswith("gate.yaml:2:2: this is not YAML: ")


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    assert problems_of("log:\n  level: info\n  level: debug\n", tmp_path) == [
        "gate.yaml:3:3: log.level: duplicate key; first in line 2"
    ]


@pytest.mark.parametrize("text", ["- a\n", "7\n", "just words\n"])
def test_a_file_without_sections_is_refused(text: str, tmp_path: Path) -> None:
    assert problems_of(text, tmp_path)[0].endswith("is not a mapping of sections")


def test_aliases_of_aliases_end(tmp_path: Path) -> None:
    """A file of a kilobyte must not become a gigabyte."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert problems_of("\n".join(lines), tmp_path)[0].endswith("the file has more than 100000 values, aliases expanded")


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: " + "[" * 51, "a: " + "[" * 5000])
def test_too_deep_documents_are_refused(text: str, tmp_path: Path) -> None:
    """An alias of what it stands in has no end."""
    text += "]" * (text.count("[") - text.count("]"))
    assert problems_of(text, tmp_path)[0].endswith("the file has values more than 50 deep, aliases expanded")


@pytest.mark.parametrize("section", ["data", "backup"])
def test_an_empty_folder_is_none(section: str, tmp_path: Path) -> None:
    """`--data "$UNSET"` would put a spool into the working directory."""
    assert problems_of(f"{section}: {{path: ''}}", tmp_path) == [
        f"gate.yaml:1:{len(section) + 10}: {section}.path: it is empty; allowed: a path, '.' for the working directory"
    ]


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: the file cannot be read: No such file or directory"):
        load(tmp_path / "none.yaml")


def test_a_variable_and_an_argument_are_places_too(tmp_path: Path) -> None:
    assert problems_of("", tmp_path, SLUICEGATE_LOG__LEVEL="loud") == [
        "environment SLUICEGATE_LOG__LEVEL: log.level: 'loud' is not allowed; "
        "allowed: one of: debug, info, warning, error"
    ]
    with pytest.raises(ConfigError, match=r"^--set log\.levl: there is no such key \(did you mean 'level'\?\)"):
        load(settings=["log.levl=info"])
    with pytest.raises(ConfigError, match=r"^--set: 'log' has no '='; write --set listeners\.mqtt\.port=1884"):
        load(settings=["log"])


def test_a_path_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the list has 1 items, and the next is 1; or set the whole list with \["):
        load(settings=["queues.declared=[{name: q}]", "queues.declared.2.name=r"])
    with pytest.raises(ConfigError, match=r"queues\.declared is a list, where 'q' leads nowhere"):
        load(settings=["queues.declared=[]", "queues.declared.q.name=q"])


def test_a_tls_listener_needs_files_that_exist(tmp_path: Path) -> None:
    text = "listeners:\n  mqtt_tls:\n    enabled: true\n    certificate: /nowhere/c.pem\n    key: /nowhere/k.pem\n"
    assert problems_of(text, tmp_path) == [
        "gate.yaml:3:5: listeners.mqtt_tls: certificate: there is no file '/nowhere/c.pem'"
    ]


def test_two_listeners_cannot_have_one_port(tmp_path: Path) -> None:
    text = "listeners:\n  mqtt: {port: 8000}\n"
    assert problems_of(text, tmp_path) == [
        "gate.yaml:1:1: listeners.mqtt_websocket and listeners.mqtt both want 127.0.0.1:8000"
    ]


def test_a_plain_password_in_the_file_is_refused_and_never_shown(tmp_path: Path) -> None:
    text = "authentication:\n  users:\n    - name: ann\n      password: hunter2\n"
    (problem,) = problems_of(text, tmp_path)
    assert problem == (
        "gate.yaml:4:17: authentication.users.0.password: a plain password stands here; allowed: the output of "
        "`sluicegate hash-password`, or password_file, or "
        "SLUICEGATE_AUTHENTICATION__USERS__0__PASSWORD in the environment"
    )


def test_an_idle_timeout_that_no_client_could_keep_to_is_refused(tmp_path: Path) -> None:
    """AMQP 2.4.5: half of it is announced. The gateway did not start with it."""
    assert problems_of("amqp: {idle_timeout_s: 1}", tmp_path) == [
        "gate.yaml:1:7: amqp: idle_timeout_s is 1, and clients would have half a second; allowed: 0, or 2 and more"
    ]
    assert load(settings=["amqp.idle_timeout_s=2"]).amqp.idle_timeout_s == 2


@pytest.mark.parametrize(
    "secret",
    [
        "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ",
        "$argon2id$",
        "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk",
        "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmV:c2VydmVy",
    ],
)
def test_a_hash_that_was_cut_off_is_a_mistake(tmp_path: Path, secret: str) -> None:
    """Nobody could log in with it."""
    file = tmp_path / "ann"
    file.write_text(secret + "\n")
    mistake = "begins like a hash and is none; allowed: a whole one, as of `sluicegate hash-password`"
    assert problems_of(f"authentication:\n  users:\n    - {{name: ann, password_file: {file}}}\n", tmp_path) == [
        f"gate.yaml:3:7: authentication.users.0: password_file {str(file)!r} {mistake}"
    ]
    text = f"vpns:\n  sales:\n    authentication:\n      users: [{{name: ann, password: '{secret}'}}]\n"
    assert problems_of(text, tmp_path) == [f"gate.yaml:4:15: vpns.sales.authentication.users.0: password {mistake}"]
