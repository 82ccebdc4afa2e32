"""What every answer of the admin port says to browsers: nobody keeps it, takes it for something else, or frames it."""

import re
from collections.abc import Iterator
from typing import Final

import pytest

from sluicegate.gateway.admin.app import OPERATIONS
from sluicegate.gateway.config.sections.admin import Admin
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import Answer, RunningAdmin, running_admin

ACCOUNTS: Final = {"users": [{"name": "ada", "password": "engine", "global_access_level": "admin"}]}
LEADING: Final = ("/",)  # to the console
PAGES: Final = ("/", "/docs", "/console/", "/console/nowhere")
PATHS: Final = sorted({re.sub(r"\{.*?\}", "none", each.path) for each in OPERATIONS if each.method == "GET"})
SEMP: Final = ("/SEMP/v2/config/msgVpns", "/SEMP/v2/monitor/spec", "/SEMP/v2/monitor/nothing")


def is_kept_to_itself(answer: Answer) -> bool:
    """Tell whether a browser neither guesses the type of an answer nor shows it within another page."""
    policy = answer.headers.get("content-security-policy", "")
    return answer.headers.get("x-content-type-options") == "nosniff" and "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("path", [*PATHS, *SEMP, *PAGES, "/console", "/nowhere"])
def test_no_answer_is_guessed_at_or_framed(admin: RunningAdmin, path: str) -> None:
    answer = admin.ask("GET", path)
    assert is_kept_to_itself(answer), answer
    if path not in LEADING and not path.startswith("/console"):  # whose files browsers keep, and ask for changes of
        assert answer.headers["cache-control"] == "no-store"


def test_a_page_sends_nothing_anywhere(admin: RunningAdmin) -> None:
    policy = admin.ask("GET", "/docs").headers["content-security-policy"]
    for directive in ("default-src 'none'", "base-uri 'none'", "form-action 'none'"):
        assert directive in policy


@pytest.fixture
def guarded(node: MemoryNode) -> Iterator[RunningAdmin]:
    with running_admin(node, admin=Admin.model_validate(ACCOUNTS)) as running:
        yield running


def test_refusals_are_answers_too(guarded: RunningAdmin) -> None:
    """Also those from before the router: no account, another host, a form."""
    refused = [
        guarded.ask("GET", "/queues"),
        guarded.ask("GET", "/SEMP/v2/config/msgVpns"),
        guarded.ask("GET", "/queues", headers={"Host": "evil.example"}),
        guarded.ask("POST", "/queues", {}, {"Origin": "https://evil.example"}),
        guarded.ask("POST", "/queues", b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}),
        guarded.ask("DELETE", "/health/live"),
    ]
    assert [each.status for each in refused] == [401, 401, 421, 403, 415, 405]
    for answer in refused:
        assert is_kept_to_itself(answer)
        assert answer.headers["cache-control"] == "no-store"


def test_probes_are_answered_alike(node: MemoryNode) -> None:
    with running_admin(node, probes_only=True) as running:
        for path in ("/metrics", "/health/live", "/nowhere"):
            assert is_kept_to_itself(running.ask("GET", path))
