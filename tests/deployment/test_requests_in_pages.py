"""Requests to the admin port in the pages: each has an operation, known parameters, and a valid body."""

from pathlib import Path
from typing import Final

import jsonschema_rs
import pytest

from support.pages.requests import PageRequest, WrongRequest, check_request, requests_of

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md"))
    if list(requests_of(page.read_text(encoding="utf-8")))
)


@pytest.mark.parametrize("page", PAGES)
def test_the_api_describes_the_requests_of_a_page(page: str) -> None:
    for request in requests_of((ROOT / page).read_text(encoding="utf-8")):
        check_request(request)


def test_requests_with_and_without_a_body_are_found_on_the_pages() -> None:
    found = [each for page in PAGES for each in requests_of((ROOT / page).read_text(encoding="utf-8"))]
    assert {each.path for each in found if each.body} >= {"/queues/orders", "/publish"}
    assert any(each.query for each in found)
    assert any(each.path.startswith("/SEMP/") for each in found)


def test_what_is_found_in_a_page() -> None:
    page = (
        "```sh\nbase=http://127.0.0.1:8080/queues\n"
        'curl -s -X PATCH "$base/a%2Fb" -H "If-Match: $tag" \\\n    -d \'{"max_ttl": 60}\' | jq .\n'
        "curl -d x http://127.0.0.1:9000/TOPIC/a\ncurl 'http://127.0.0.1:8080/watch?topic=a'\n```\n"
        "`POST /queues/NAME/messages/delete` and `GET /QUEUE/NAME`\n"
    )
    assert list(requests_of(page)) == [
        PageRequest("PATCH", "/queues/a%2Fb", body='{"max_ttl": 60}'),
        PageRequest("GET", "/watch", (("topic", "a"),)),
        PageRequest("POST", "/queues/NAME/messages/delete"),
    ]


@pytest.mark.parametrize(
    ("request_of_a_page", "reason"),
    [
        (PageRequest("PUT", "/queues/orders"), "there is no PUT /queues/orders"),
        (PageRequest("GET", "/queuez"), "there is no GET /queuez"),
        (PageRequest("GET", "/watch", (("topics", "a"),)), "no parameter topics"),
        (PageRequest("GET", "/queues", body="{}"), "takes no JSON"),
        (PageRequest("PATCH", "/queues/orders", body='{"max_tll": 60}'), "max_tll"),
        (PageRequest("PATCH", "/queues/orders", body='{"max_ttl": "60 s"}'), "60 s"),
        (PageRequest("POST", "/SEMP/v2/config/msgVpns/default/queues", body='{"queue": "a"}'), "queue"),
    ],
)
def test_a_request_that_the_api_does_not_describe_is_refused(request_of_a_page: PageRequest, reason: str) -> None:
    with pytest.raises((WrongRequest, jsonschema_rs.ValidationError), match=reason):
        check_request(request_of_a_page)
