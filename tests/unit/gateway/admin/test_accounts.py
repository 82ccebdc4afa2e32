"""Accounts of operators: who comes in at the admin port, how far each may go, and what is told of it."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.admin.app import OPERATIONS
from sluicegate.gateway.admin.operation import OPEN
from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.sections.admin import ANONYMOUS_ADMIN, AccessLevel, Admin
from sluicegate.gateway.security.credentials import ConfiguredCredentials, read_credentials
from sluicegate.gateway.security.operators import NotSignedIn, Operators
from sluicegate.gateway.views.node.runtime import ReloadView
from sluicegate.messaging.observability.events import (
    SYSTEM_ADMIN_COMMAND,
    SYSTEM_ADMIN_QUERY,
    SYSTEM_LOGIN_DENIED,
    Event,
)
from sluicegate.protocols.security.login_attempts import FREE_OF_HOST, FREE_OF_USER
from sluicegate.protocols.security.password_checks import PasswordChecks
from support.cores.lone_actors import lone_runtime, recorder, turn
from support.cores.set_clock import SetClock
from support.network.tokens import AUDIENCE, ISSUER, TokenServer
from support.operations.admin_accounts import LEVELS, ask, basic, configured
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin, running_admin
from support.operations.shell import Shell


@pytest.fixture
def events() -> Events:
    return Events(SystemClock())


@pytest.fixture
def guarded(node: MemoryNode, events: Events) -> Iterator[RunningAdmin]:
    with running_admin(node, admin=configured(), events=events) as running:
        yield running


def told(events: Events, kind: object) -> list[Event]:
    return [each for _, each in events.record.recent(0, 1000) if each.kind is kind]


def test_an_anonymous_request_is_asked_for_a_password(guarded: RunningAdmin, events: Events) -> None:
    """RFC 7617: browsers ask by themselves when they are challenged; that is no failed attempt."""
    for path in ("/queues", "/", "/metrics", "/nowhere"):
        answer = guarded.ask("GET", path)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith('Basic realm="sluicegate", charset="UTF-8"')
    assert told(events, SYSTEM_LOGIN_DENIED) == []


def test_probes_need_no_account(guarded: RunningAdmin) -> None:
    assert [guarded.ask("GET", path).status for path in sorted(OPEN)] == [200, 200, 200]


@pytest.mark.parametrize(("probes_only", "path"), [(False, "/health/live"), (True, "/health/live"), (True, "/nowhere")])
def test_clients_without_an_account_cannot_fill_the_audit_log(
    node: MemoryNode, events: Events, probes_only: bool, path: str
) -> None:
    """What operators did is never left out of it; so what strangers try to change is not told of there."""
    with running_admin(node, admin=configured(), events=events, probes_only=probes_only) as running:
        assert running.ask("POST", path).status in (404, 405)
    assert told(events, SYSTEM_ADMIN_COMMAND) == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (basic("reader", "guess"), 401),
        (basic("eve", "reader-word"), 401),
        (basic("", ""), 401),
        ({"Authorization": "Digest reader-word"}, 401),
        ({"Authorization": "Bearer a.b.c"}, 401),
        ({"Authorization": "Basic ?"}, 400),
    ],
)
def test_a_client_without_credentials_is_refused_and_reported(
    guarded: RunningAdmin, events: Events, headers: dict[str, str], status: int
) -> None:
    """docs/operate/security.md: refused in the protocol's words, counted, audited, and no secret in any of it."""
    answer = guarded.ask("GET", "/queues", headers=headers)
    assert answer.status == status
    texts = [each.text() for each in told(events, SYSTEM_LOGIN_DENIED)]
    assert len(texts) == (status == 401)
    assert not [text for text in [*texts, answer.body.decode()] if "guess" in text or "reader-word" in text]


def test_each_operation_asks_for_its_level(guarded: RunningAdmin) -> None:
    """An account of a lower one hears 403 and nothing else; whoever has it is let through to the operation."""
    for operation in OPERATIONS:
        path = operation.path.replace("{", "no-such-").replace("}", "")
        for_everybody = operation.path in OPEN or operation.id == "show_account"
        lowest = AccessLevel.READ_ONLY if operation.method == "GET" else AccessLevel.READ_WRITE  # of the guard
        needed = max(operation.level, AccessLevel.NONE if for_everybody else lowest)
        for name in ("nobody", "reader", "writer", "root"):
            answer = ask(guarded, name, operation.method, path, {} if operation.body else None)
            has = AccessLevel.of(LEVELS[name][0])
            assert (answer.status == 403) == (has < needed), (operation.id, name, answer)


def test_levels_of_a_message_vpn_hold_there_and_nowhere_else(guarded: RunningAdmin) -> None:
    """solace.md 9: a global level and one per message VPN, with exceptions; the higher one counts."""
    assert ask(guarded, "tenant", "POST", "/queues", {"name": "q"}).status == 201
    assert ask(guarded, "tenant", "GET", "/message-vpns").status == 403
    assert ask(guarded, "tenant", "GET", "/queues?vpn=other").status == 403
    assert ask(guarded, "guest", "GET", "/queues").status == 403
    assert ask(guarded, "guest", "GET", "/queues?vpn=other").status == 404
    assert ask(guarded, "guest", "DELETE", "/queues/q").status == 403


SEMP_QUEUES: Final = "/SEMP/v2/config/msgVpns/default/queues"


def test_files_of_the_node_are_pushed_nowhere_but_by_an_admin(guarded: RunningAdmin) -> None:
    """Whoever may change a message VPN could have the passwords of others sent to a web server of their own."""
    consumer = {"name": "one", "remote_host": "web"}
    header = {"authentication_scheme": "http-header", "authentication_http_header_name": "X"}
    secret = {**consumer, **header, "authentication_http_header_value_file": "/run/secrets/root"}
    path = "/rest-delivery-points"
    for name in ("tenant", "writer"):
        assert ask(guarded, name, "POST", path, {"name": name, "rest_consumers": [secret]}).status == 403
        assert ask(guarded, name, "POST", path, {"name": name, "rest_consumers": [consumer]}).status == 201
        assert ask(guarded, name, "PATCH", f"{path}/{name}", {"rest_consumers": [consumer, secret]}).status == 403
        assert ask(guarded, name, "PATCH", f"{path}/{name}", {"enabled": False}).status == 200
    assert ask(guarded, "root", "PATCH", f"{path}/tenant", {"rest_consumers": [secret]}).status == 200


def test_semp_asks_for_the_levels_of_the_message_vpn_in_its_path(guarded: RunningAdmin, events: Events) -> None:
    """solace.md 10: 72 UNAUTHORIZED, in SEMP's own envelope."""
    made = ask(guarded, "tenant", "POST", SEMP_QUEUES, {"queueName": "q"})
    assert made.status == 200
    assert ask(guarded, "tenant", "GET", "/SEMP/v2/monitor/msgVpns/default/queues/q").status == 200
    assert ask(guarded, "tenant", "GET", "/SEMP/v2/monitor/about/api").status == 200
    assert ask(guarded, "reader", "GET", "/SEMP/v2/monitor/msgVpns").status == 200
    for name, method, path in (
        ("tenant", "GET", "/SEMP/v2/monitor/msgVpns"),
        ("tenant", "DELETE", "/SEMP/v2/config/msgVpns/other/queues/q"),
        ("guest", "GET", SEMP_QUEUES),
    ):
        refused = ask(guarded, name, method, path)
        assert refused.status == 403
        assert b'"code":72' in refused.body
        assert b'"UNAUTHORIZED"' in refused.body
    assert b'"code":72' in ask(guarded, "reader", "DELETE", f"{SEMP_QUEUES}/q").body
    stranger = guarded.ask("GET", SEMP_QUEUES)
    assert (stranger.status, b'"code":72' in stranger.body) == (401, True)
    assert "basic" in stranger.headers["www-authenticate"].lower()
    assert ask(guarded, "writer", "DELETE", f"{SEMP_QUEUES}/q").status == 200
    changes = [each.details or {} for each in told(events, SYSTEM_ADMIN_COMMAND)]
    assert [(each["account"], each["operation"], each["vpn"], each["status"]) for each in changes] == [
        ("tenant", "semp_config", "default", "200"),
        ("tenant", "semp_config", "other", "403"),
        ("reader", "", "-", "403"),
        ("writer", "semp_config", "default", "200"),
    ]


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("root", "/account", ["root", "admin", "admin"]),
        ("reader", "/account", ["reader", "read-only", "read-only"]),
        ("tenant", "/account", ["tenant", "none", "read-write"]),
        ("tenant", "/account?vpn=other", ["tenant", "none", "none"]),
        ("guest", "/account?vpn=other", ["guest", "none", "read-only"]),
        ("nobody", "/account", ["nobody", "none", "none"]),
    ],
)
def test_an_account_can_ask_how_far_it_may_go(guarded: RunningAdmin, name: str, path: str, expected: list[str]) -> None:
    if path.endswith("other"):
        assert ask(guarded, name, "GET", path).status == 404  # the node of this test has one message VPN
        return
    view = ask(guarded, name, "GET", path).json()
    assert [view["name"], view["global_access_level"], view["msg_vpn_access_level"]] == expected


def test_who_may_do_nothing_may_ask_for_nothing_else(guarded: RunningAdmin) -> None:
    for method, path in (("POST", "/account"), ("GET", "/account/"), ("GET", "/"), ("GET", "/console/"), ("GET", "/x")):
        assert ask(guarded, "nobody", method, path).status == 403
    assert ask(guarded, "nobody", "HEAD", "/account").status == 200
    assert guarded.ask("GET", "/account").status == 401


def test_without_accounts_every_local_client_may_do_everything(admin: RunningAdmin) -> None:
    view = admin.ask("GET", "/account").json()
    assert view == {"name": "", "global_access_level": "admin", "msg_vpn_access_level": "admin"}
    assert admin.ask("POST", "/queues", {"name": "q"}).status == 201


def test_every_change_is_reported_with_operator_action_and_result(guarded: RunningAdmin, events: Events) -> None:
    """docs/operate/security.md, audit log: account, operation, path and result; never the body."""
    ask(guarded, "writer", "POST", "/users", {"name": "ada", "password": "the-secret"})
    ask(guarded, "reader", "GET", "/users")
    ask(guarded, "reader", "DELETE", "/users/ada")
    ask(guarded, "writer", "DELETE", "/users/eva?vpn=default")
    ask(guarded, "writer", "POST", "/configuration/reload")
    changes = told(events, SYSTEM_ADMIN_COMMAND)
    details = [each.details or {} for each in changes]
    assert [(each["account"], each["operation"], each["vpn"], each["status"]) for each in details] == [
        ("writer", "create_user", "default", "201"),
        ("reader", "", "-", "403"),  # it may change nothing anywhere, whatever it was to be
        ("writer", "delete_user", "default", "404"),
        ("writer", "reload", "-", "403"),
    ]
    assert [(each["method"], each["path"]) for each in details][1] == ("DELETE", "/users/ada")
    assert changes[0].text().endswith("'writer' from 127.0.0.1: POST /users was answered with 201")
    assert "the-secret" not in str([(each.text(), each.details) for each in changes])


def test_reads_are_in_the_audit_log_and_not_among_the_events(guarded: RunningAdmin, events: Events) -> None:
    """docs/operate/security.md, audit log: consoles and scripts read every few seconds."""
    logged: list[object] = []
    with lone_runtime() as runtime:
        events.record.log = recorder(runtime, logged).inbox
        for name, path in (
            ("reader", "/queues"),
            ("nobody", "/queues"),
            ("reader", "/metrics"),
            ("reader", "/console/"),
        ):
            ask(guarded, name, "GET", path)
        ask(guarded, "reader", "DELETE", "/queues/q")
        turn(runtime)
    told_to_the_log = [each for each in logged if isinstance(each, Event)]
    queries = [each.details or {} for each in told_to_the_log if each.kind is SYSTEM_ADMIN_QUERY]
    assert [(each["account"], each["path"], each["status"]) for each in queries] == [
        ("reader", "/queues", "200"),
        ("nobody", "/queues", "403"),
    ]
    assert [event.kind for _, event in events.record.recent(0, 100)] == [SYSTEM_ADMIN_COMMAND]
    assert SYSTEM_ADMIN_QUERY.name not in events.record.counts


def test_no_flood_of_changes_leaves_a_gap_in_the_audit(admin: RunningAdmin) -> None:
    """Other events are cut at 200; these are not."""
    events = Events(SystemClock())
    for number in range(500):
        events.emit(SYSTEM_ADMIN_COMMAND, str(number))
        events.emit(SYSTEM_LOGIN_DENIED, str(number))
    assert len(told(events, SYSTEM_ADMIN_COMMAND)) == 500
    assert events.record.suppressed.keys() == {SYSTEM_LOGIN_DENIED.name}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain;charset=UTF-8"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Sec-Fetch-Site": "same-origin"}, 404),
        ({}, 404),
    ],
)
def test_a_foreign_page_changes_nothing_with_the_password_a_browser_adds(
    guarded: RunningAdmin, headers: dict[str, str], status: int
) -> None:
    """Fetch standard: what a page may send without asking first is a form, and browsers say where a page is from."""
    sent = basic("root", "root-word") | headers
    assert guarded.ask("POST", "/queues/no-such/purge", b"", sent).status == status


class Door:
    """Accounts by themselves; waiting puts the clock forward."""

    def __init__(self, admin: Admin) -> None:
        self.clock = SetClock(1_700_000_000_000)
        self.accounts = Operators(
            admin,
            self._proofs(admin),
            checks=PasswordChecks(memory_bytes_max=256 << 20, clock=self.clock),
            clock=self.clock,
            wait=self._wait,
            random_bytes=Random(1).randbytes,
            events=Events(self.clock),
        )

    def configure(self, admin: Admin) -> None:
        """Go by another configuration."""
        self.accounts.configure(admin, self._proofs(admin))

    def _proofs(self, admin: Admin) -> ConfiguredCredentials:
        return read_credentials(admin.users, admin.oauth, self.clock.wall_ms)

    async def _wait(self, wait_ms: int) -> None:
        self.clock.at_ms += wait_ms

    def signs_in(self, authorization: str, host: str = "192.0.2.1") -> str:
        """Return the name of the account, or nothing."""
        try:
            return asyncio.run(self.accounts.account(authorization, host, loopback_only=False)).name
        except NotSignedIn:
            return ""


def test_who_guesses_waits_and_a_password_that_was_right_before_does_not_tell_itself() -> None:
    """As with clients: the fourth attempt of a name from an address waits, and each further one longer, right or wrong.

    Were a known one let in at once, guesses could be made as fast as they can be sent.
    """
    door = Door(configured())
    right, wrong = basic("root", "root-word")["Authorization"], basic("root", "guess")["Authorization"]
    assert door.signs_in(right) == "root"
    waits = []
    for _ in range(FREE_OF_USER + 3):
        began_ms = door.clock.at_ms
        assert door.signs_in(wrong) == ""
        waits.append(door.clock.at_ms - began_ms)
    assert waits[: FREE_OF_USER + 1] == [0] * FREE_OF_USER + [250]
    assert waits == sorted(waits)
    began_ms = door.clock.at_ms
    assert door.signs_in(right) == "root"
    assert door.clock.at_ms - began_ms >= waits[-1]


def test_a_logged_in_operator_does_not_wait_for_guesses_from_the_same_address() -> None:
    door = Door(configured())
    right = basic("root", "root-word")["Authorization"]
    assert door.signs_in(right) == "root"
    for number in range(FREE_OF_HOST):
        assert door.signs_in(basic(f"stranger{number}", "guess")["Authorization"]) == ""
    began_ms = door.clock.at_ms
    assert door.signs_in(right) == "root"
    assert door.clock.at_ms == began_ms
    assert door.signs_in(basic("writer", "writer-word")["Authorization"]) == "writer"
    assert door.clock.at_ms > began_ms


def test_verified_credentials_are_valid_until_the_accounts_change() -> None:
    """Another password, or an account that is gone, is in force with the next request."""
    door = Door(configured())
    right = basic("root", "root-word")["Authorization"]
    assert [door.signs_in(right), door.signs_in(right)] == ["root", "root"]
    others = configured()
    door.configure(others.model_copy(update={"users": others.users[:1]}))
    assert door.signs_in(right) == ""
    door.configure(configured())
    assert door.signs_in(right) == "root"


@pytest.mark.parametrize("without", [{"host": "127.0.0.1"}, {"enabled": False, "host": "0.0.0.0"}])
def test_a_reload_without_accounts_opens_no_port_that_others_reach(without: dict[str, object]) -> None:
    """docs/operate/configuration.md: `admin.host` and `admin.enabled` take a restart, and accounts do not."""
    door = Door(configured(host="0.0.0.0"))
    door.configure(Admin.model_validate(without))
    with pytest.raises(NotSignedIn):
        asyncio.run(door.accounts.account("", "192.0.2.1", loopback_only=False))
    assert asyncio.run(door.accounts.account("", "127.0.0.1", loopback_only=True)) is ANONYMOUS_ADMIN
    door.configure(configured(host="0.0.0.0"))
    assert door.signs_in(basic("root", "root-word")["Authorization"]) == "root"


def test_a_token_of_an_operator_is_believed_until_it_expires(tmp_path: Path) -> None:
    """RFC 6750, RFC 7519 4.1.4; who has a token and no account here has no access level."""
    server = TokenServer(tmp_path)
    oauth = {"jwks_file": server.jwks_file, "issuer": ISSUER, "audience": AUDIENCE}
    door = Door(Admin.model_validate({"oauth": oauth, "users": [{"name": "ada", "global_access_level": "admin"}]}))
    expires_s = door.clock.at_ms // 1000 + 600
    token = server.token(exp=expires_s)
    assert door.signs_in(f"Bearer {token}") == "ada"
    assert door.signs_in(basic("ada", token)["Authorization"]) == ""  # unless token_as_password
    assert door.signs_in(f"Bearer {server.token(sub='eve')}") == ""
    assert door.signs_in(f"Bearer {server.token(aud='another')}") == ""
    door.clock.at_ms = (expires_s + 3600) * 1000
    assert door.signs_in(f"Bearer {token}") == ""


HASH: Final = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$MTIzNDU2Nzg5MDEy"
ROOT: Final = f"admin.users=[{{name: root, password: '{HASH}', global_access_level: admin}}]"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["admin.host=0.0.0.0"], "0.0.0.0 can be reached from elsewhere, and there are no accounts"),
        (["admin.users=[{name: root}]"], "'root' has no password"),
        (["admin.users=[{name: root, password: plain}]"], "a plain password stands here"),
        ([f"admin.users=[{{name: root, password: '{HASH}', global_access_level: super}}]"], "read-write, admin"),
        ([f"admin.users=[{{name: a, password: '{HASH}'}}, {{name: a, password: '{HASH}'}}]"], "appears 2 times"),
        ([f"admin.users=[{{name: a, password: '{HASH}', password_file: f}}]"], "exactly one of"),
    ],
)
def test_an_invalid_account_is_reported(settings: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match="admin") as refused:
        load(None, settings=settings)
    assert words in str(refused.value)


def test_with_accounts_others_may_reach_the_port(tmp_path: Path) -> None:
    server = TokenServer(tmp_path)
    keys = [each.replace("authentication.", "admin.") for each in server.settings]
    assert load(None, settings=["admin.host=0.0.0.0", ROOT]).admin.users[0].account().name == "root"
    assert load(None, settings=["admin.host=0.0.0.0", "admin.users=[{name: ada}]", *keys]).admin.users[0].name == "ada"
    with pytest.raises(ConfigError, match="without users"):
        load(None, settings=keys)


def test_commands_say_who_they_are(guarded: RunningAdmin, node: MemoryNode, tmp_path: Path) -> None:
    """The password comes from a file or a variable, and never from the command line."""
    shell = Shell(guarded.url)
    file = tmp_path / "password"
    file.write_text("writer-word\n")
    refused = shell.run("queue", "list", expect=FAILED)
    assert "this port needs an account" in refused
    assert "--admin-username" in refused
    ada = ("--admin-username", "writer", "--admin-password-file", str(file))
    assert shell.run(*ada, "queue", "create", "q").startswith("created")
    assert "read-write" in shell.run(*ada, "reload", expect=FAILED)
    assert "no password is given" in shell.run("--admin-username", "writer", "queue", "list", expect=USAGE)
    file.write_text("another-word\n")
    refused = shell.run(*ada, "queue", "list", expect=FAILED)
    assert "password or token is wrong" in refused
    assert "--admin-username" not in refused
    file.write_text("writer-word\n")
    node.reloads.append(ReloadView(taken_over=(), restart_needed=(), warnings=()))
    told_by_variables = Shell(guarded.url, SLUICEGATE_ADMIN_USERNAME="root", SLUICEGATE_ADMIN_PASSWORD="root-word")
    assert told_by_variables.run("reload", "--json")
    node.reloads.append(ReloadView(taken_over=(), restart_needed=(), warnings=()))
    former = Shell(guarded.url, SLUICEGATE_ADMIN_USER="root", SLUICEGATE_ADMIN_PASSWORD="root-word")
    assert former.run("reload", "--json")
    assert former.run("--admin-user", "writer", "--admin-password-file", str(file), "queue", "list")


def test_a_command_for_several_message_vpns_reads_its_password_once(guarded: RunningAdmin) -> None:
    """A file may be a pipe, as of `--admin-password-file <(pass show gateway)`; and whoever is asked, is asked once."""
    reading, writing = os.pipe()
    os.write(writing, b"reader-word\n")
    os.close(writing)
    try:
        login = ("--admin-username", "reader", "--admin-password-file", f"/dev/fd/{reading}")
        assert "message_vpns" in Shell(guarded.url).run(*login, "config", "export")
    finally:
        os.close(reading)


def test_an_account_of_one_message_vpn_exports_what_is_in_it(guarded: RunningAdmin, tmp_path: Path) -> None:
    """The list of message VPNs is the node's; whoever names one does not need it."""
    file = tmp_path / "password"
    file.write_text("tenant-word\n")
    login = ("--admin-username", "tenant", "--admin-password-file", str(file))
    assert "queues: []" in Shell(guarded.url).run(*login, "config", "export", "--vpn", "default")
    assert "read-only" in Shell(guarded.url).run(*login, "config", "export", expect=FAILED)


def test_commands_show_a_token(node: MemoryNode, tmp_path: Path) -> None:
    server, file = TokenServer(tmp_path), tmp_path / "token"
    file.write_text(server.token())
    oauth = {"jwks_file": server.jwks_file, "issuer": ISSUER, "audience": AUDIENCE}
    users = [{"name": "ada", "global_access_level": "read-only"}]
    with running_admin(node, admin=Admin.model_validate({"oauth": oauth, "users": users})) as running:
        shell = Shell(running.url)
        assert shell.run("--admin-token-file", str(file), "queue", "list")
        assert "read-write" in shell.run("--admin-token-file", str(file), "queue", "delete", "q", "-y", expect=FAILED)
