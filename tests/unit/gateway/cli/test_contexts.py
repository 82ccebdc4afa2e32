"""Contexts: which gateway commands ask, and as whom."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.gateway.cli.terminal.contexts import Contexts, read_contexts, write_contexts
from sluicegate.gateway.cli.terminal.failures import FAILED, UNREACHABLE, USAGE, CommandFailed
from support.operations.admin_accounts import configured
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin, running_admin
from support.operations.shell import Shell

NOWHERE = "http://127.0.0.1:1"  # nobody listens there


class ContextShell(Shell):
    """A shell whose user has contexts, and no address in the environment."""

    def __init__(self, folder: Path, **environment: str) -> None:
        super().__init__("", **{"XDG_CONFIG_HOME": str(folder), **environment})
        self.file = folder / "sluicegate" / "contexts.json"
        if "SLUICEGATE_URL" not in environment:
            del self._environment["SLUICEGATE_URL"]


@pytest.fixture
def user(tmp_path: Path) -> ContextShell:
    return ContextShell(tmp_path)


def test_commands_ask_the_selected_gateway(user: ContextShell, admin: RunningAdmin) -> None:
    assert user.run("context", "add", "lab", "--url", admin.url, "--select").endswith(", and selected it\n")
    assert "q" in user.run("queue", "create", "q")
    assert "q" in user.run("queue", "list")
    user.run("context", "select", "--none")
    user.run("context", "add", "gone", "--url", NOWHERE)
    assert "127.0.0.1:1" in user.run("--context", "gone", "queue", "list", expect=UNREACHABLE)
    assert "q" in user.run("--context", "lab", "queue", "list")


def test_the_file_is_its_owners(user: ContextShell) -> None:
    user.run("context", "add", "lab", "--url", NOWHERE, "--port", "2883", "--tls", "--description", "the lab")
    assert stat.S_IMODE(user.file.stat().st_mode) == 0o600
    assert json.loads(user.file.read_bytes())["contexts"]["lab"] == {
        "url": NOWHERE,
        "port": 2883,
        "tls": True,
        "description": "the lab",
    }


def test_contexts_are_listed_shown_replaced_and_removed(user: ContextShell) -> None:
    user.run("context", "add", "lab", "--url", NOWHERE, "--select")
    user.run("context", "add", "prod", "--url", "https://gate.example:1943", "--vpn", "sales")
    lines = [line.split() for line in user.run("context", "list").splitlines()[1:]]
    assert lines == [["*", "lab", NOWHERE, "-", "-"], ["prod", "https://gate.example:1943", "sales", "-"]]
    assert "sales" in user.run("context", "show", "prod")
    assert NOWHERE in user.run("context", "show")
    assert "already" in user.run("context", "add", "lab", expect=FAILED)
    user.run("context", "add", "lab", "--url", "http://other:8080", "--replace")
    assert json.loads(user.run("context", "list", "--json"))["contexts"]["lab"]["url"] == "http://other:8080"
    user.run("context", "remove", "lab")
    assert "no context is selected" in user.run("context", "show", expect=USAGE)
    assert "there is no context 'lab'\nKnown: prod." in user.run("context", "select", "lab", expect=USAGE)
    assert "there is no context 'lab'" in user.run("--context", "lab", "queue", "list", expect=USAGE)
    assert "is no name" in user.run("context", "add", "a b", expect=USAGE)


def test_an_option_counts_more_than_the_environment_and_that_more_than_the_selected_context(
    tmp_path: Path, admin: RunningAdmin
) -> None:
    ContextShell(tmp_path).run("context", "add", "gone", "--url", NOWHERE, "--select")
    there = ContextShell(tmp_path, SLUICEGATE_URL=admin.url)
    there.run("queue", "list")
    assert NOWHERE in there.run("queue", "list", "--url", NOWHERE, expect=UNREACHABLE)
    assert NOWHERE in there.run("--context", "gone", "queue", "list", expect=UNREACHABLE)
    there.run("--context", "gone", "queue", "list", "--url", admin.url)
    there.run("queue", "list")  # the environment is what it was
    asked = ContextShell(tmp_path, SLUICEGATE_CONTEXT="gone")
    assert NOWHERE in asked.run("queue", "list", expect=UNREACHABLE)


def test_options_of_the_same_name_with_another_meaning_are_left_alone(
    user: ContextShell, admin: RunningAdmin, node: MemoryNode
) -> None:
    """`explain publish --username` is the publisher's; the context's is that of `pub`."""
    user.run("context", "add", "lab", "--url", admin.url, "--username", "ada", "--select")
    user.run("explain", "publish", "a/b")
    assert node.explained.client_username is None


def test_clients_of_a_context_go_to_its_port(user: ContextShell) -> None:
    user.run("context", "add", "lab", "--host", "127.0.0.1", "--port", "1", "--select")
    assert "127.0.0.1:1" in user.run("pub", "--topic", "a", "--message", "b", expect=UNREACHABLE)
    assert "127.0.0.1:3" in user.run("pub", "--port", "3", "--topic", "a", "--message", "b", expect=UNREACHABLE)


UNREADABLE = ("{", "[]", '{"contexts": {"lab": {"uri": "x"}}}', '{"contexts": {"lab": {"port": "x"}}}')


@pytest.mark.parametrize("written", UNREADABLE)
def test_a_file_that_cannot_be_read_is_named_and_local_commands_work(user: ContextShell, written: str) -> None:
    user.file.parent.mkdir()
    user.file.write_text(written)
    assert str(user.file) in user.run("queue", "list", expect=USAGE)
    user.run("version")


# --- the login of a context ---


@pytest.fixture
def guarded(node: MemoryNode) -> Iterator[RunningAdmin]:
    with running_admin(node, admin=configured()) as admin:
        yield admin


def test_the_login_of_a_context_is_sent_to_its_own_port_only(
    user: ContextShell, guarded: RunningAdmin, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("reader-word")
    secret.chmod(0o600)
    login = ("--admin-username", "reader", "--admin-password-file", str(secret))
    user.run("context", "add", "lab", "--url", guarded.url, *login, "--select")
    user.run("queue", "list")
    other = guarded.url.replace("127.0.0.1", "localhost")
    assert "--admin-username" in user.run("queue", "list", "--url", other, expect=FAILED)
    user.run(*login, "queue", "list", "--url", other)
    assert str(secret) in user.file.read_text()
    assert "reader-word" not in user.file.read_text()


def test_an_account_needs_the_port_that_it_is_for(user: ContextShell) -> None:
    assert "--url" in user.run("context", "add", "lab", "--admin-username", "ada", expect=USAGE)


def test_the_login_of_clients_is_sent_to_its_own_host_only(user: ContextShell, tmp_path: Path) -> None:
    """The password's file is not there: a command that wants it says so."""
    secret = str(tmp_path / "none")
    user.run("context", "add", "lab", "--host", "127.0.0.1", "--port", "1", "--username", "ada", "--select")
    user.run("context", "add", "prod", "--host", "127.0.0.1", "--port", "1", "--password-file", secret)
    published = ("pub", "--topic", "a", "--message", "b")
    assert secret in user.run("--context", "prod", *published, expect=USAGE)
    assert secret in user.run("--context", "prod", *published, "--host", "127.0.0.1", expect=USAGE)
    assert "localhost:1" in user.run("--context", "prod", *published, "--host", "localhost", expect=UNREACHABLE)


def test_files_of_a_context_are_found_from_every_folder(
    user: ContextShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    user.run("context", "add", "lab", "--url", NOWHERE, "--admin-token-file", "secrets/token")
    assert json.loads(user.file.read_bytes())["contexts"]["lab"]["admin_token_file"] == str(
        tmp_path / "secrets" / "token"
    )


def test_a_user_without_a_home_has_no_contexts(user: ContextShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert read_contexts().by_name == {}
    with pytest.raises(CommandFailed, match="no home folder"):
        write_contexts(Contexts())
