"""Where settings come from, and which source wins."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.config.allowed import allowed_by, leaves
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.reload import RELOADABLE, diff, is_reloadable
from sluicegate.gateway.config.sections.values import UNITS, format_size, parse_size, rounded_size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gate.yaml"
    path.write_text("listeners:\n  mqtt: {port: 2000}\nspool: {memory_bytes_max: 64 MiB}\n")
    return path


def test_file_beats_defaults_environment_beats_file_and_arguments_beat_all(file: Path) -> None:
    name = "SLUICEGATE_LISTENERS__MQTT__PORT"
    assert load().listeners.mqtt.port == 1883
    assert load(file).listeners.mqtt.port == 2000
    assert load(file, environment={name: "3000"}).listeners.mqtt.port == 3000
    assert load(file, environment={name: "3000"}, settings=["listeners.mqtt.port=0"]).listeners.mqtt.port == 0
    assert load(file, environment={name: "3000"}).spool.memory_bytes_max == 64 << 20


def test_of_two_arguments_the_later_wins() -> None:
    assert load(settings=["log.level=debug", "log.level=error"]).log.level == "error"


def test_variables_of_kubernetes_are_not_settings() -> None:
    """A service called sluicegate puts these into every pod."""
    environment = {
        "SLUICEGATE_PORT": "tcp://10.0.0.1:1883",
        "SLUICEGATE_SERVICE_HOST": "10.0.0.1",
        "SLUICEGATE_URL": "x",
    }
    assert load(environment=environment) == Config()


def test_lists_and_their_items_can_be_set_from_outside() -> None:
    config = load(
        settings=["queues.declared=[{name: a, subscriptions: [x/>]}, {name: b}]", "queues.declared.1.max_ttl=7"]
    )
    assert [queue.config.name for queue in config.queues.declared] == ["a", "b"]
    assert config.queues.declared[0].subscriptions == ("x/>",)
    assert config.queues.declared[1].config.max_ttl == 7


@pytest.mark.parametrize("value", ["[a", "[!!int '']", "[&a [*a]]", "[" * 100 + "]" * 100, "{a: 1, a: 2}"])
def test_a_setting_that_starts_like_a_list_and_is_none_is_reported(value: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^--set queues.declared: .* starts like a YAML list or mapping, but is not one: "
    ):
        load(settings=[f"queues.declared={value}"])


def test_items_are_made_one_behind_the_other_where_there_are_none() -> None:
    """docs/operate/configuration.md; of variables the tenth comes behind the second."""
    users = {f"SLUICEGATE_AUTHENTICATION__USERS__{n}__NAME": f"u{n}" for n in range(11)}
    passwords = {f"SLUICEGATE_AUTHENTICATION__USERS__{n}__PASSWORD": f"p{n}" for n in range(11)}
    made = load(environment=users | passwords).authentication.users
    assert [(user.name, user.secret()) for user in made] == [(f"u{n}", f"p{n}") for n in range(11)]
    config = load(settings=["queues.declared.0.name=q", "queues.declared.0.subscriptions.0=t"])
    assert config.queues.declared[0].subscriptions == ("t",)


def test_a_variable_is_in_capitals_whatever_a_message_vpn_is_called(tmp_path: Path) -> None:
    """A plain password is told which variable may have it, and that one may."""
    file = tmp_path / "gate.yaml"
    file.write_text("vpns: {SaleS: {authentication: {users: [{name: ann, password: plain}]}}}")
    variable = "SLUICEGATE_VPNS__SALES__AUTHENTICATION__USERS__0__PASSWORD"
    with pytest.raises(ConfigError, match=f"or {variable} in the environment"):
        load(file)
    config = load(file, environment={variable: "secret"})
    assert config.message_vpn("SaleS").authentication.users[0].secret() == "secret"
    assert list(config.vpns) == ["SaleS"]


def test_declared_queues_take_the_defaults_they_do_not_set() -> None:
    config = load(settings=["queues.defaults={max_ttl: 9}", "queues.declared=[{name: a}, {name: b, max_ttl: 1}]"])
    assert [queue.config.max_ttl for queue in config.queues.declared] == [9, 1]


def test_a_secret_from_the_environment_may_be_plain_and_is_not_printed() -> None:
    config = load(
        settings=[
            "authentication.users=[{name: ann, password: '$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$MTIzNDU2Nzg5MDEy'}]"
        ],
        environment={"SLUICEGATE_AUTHENTICATION__USERS": "[{name: ann, password: hunter2}]"},
    )
    assert config.authentication.users[0].is_hashed()
    plain = load(environment={"SLUICEGATE_AUTHENTICATION__USERS": "[{name: ann, password: hunter2}]"})
    assert plain.authentication.users[0].secret() == "hunter2"
    assert "hunter2" not in repr(plain) + plain.model_dump_json()


def test_a_password_file_holds_the_secret_in_its_first_line(tmp_path: Path) -> None:
    secret = tmp_path / "ann"
    secret.write_text("s3cret\n")
    config = load(settings=[f"authentication.users=[{{name: ann, password_file: {secret}}}]"])
    assert config.authentication.users[0].secret() == "s3cret"


@pytest.mark.parametrize("section", ["admin", "authentication"])
def test_an_empty_password_is_none(tmp_path: Path, section: str) -> None:
    """Whoever shows no password would have the right one."""
    secret = tmp_path / "ann"
    secret.write_text("\ns3cret\n")
    with pytest.raises(ConfigError, match="is empty; allowed: a password"):
        load(settings=[f"{section}.users=[{{name: ann, password_file: {secret}}}]"])
    variable = f"SLUICEGATE_{section.upper()}__USERS"
    with pytest.raises(ConfigError, match="is empty; allowed: a password"):
        load(environment={variable: "[{name: ann, password: ''}]"})


def test_anonymous_clients_are_let_in_on_loopback_only_unless_said_otherwise() -> None:
    default = load().authentication
    assert default.anonymous_allowed_on("127.0.0.1")
    assert default.anonymous_allowed_on("::1")
    assert not default.anonymous_allowed_on("0.0.0.0")
    assert not load(settings=["authentication.allow_anonymous=false"]).authentication.anonymous_allowed_on("127.0.0.1")
    assert load(settings=["authentication.allow_anonymous=true"]).authentication.anonymous_allowed_on("0.0.0.0")


def test_a_node_out_of_the_box_listens_on_loopback_without_tls() -> None:
    config = load()
    assert set(config.listeners.enabled()) == {"amqp", "flow", "http", "mqtt", "mqtt_websocket"}
    assert {listener.host for listener in config.listeners.by_name().values()} == {config.admin.host} == {"127.0.0.1"}


def test_a_quota_larger_than_the_file_that_holds_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^--set spool\.map_bytes_max: spool: usage_bytes_max is larger"):
        load(settings=["spool.map_bytes_max=20 MiB"])


def test_the_difference_says_what_needs_a_restart() -> None:
    changes = diff(load(), load(settings=["log.level=debug", "spool.sync=false", "authentication.users=[]"]))
    assert [str(change) for change in changes.reloadable] == ["log.level: info -> debug"]
    assert [str(change) for change in changes.restart_needed] == ["spool.sync: true -> false"]


def test_lists_are_told_by_what_their_items_are_called() -> None:
    """A queue has forty attributes; which of them differ is in the file."""
    one = load(
        settings=["queues.declared=[{name: a}]", "tracing.topics=[t/>]", "vpns={x: {queues: {declared: [{name: b}]}}}"]
    )
    two = load(settings=["queues.declared=[{name: a, max_ttl: 1}]", "vpns={x: {}}"])
    assert [str(change) for change in diff(one, two).reloadable] == [
        "vpns.x.queues.declared: [b] -> []",
        "queues.declared changed",
    ]
    assert [str(change) for change in diff(one, two).restart_needed] == ["tracing.topics: [t/>] -> []"]


def test_settings_of_connections_are_reloadable() -> None:
    settings = ["http.keep_alive_s=5", "listeners.amqp.vpn=sales", "vpns={sales: {}}"]
    changes = diff(load(settings=["vpns={sales: {}}"]), load(settings=settings))
    assert [str(change) for change in changes.reloadable] == [
        "listeners.amqp.vpn: default -> sales",
        "http.keep_alive_s: 60 -> 5",
    ]
    assert not changes.restart_needed


def test_reloadable_paths_exist() -> None:
    paths = [path for path, _, _ in leaves(load())]
    for known in RELOADABLE:
        assert any(path == known or path.startswith(known + ".") for path in paths), known
    assert not is_reloadable("listeners.mqtt.port")
    assert not is_reloadable("log_level")


def test_every_setting_can_say_what_is_allowed() -> None:
    for path, field, _ in leaves(load()):
        assert len(allowed_by(field)) > 5, path


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512", 512), ("16 GiB", 16 << 30), ("256MB", 256_000_000), ("1.5 MiB", 3 << 19), (" 4 kb ", 4000)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1 gig", "1e3", "0.3 B", "1.0000000001 kB", "9" * 16])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|unit|bytes"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (70 << 30, "70.0 GiB"), (64 << 40, "64.0 TiB")]
)
def test_sizes_that_people_look_at_are_rounded(size: int, text: str) -> None:
    assert rounded_size(size) == text


@pytest.mark.parametrize("text", ["10 GB", "16 MB", "1 TB", "10 GiB", "1000 MiB", "1536 KiB", "5 kB", "1023 B"])
def test_a_size_is_printed_in_the_largest_unit_in_which_it_is_whole(text: str) -> None:
    assert format_size(parse_size(text)) == text


@given(st.integers(0, 10**6), st.sampled_from(sorted(UNITS)))
def test_a_size_that_was_printed_reads_back(number: int, unit: str) -> None:
    size = parse_size(f"{number} {unit}")
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize("value", ["true", "false", "on-loopback"])
def test_a_message_vpn_inherits_whether_clients_need_an_account(value: str) -> None:
    top = f"authentication.allow_anonymous={value}"
    config = load(settings=[top, "vpns.sales.enabled=true", "vpns.lab.authentication.allow_anonymous=false"])
    assert config.message_vpn("sales").authentication.allow_anonymous == config.authentication.allow_anonymous
    assert config.message_vpn("lab").authentication.allow_anonymous is False
