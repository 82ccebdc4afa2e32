"""Lanes of a queue binding, against plain lists; request targets; status codes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestConsumer, status_codes
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.partitions.state.unsettled import DeliverySource
from sluicegate.protocols.http.consuming.unsettled import UnsettledMessage
from sluicegate.protocols.rest.lanes import Lanes
from sluicegate.protocols.rest.targets import TargetInvalid, parse_target

SOURCES = [DeliverySource(Address(), number, 1, 1, 1) for number in range(3)]


def message(number: int = 1, partition: int = 0, topic: str = "t", headers: Headers | None = None) -> UnsettledMessage:
    batch = MessageBatch(
        topic=topic,
        topics=None,
        payloads=[b""],
        headers=[headers],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="p",
        received_ms=0,
        payload_bytes=0,
    )
    return UnsettledMessage(number, SOURCES[partition], number, batch, 0, False, 1, False, 0)


@given(
    keeps_order=st.booleans(),
    steps=st.lists(st.tuples(st.sampled_from(["add", "next", "done", "rest"]), st.integers(0, 2)), max_size=60),
)
def test_one_message_of_a_partition_is_out_at_a_time_and_in_order(
    keeps_order: bool, steps: list[tuple[str, int]]
) -> None:
    """Goal: order within each lane, and no lane forgotten. Method: the same steps to lists by partition."""
    lanes = Lanes(keeps_order=keeps_order)
    waiting: dict[int, list[int]] = {}
    out: list[UnsettledMessage] = []
    for number, (kind, choice) in enumerate(steps):
        if kind == "add":
            lanes.add(message(number, choice))
            waiting.setdefault(choice if keeps_order else number, []).append(number)
        elif kind == "next":
            taken = lanes.next()
            busy = {each.source.partition_number if keeps_order else each.number for each in out}
            ready = {lane for lane, its in waiting.items() if its and lane not in busy}
            assert (taken is None) == (not ready)
            if taken is not None:
                lane = taken.source.partition_number if keeps_order else taken.number
                assert lane in ready
                assert waiting[lane].pop(0) == taken.number
                out.append(taken)
        elif out:
            chosen = out[choice % len(out)]
            if kind == "rest":
                lane = chosen.source.partition_number if keeps_order else chosen.number
                assert [each.number for each in lanes.take_rest(chosen)] == waiting.pop(lane, [])
            else:
                out.remove(chosen)
                lanes.done(chosen)
        lanes.check()


def again(number: int, sequence: int) -> UnsettledMessage:
    """Return another delivery of a message."""
    made = message(number)
    return UnsettledMessage(number, made.source, sequence, made.batch, 0, False, 2, True, 0)


@pytest.mark.parametrize("is_out", [True, False])
def test_a_message_that_its_queue_takes_back_and_delivers_again_keeps_its_place(is_out: bool) -> None:
    """A lock ends while a push waits for its server: the message comes again behind those that it has to precede."""
    lanes = Lanes(keeps_order=True)
    before = [message(number) for number in ((1, 2) if is_out else (0, 1, 2))]
    for each in before:
        lanes.add(each)
    first = lanes.next()
    assert first is not None
    lanes.add(again(3, 1))
    lanes.done(first)
    lanes.check()
    second = lanes.next()
    assert second is not None
    lanes.done(second)
    third = lanes.next()
    assert third is not None
    assert [(each.number, each.sequence) for each in (second, third)] == [(3, 1), (2, 2)]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a", "/a"),
        ("/${topic()}", "/a%20b/c"),
        ("/${topic(1)}/${topic(2)}/${topic(3)}", "/a%20b/c/"),
        ('/${userProperty("n")}${userProperty("none")}', "/7"),
        ("/?${messageId()}&${timestamp()}&${partitionKey()}", "/?m%26&5&k"),
    ],
)
def test_a_target_is_made_of_the_message(text: str, path: str) -> None:
    """Solace 8.5: substitution expressions; what they return is percent-encoded."""
    headers = Headers(message_id="m&", timestamp_ms=5, partition_key="k", user_properties=[("n", 7)])
    assert parse_target(text, evaluates=True).path(message(topic="a b/c", headers=headers)) == path


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("/hook/${topic()}", "a/../../admin"),
        ("/hook/${topic(1)}/x", ".."),
        ("/hook/${topic(1)}?x=1", "."),
        ("/hook/.${topic(1)}", "."),
        ('/hook/${userProperty("n")}', "a"),
        ("/hook/${topic(1)}", "..\\admin"),
        ('/hook/${userProperty("up")}', "a"),
        ("/hook/%2e${topic(1)}", "."),
    ],
)
def test_a_message_does_not_lead_out_of_its_target(text: str, topic: str) -> None:
    """RFC 3986 5.2.4: servers take `..` for the way up, whoever publishes it; nginx decodes `%2F` before it looks."""
    headers = Headers(user_properties=[("n", ".."), ("up", "../admin")])
    with pytest.raises(TargetInvalid, match="leads out of the path"):
        parse_target(text, evaluates=True).path(message(topic=topic, headers=headers))


@pytest.mark.parametrize(
    ("text", "topic", "path"),
    [("/${topic()}", "a.b/..c/...", "/a.b/..c/..."), ("/hook?${topic()}", "a/../b", "/hook?a/../b")],
)
def test_dots_that_are_no_level_of_the_path_are_nothing_special(text: str, topic: str, path: str) -> None:
    assert parse_target(text, evaluates=True).path(message(topic=topic)) == path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a", "is no path"),
        ("/a b", "percent-encoded"),
        ("/\u00fc", "percent-encoded"),
        ("/${uuid()}", "is no expression"),
        ("/${topic(0)}", "is no expression"),
        ("/${userProperty()}", "is no expression"),
        ("/${topic()", "without its end"),
    ],
)
def test_a_target_that_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(TargetInvalid, match=why):
        parse_target(text, evaluates=True)


def test_a_target_that_is_not_evaluated_is_taken_as_it_is() -> None:
    assert parse_target("/${topic()}", evaluates=False).path(message()) == "/${topic()}"


@pytest.mark.parametrize("name", ["X Key", "Authorization:", "Schlüssel"])
def test_the_header_that_shows_who_pushes_has_a_name_that_a_header_can_have(name: str) -> None:
    """RFC 9110 5.6.2. Each request would be malformed, and each message dead after its tries."""
    told = {"name": "web", "remote_host": "h", "authentication_scheme": "http-header"}
    told["authentication_http_header_value_file"] = "/secret"
    assert RestConsumer.model_validate({**told, "authentication_http_header_name": "X-Key"})
    with pytest.raises(ValidationError, match="authentication_http_header_name"):
        RestConsumer.model_validate({**told, "authentication_http_header_name": name})


def test_status_codes_are_a_list_of_ranges() -> None:
    """Solace 8.5: rejectedStatusCodeList."""
    assert status_codes("") == frozenset()
    assert status_codes("400-402, 422") == {400, 401, 402, 422}
    with pytest.raises(ValueError, match="is not a status code"):
        status_codes("4xx")
