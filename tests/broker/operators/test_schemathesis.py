"""Schemathesis, which reads an OpenAPI document and asks for what that permits, and for what it does not.

Each operation of the admin port and of SEMP is asked a few times, the same in each run, on a node of its own: what it
answers has to be what the document says, and nothing may be a mistake of the gateway.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, settings
from schemathesis.specs.openapi import checks

from sluicegate.gateway.admin.app import OPERATIONS
from sluicegate.gateway.admin.rest.openapi import document
from sluicegate.gateway.admin.semp import openapi as semp_openapi
from sluicegate.gateway.admin.semp import routes as semp
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.transport.loop.event_loop import SocketLoop
from support.broker.running_broker import RunningBroker

Case = schemathesis.Case[Any]

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ANSWER_S: Final = 60
HEAD_CHARS_MAX: Final = 4000  # each of which may be twelve octets in a URL
EXAMPLES: Final = settings(
    max_examples=4,
    phases=[Phase.generate],  # what fails is told as it is
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
CHECKS: Final = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def loaded(described: dict[str, object]) -> schemathesis.BaseSchema:
    schema = schemathesis.openapi.from_dict(described)
    schema.config.phases.coverage.enabled = False
    return schema


ADMIN: Final = loaded(document(OPERATIONS))
SEMP: Final = {api: loaded(semp_openapi.document(api, operations)) for api, operations in semp.OPERATIONS.items()}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node that may be changed at will, on a loop in a thread; where its admin port is."""
    loop = SocketLoop()
    thread = threading.Thread(target=loop.run_forever, name="node of a test")
    thread.start()

    def done(coroutine: Coroutine[object, object, object]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(ANSWER_S)

    broker = RunningBroker(tmp_path_factory.mktemp("node") / "data", ("admin.enabled=true", "admin.port=0"))
    try:
        done(broker.start())
        try:
            admin = broker.operator_ports.ports.servers["admin"]
            done(NodeOperations(broker.node).create_queue({"name": "q", "retention_size_mb": 1}))
            yield f"http://127.0.0.1:{admin.port}"
        finally:
            done(broker.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_S)
        loop.close()


def asked(case: Case, url: str) -> None:
    """Hold the answer to a request against the document, unless its head is longer than any server takes."""
    assume(len(str(case.query)) + len(str(case.path_parameters)) < HEAD_CHARS_MAX)
    case.call_and_validate(base_url=url, checks=CHECKS, timeout=ANSWER_S)


@ADMIN.exclude(path="/watch").parametrize()  # its answer ends with the client
@EXAMPLES
def test_the_admin_port_answers_as_its_document_says(case: Case, url: str) -> None:
    case.query.pop("follow", None)  # what is followed has no end
    asked(case, url)


@SEMP["monitor"].parametrize()
@EXAMPLES
def test_semps_monitor_answers_as_its_document_says(case: Case, url: str) -> None:
    asked(case, f"{url}/SEMP/v2/monitor")


@SEMP["config"].parametrize()
@EXAMPLES
def test_semps_config_answers_as_its_document_says(case: Case, url: str) -> None:
    asked(case, f"{url}/SEMP/v2/config")


@SEMP["action"].parametrize()
@EXAMPLES
def test_semps_actions_answer_as_their_document_says(case: Case, url: str) -> None:
    asked(case, f"{url}/SEMP/v2/action")
