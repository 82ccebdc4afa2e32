"""`sluicegate user` and the operations behind it, against a real admin server."""

from pathlib import Path

import orjson

from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.shell import Shell


def password_of(node: MemoryNode, name: str) -> str:
    """Return what was sent for a user's password."""
    password = node.users[name].password
    assert password is not None
    return password.get_secret_value()


def test_a_user_lives_its_life_on_the_command_line(shell: Shell, node: MemoryNode, tmp_path: Path) -> None:
    """Passwords come from files or standard input, and are printed by nobody."""
    file = tmp_path / "password"
    file.write_text("from-the-file\nsecond line\n")
    said = [
        shell.run("user", "add", "ada", "--acl-profile", "devices", "--password-file", str(file)),
        shell.run("user", "list"),
    ]
    assert said[0] == "created user ada\n"
    assert "ada    operator       enabled  default         devices" in said[1]
    assert "fixed  configuration" in said[1]
    assert password_of(node, "ada") == "from-the-file"
    said.append(shell.run("user", "passwd", "ada", typed="from-stdin\n"))
    assert password_of(node, "ada") == "from-stdin"
    said.append(shell.run("user", "passwd", "ada", "--password-file", "-", typed="again\n"))
    assert password_of(node, "ada") == "again"
    assert shell.run("user", "disable", "ada") == "shut down user ada\n"
    assert "shut down" in shell.run("user", "list")
    assert orjson.loads(shell.run("user", "enable", "ada", "--json"))["enabled"] is True
    assert shell.run("user", "set", "ada", "--client-profile", "small") == "changed user ada\n"
    assert node.users["ada"].client_profile == "small"
    assert shell.run("user", "remove", "ada") == "deleted user ada\n"
    assert list(node.users) == ["fixed"]
    assert not any("from-" in each for each in said)


def test_impossible_changes_are_explained(shell: Shell, tmp_path: Path) -> None:
    assert "the password is empty" in shell.run("user", "add", "ada", typed="\n", expect=USAGE)
    nowhere = str(tmp_path / "nowhere")
    assert "No such file" in shell.run("user", "add", "ada", "--password-file", nowhere, expect=USAGE)
    long = "x" * (64 * 1024 + 1)
    said = shell.run("user", "add", "ada", typed=f"{long}\n", expect=USAGE)
    assert "the first line of standard input has more than 65536 bytes" in said
    assert "there is no user 'eva'" in shell.run("user", "remove", "eva", expect=FAILED)
    assert "the configuration's" in shell.run("user", "disable", "fixed", expect=FAILED)
    assert "already" in shell.run("user", "add", "fixed", typed="x\n", expect=FAILED)
    assert "nothing to change" in shell.run("user", "set", "fixed", expect=USAGE)


def test_no_answer_of_the_admin_port_has_a_password(admin: RunningAdmin) -> None:
    made = admin.ask("POST", "/users", {"name": "a/b", "password": "the-secret"})
    assert (made.status, made.headers["location"]) == (201, "/users/a%2Fb")
    answers = [
        made,
        admin.ask("GET", "/users"),
        admin.ask("GET", "/users/a%2Fb"),
        admin.ask("PATCH", "/users/a%2Fb", {"password": "the-secret", "enabled": False}),
        admin.ask("POST", "/users", {"name": "a/b", "password": "the-secret"}),
        admin.ask("POST", "/users", {"name": "x", "password": ["the-secret"]}),
        admin.ask("DELETE", "/users/a%2Fb"),
    ]
    assert [each.status for each in answers] == [201, 200, 200, 200, 409, 422, 204]
    assert not any(b"the-secret" in each.body for each in answers)
