"""Where a link connects to."""

import pytest
from pydantic import ValidationError

from sluicegate.gateway.config.sections.links import Link
from sluicegate.gateway.config.settings.links import link_settings


def ports(link: Link, attempt: int) -> list[int]:
    return [target.port for target in link_settings("b", link, broker="a").targets(attempt)]


def test_each_attempt_begins_with_another_address() -> None:
    link = Link(url="flow://one:1", other_urls=("flow://two:2", "flow://three:3"))
    assert [ports(link, attempt) for attempt in range(4)] == [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]
    assert ports(Link(url="flow://one:1"), 7) == [1]
    assert ports(Link(), 7) == []


def test_a_link_to_other_addresses_begins_anew() -> None:
    before, after = (
        link_settings("b", Link(url="flow://one", other_urls=(each,)), broker="a")
        for each in ("flow://two", "flow://three")
    )
    assert not before.runs_as(after)


def test_other_addresses_need_the_first_and_its_scheme() -> None:
    with pytest.raises(ValidationError, match="other_urls needs url"):
        Link(other_urls=("flow://two",))
    with pytest.raises(ValidationError, match="all of them begin with flow://, or all with flows://"):
        Link(url="flow://one", other_urls=("flows://two",))
