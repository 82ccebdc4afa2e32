"""The OpenAPI document and the pages: complete, consistent, and in need of nothing from elsewhere."""

import re
from pathlib import Path

from pydantic import TypeAdapter

from sluicegate.gateway.admin.app import OPERATIONS, routes
from sluicegate.gateway.admin.rest.openapi import document
from sluicegate.gateway.views.queues.queues import QueueView
from sluicegate.messaging.queues.attributes import ATTRIBUTES
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operate" / "operations.md"


def described() -> set[tuple[str, str]]:
    """Return (path, method) of every operation in the document."""
    paths = TypeAdapter(dict[str, dict[str, object]]).validate_python(document(OPERATIONS)["paths"])
    return {(path, method.upper()) for path, methods in paths.items() for method in methods}


def test_the_document_describes_exactly_what_the_router_serves() -> None:
    served = {
        (route.path, method) for route in routes(MemoryNode()) for method in route.methods or () if method != "HEAD"
    }
    assert served == described()


def test_every_path_stands_in_the_page() -> None:
    """Operators look into docs/operate/operations.md first."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## The admin port\n")[2].partition("\n## ")[0]
    written: list[str] = []
    for path in re.findall(r"`(?:[A-Z]+ )?((?:/|\.\.\./)[^`?]*)", section):
        written.append(path.replace("...", written[-1].rpartition("/")[0]) if path.startswith(".") else path)
    paths = [re.sub(r"{(\w+)}", lambda name: name[1].upper(), path) for path, _ in described()]
    assert sorted(set(paths) - set(written)) == []


def test_every_operation_has_an_id_of_its_own_and_a_summary() -> None:
    ids = [operation.id for operation in OPERATIONS]
    assert len(ids) == len(set(ids))
    assert all(operation.summary for operation in OPERATIONS)


def test_every_reference_in_the_document_leads_somewhere() -> None:
    components = TypeAdapter(dict[str, dict[str, object]]).validate_python(document(OPERATIONS)["components"])
    references = set(re.findall(r"#/components/schemas/(\w+)", str(document(OPERATIONS))))
    assert references <= set(components["schemas"])


def test_the_document_knows_every_queue_attribute_with_its_range() -> None:
    components = TypeAdapter(dict[str, dict[str, dict[str, object]]]).validate_python(
        document(OPERATIONS)["components"]
    )
    properties = components["schemas"]["QueueDefinition"]["properties"]
    assert isinstance(properties, dict)
    assert set(properties) == {"name", "durable", "subscriptions", *(each.name for each in ATTRIBUTES)}
    assert properties["max_redelivery_count"]["maximum"] == 255


def test_answers_of_the_server_are_read_back_by_the_views(admin: RunningAdmin) -> None:
    sent = admin.ask("POST", "/queues", {"name": "q", "subscriptions": ["a"]})
    assert TypeAdapter(QueueView).validate_json(sent.body).config.name == "q"


def test_the_docs_lead_to_what_can_be_asked_without_a_question(admin: RunningAdmin) -> None:
    links = set(re.findall(r'<li><a href="([^"]+)">', admin.ask("GET", "/docs").body.decode()))
    assert links >= {"/queues", "/queue-templates", "/users", "/rest-delivery-points", "/message-vpns", "/metrics"}
    assert "/explain/key" not in links
    answers = {path: admin.ask("GET", path).status for path in links}
    absent = {"/backup", "/cluster", "/cluster/brokers", "/replication"}
    assert {path for path, status in answers.items() if status != 200} == absent, "there are none"


def test_the_page_loads_nothing_from_elsewhere(admin: RunningAdmin) -> None:
    page = admin.ask("GET", "/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.body.decode()
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page.body.decode())
    assert b"max_delivered_unacked_msgs_per_flow" in admin.ask("GET", "/docs").body
    assert admin.ask("GET", "/openapi.json").json()["openapi"] == "3.1.0"
