"""`sluicegate config export` and `apply`: what differs from a document, and that bringing it about leaves nothing."""

from itertools import cycle
from pathlib import Path

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sluicegate.gateway.cli import app
from sluicegate.gateway.cli.commands.config.definitions import DIFFERS
from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings
from sluicegate.gateway.config.yaml_document import read_yaml
from sluicegate.gateway.definitions.document import (
    ADD,
    REMOVE,
    DefinitionsInvalid,
    Objects,
    differences,
    read_definitions,
)
from sluicegate.gateway.definitions.text import as_yaml
from sluicegate.gateway.provisioning.stored_users import user_request
from sluicegate.gateway.views.clients.accounts import ProfileKind
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.shell import Shell

DOCUMENT = """
version: 1
message_vpns:
  default:
    queue_templates:
      - name: t
        queue_name_filter: tmp*
        max_ttl: 3
    queues:
      - name: orders/eu
        access_type: non-exclusive
        partition_count: 4
        subscriptions: [orders/eu/>, back/*]
    users:
      - name: ada
        password: grace
        acl_profile: devices
    rest_delivery_points:
      - name: mail
        queue_bindings: [{queue: orders/eu, post_request_target: /in}]
        rest_consumers: [{name: one, remote_host: mail}]
"""


@pytest.fixture
def shell(admin: RunningAdmin, node: MemoryNode) -> Shell:
    node.points.clear()
    node.profiles[ProfileKind.ACL]["devices"] = AclProfileSettings(name="devices")
    return Shell(admin.url)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "wanted.yaml"
    file.write_text(DOCUMENT)
    return file


def test_objects_of_a_document_are_created_once(shell: Shell, node: MemoryNode, file: Path) -> None:
    """A dry run changes nothing and ends with 4 while something differs; the second apply finds nothing to do."""
    planned = shell.told("config", "apply", str(file), "--dry-run", exit_code=DIFFERS)
    assert (node.definitions, node.templates, node.points) == ({}, {}, {})
    done = shell.run("config", "apply", str(file))
    assert done == planned
    assert "+ default: queue orders/eu\n    access_type: non-exclusive\n    partition_count: 4\n" in done
    assert "grace" not in done
    assert node.definitions["orders/eu"].config.partition_count == 4
    assert node.templates["t"].attributes == {"max_ttl": 3}
    password = node.users["ada"].password
    assert password is not None
    assert password.get_secret_value() == "grace"
    assert list(node.points) == ["mail"]
    assert shell.run("config", "apply", str(file)) == ""
    assert shell.run("config", "apply", str(file), "--dry-run") == ""


def test_texts_that_a_configuration_file_takes_for_truths_and_numbers_are_some_here(
    shell: Shell, node: MemoryNode, file: Path
) -> None:
    """To YAML 1.2 `yes` is a text; the two kinds of files agree on what it says."""
    file.write_text(
        """
        version: 1
        message_vpns:
          default:
            queues: [{name: q, ingress_enabled: off, respect_ttl_enabled: "Yes", max_bind_count: "7"}]
            queue_templates: [{name: t, queue_name_filter: "t/>", egress_enabled: no}]
        """
    )
    shell.run("config", "apply", str(file))
    config = node.definitions["q"].config
    assert (config.ingress_enabled, config.respect_ttl_enabled, config.max_bind_count) == (False, True, 7)
    assert node.templates["t"].attributes == {"egress_enabled": False}
    assert shell.run("config", "apply", str(file)) == ""


def test_an_exported_document_needs_no_changes(shell: Shell, node: MemoryNode, file: Path) -> None:
    """Defaults, passwords and what the configuration makes are left out; a new user lacks a password then."""
    shell.run("config", "apply", str(file))
    exported = shell.run("config", "export")
    document = yaml.safe_load(exported)["message_vpns"]["default"]
    assert document["queues"][0]["subscriptions"] == ["back/*", "orders/eu/>"]
    assert "max_bind_count" not in document["queues"][0]
    assert document["users"] == [{"name": "ada", "acl_profile": "devices"}]
    assert (
        orjson.loads(shell.run("config", "export", "--vpn", "default", "--json"))["message_vpns"]["default"] == document
    )
    file.write_text(exported)
    assert shell.run("config", "apply", str(file), "--prune") == ""
    del node.users["ada"]
    del node.templates["t"]
    said = shell.run("config", "apply", str(file), expect=FAILED)
    assert "the new user 'ada' has no password" in said
    assert node.templates == {}  # nothing was begun


def test_differences_are_changed_and_extra_objects_are_deleted_with_prune_only(
    shell: Shell, node: MemoryNode, file: Path
) -> None:
    shell.run("config", "apply", str(file))
    shell.run("queue", "create", "old")
    file.write_text(
        DOCUMENT.replace("partition_count: 4", "partition_count: 8").replace("max_ttl: 3", "max_bind_count: 2")
    )
    assert shell.run("config", "apply", str(file)) == (
        "~ default: queue template t\n    max_bind_count: null -> 2\n    max_ttl: 3 -> null\n"
        "~ default: queue orders/eu\n    partition_count: 4 -> 8\n"
    )
    assert node.templates["t"].attributes == {"max_bind_count": 2}
    file.write_text("version: 1\nmessage_vpns: {default: {queues: []}}\n")
    assert shell.run("config", "apply", str(file)) == ""
    planned = shell.told("config", "apply", str(file), "--prune", "--dry-run", "--json", exit_code=DIFFERS)
    changes = [orjson.loads(line) for line in planned.splitlines()]
    assert [(each["deed"], each["vpn"], each["name"]) for each in changes] == [
        ("-", "default", "orders/eu"),
        ("-", "default", "old"),
    ]
    shell.run("config", "apply", str(file), "--prune")
    assert (list(node.definitions), list(node.templates)) == ([], ["t"])


def test_a_refusal_ends_it_and_what_was_done_before_stays(shell: Shell, node: MemoryNode, file: Path) -> None:
    """The gateway's reason is told; another apply goes on from there."""
    file.write_text(DOCUMENT.replace("name: ada", "name: fixed"))
    told = shell.run("config", "apply", str(file), expect=FAILED)
    assert "error: default: user fixed: there is a user 'fixed' already" in told
    assert "2 of 4 changes were made. Run apply again to make the others." in told
    assert "orders/eu" in node.definitions
    file.write_text(DOCUMENT)
    assert "queue orders/eu" not in shell.run("config", "apply", str(file))


def test_a_document_that_takes_long_is_applied_by_several_requests(
    shell: Shell, node: MemoryNode, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here each request has time for one change. A gateway without time for any is no success."""
    times = cycle([0.0, 0.0, 100.0])  # at the beginning, before the first change, before the second
    monkeypatch.setattr("sluicegate.gateway.admin.rest.node.definitions.monotonic", lambda: next(times))
    told = shell.run("config", "apply", str(file))
    assert [line[0] for line in told.splitlines() if not line.startswith(" ")] == ["+"] * 4
    assert (list(node.definitions), list(node.users), list(node.points)) == (["orders/eu"], ["fixed", "ada"], ["mail"])
    node.definitions.clear()
    times = cycle([0.0, 100.0])
    assert "too slow to begin any of 1 change" in shell.run("config", "apply", str(file), expect=FAILED)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("version: 2\nmessage_vpns: {}", "version: 2 is not allowed"),
        ("queues: []", "allowed: version and message_vpns"),
        ("version: 1\nmessage_vpns: []", "message_vpns: it is not a mapping"),
        ("version: 1\nmessage_vpns: {a: {colours: []}}", "message_vpns.a.colours: there is no such kind"),
        ("version: 1\nmessage_vpns: {a: {queues: {}}}", "message_vpns.a.queues: it is not a list"),
        ("version: 1\nmessage_vpns: {a: {queues: [x]}}", "message_vpns.a.queues[0]: it is not a mapping"),
        ("version: 1\nmessage_vpns: {a: {queues: [{}]}}", "message_vpns.a.queues[0] has no name"),
        ("version: 1\nmessage_vpns: {a: {queues: [{name: q}, {name: q}]}}", "queues[1] is a second 'q'"),
        ("version: 1\nmessage_vpns: {default: {queues: [{name: q, max_ttl: -1}]}}", "'q': max_ttl: -1 is not allowed"),
        ("version: [", "this is not YAML"),
    ],
)
def test_a_document_that_is_wrong_is_refused_before_anything_is_done(
    shell: Shell, node: MemoryNode, file: Path, text: str, word: str
) -> None:
    file.write_text(text)
    assert word in " ".join(shell.run("config", "apply", str(file), expect=USAGE).split())
    assert node.definitions == {}


def test_all_errors_of_a_document_are_reported_with_their_places(shell: Shell, file: Path) -> None:
    file.write_text("""version: 1
message_vpns:
  default:
    queues:
      - name: a
        max_ttl: -1
      - nothing
      - {name: b, access_type: shared}
    colours: []
  lab:
    users:
      - name: ada
        acl_profil: devices
""")
    told = shell.run("config", "apply", str(file), expect=USAGE)
    lines = [line.removeprefix("error: ") for line in told.splitlines() if str(file) in line]
    assert [line.removeprefix(f"{file}:").split(": ")[:3] for line in lines] == [
        ["6:18", "message_vpns.default.queues[0], 'a'", "max_ttl"],
        ["7:9", "message_vpns.default.queues[1]", "it is not a mapping; allowed"],
        ["8:32", "message_vpns.default.queues[2], 'b'", "access_type"],
        ["9:14", "message_vpns.default.colours", "there is no such kind of objects; allowed"],
        ["13:21", "message_vpns.lab.users[0], 'ada'", "acl_profil"],
    ]


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_unknown_profiles_are_reported_before_anything_is_done(
    shell: Shell, node: MemoryNode, file: Path, options: tuple[str, ...]
) -> None:
    file.write_text("""version: 1
message_vpns:
  default:
    queues: [{name: q}]
    client_profiles: [{name: small}]
    users:
      - {name: ada, password: grace, client_profile: small, acl_profile: nobodys}
      - {name: bob, password: grace, client_profile: large}
""")
    told = shell.run("config", "apply", str(file), *options, expect=FAILED)
    assert "default: user ada: it needs the ACL profile 'nobodys', which does not exist" in told
    assert "default: user bob: it needs the client profile 'large', which does not exist" in told
    assert "'small'" not in told
    assert node.definitions == {}


def test_nothing_of_a_document_does_anything_to_the_terminal(shell: Shell, node: MemoryNode, file: Path) -> None:
    file.write_text(
        r"""{version: 1, message_vpns: {default: {queue_templates: [{name: t, queue_name_filter: "a\e[2Jb*"}]}}}"""
    )
    told = shell.run("config", "apply", str(file))
    assert "queue_name_filter: a\\x1b[2Jb*" in told
    assert node.templates["t"].queue_name_filter == "a\x1b[2Jb*"


def test_apply_reads_the_output_of_export(
    shell: Shell, node: MemoryNode, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document may be larger than a configuration; both stop at the same size."""
    file.write_text(DOCUMENT + "#" * (2 << 20))
    shell.run("config", "apply", str(file))
    assert "orders/eu" in node.definitions
    monkeypatch.setattr("sluicegate.gateway.cli.commands.config.definitions.BYTES_MAX", 100)
    assert "larger than 100 bytes" in shell.run("config", "apply", str(file), expect=USAGE)
    assert "larger than 100 bytes" in shell.run("config", "apply", "-", typed=DOCUMENT, expect=USAGE)
    assert "apply reads at most 100 Export one message VPN" in " ".join(
        shell.run("config", "export", expect=FAILED).split()
    )
    umlauts = 99 * "ü"  # 198 bytes
    assert "larger than 100 bytes" in shell.run("config", "apply", "-", typed=umlauts, expect=USAGE)


@given(
    text=st.from_regex(r"[-+0-9.eExo_:~a-f]{1,8}", fullmatch=True) | st.sampled_from(["yes", "null", "1.5e3", ".inf"])
)
def test_a_text_that_export_writes_without_quotes_is_the_text(text: str) -> None:
    """Whatever looks like a number to us does so to who writes, and has quotes."""
    written = yaml.safe_dump({"name": text})
    assert read_yaml(written, "export").root == {"name": text}


@given(
    text=st.text(max_size=20)
    | st.text("\x85\x9b\u202e\u2066\u061c\u2028\ufeff\x7f\x1b\U000e0001 :#'\"\\\n-a", max_size=20)
)
def test_a_document_has_nothing_in_it_that_a_terminal_obeys_and_reads_the_same(text: str) -> None:
    """C1 controls, which some terminals take for escape sequences, and marks that turn a line around, too."""
    document = {"name": text, "list": [text], text: {"key": text}}
    written = as_yaml(document)
    assert all(line.isprintable() for line in written.split("\n"))
    assert read_yaml(written, "export").root == document


def test_exports_are_printable_whatever_names_objects_have(shell: Shell, node: MemoryNode) -> None:
    """A name in which a mark turns the rest of the line around reads like that of somebody else."""
    name = "x\u202enimda\x9b31m"
    node.users[name] = user_request({"name": name, "password": "grace"})
    for arguments in ((), ("--json",)):
        exported = shell.run("config", "export", *arguments)
        assert "x\\u202enimda\\" in exported
        assert all(line.isprintable() for line in exported.split("\n"))
        assert [each["name"] for each in yaml.safe_load(exported)["message_vpns"]["default"]["users"]] == [name]
    listed = shell.run("user", "list", "--json")
    assert listed.rstrip("\n").isprintable()
    assert name in [each["name"] for each in orjson.loads(listed)["users"]]


def test_a_document_that_is_no_text_is_a_mistake_wherever_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "wanted.yaml"
    file.write_bytes(b"version: \xff\n")
    for arguments, typed in (([str(file)], b""), (["-"], file.read_bytes())):
        result = CliRunner().invoke(app, ["config", "apply", *arguments], input=typed)
        assert (result.exit_code, "byte 9 is not UTF-8" in result.stderr) == (USAGE, True), result.stderr


OBJECTS = st.dictionaries(
    st.sampled_from("abcd"), st.fixed_dictionaries({"size": st.integers(0, 2), "on": st.booleans()}), max_size=4
)


@given(wanted=OBJECTS, present=OBJECTS, prune=st.booleans())
def test_differences_make_what_is_present_what_is_wanted(wanted: Objects, present: Objects, prune: bool) -> None:
    """Law: done to what is there, they leave no difference, and without `prune` they take nothing away."""
    after = {name: dict(fields) for name, fields in present.items()}
    for change in differences("queues", wanted, present, prune=prune):
        if change.action == REMOVE:
            del after[change.name]
        else:
            assert (change.action == ADD) == (change.name not in after)
            after.setdefault(change.name, {}).update(change.fields)
    assert list(differences("queues", wanted, after, prune=prune)) == []
    assert after == (wanted if prune else {**present, **wanted})


def test_a_document_that_is_no_mapping_of_both_is_none() -> None:
    with pytest.raises(DefinitionsInvalid, match="it has nothing"):
        read_definitions({}, {"queues": dict})


WITH_SETTINGS = """version: 1
message_vpns:
  sales:
    settings: {usage_bytes_max: 1 GiB, allow_anonymous: false}
    queues: [{name: orders}]
    users: [{name: ada, password: grace}]
"""


def test_a_document_with_settings_creates_the_message_vpn_first(shell: Shell, node: MemoryNode, file: Path) -> None:
    """What it contains is new with it, whatever the gateway has by these names elsewhere."""
    file.write_text(WITH_SETTINGS)
    planned = shell.told("config", "apply", str(file), "--dry-run", exit_code=DIFFERS)
    assert planned.startswith(
        "+ sales: message VPN sales\n    usage_bytes_max: 1073741824\n    allow_anonymous: false\n"
    )
    assert "sales" not in node.vpns
    shell.run("config", "apply", str(file))
    assert node.vpns["sales"].usage_bytes_max == 1 << 30
    assert "orders" in node.definitions
    assert shell.run("config", "apply", str(file)) == ""
    file.write_text(WITH_SETTINGS.replace("1 GiB", "2 GiB"))
    assert shell.run("config", "apply", str(file), "--prune").splitlines()[0] == "~ sales: message VPN sales"
    assert node.vpns["sales"].usage_bytes_max == 2 << 30
    exported = yaml.safe_load(shell.run("config", "export"))["message_vpns"]
    assert exported["sales"]["settings"] == {"usage_bytes_max": 2 << 30, "allow_anonymous": False}
    assert "settings" not in exported["default"]


def test_settings_of_a_configured_message_vpn_are_refused_before_anything_is_done(
    shell: Shell, node: MemoryNode, file: Path
) -> None:
    file.write_text(WITH_SETTINGS.replace("sales:", "default:"))
    assert "allowed" in shell.run("config", "apply", str(file), expect=USAGE)
    file.write_text(WITH_SETTINGS)
    node.vpns["sales"] = node.vpns["default"]
    node.defined.merged(Config.model_validate({"vpns": {"sales": {}}}))
    told = shell.run("config", "apply", str(file), expect=FAILED)
    assert "the settings of message VPN 'sales' are configured" in told
    assert "remove `settings` of this message VPN from the document" in told
    file.write_text(WITH_SETTINGS.replace("usage_bytes_max", "usage_bytes"))
    told = shell.run("config", "apply", str(file), expect=USAGE)
    assert f"{file}:4:29: message_vpns.sales.settings, 'sales': usage_bytes" in told
    assert node.definitions == {}
