"""The section virtual_destinations: what is refused, with file and line, and what is warned of.

The numbers VD-nn are those of tests/data/virtual/cases.txt.
"""

from pathlib import Path

import pytest
from pydantic import ValidationError

from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.message_vpns.virtual_destinations import VirtualDestinationsSection
from sluicegate.messaging.routing.virtual.definitions import DEFINITIONS_MAX

FILE = """\
virtual_destinations:
  composite_queues:
    - name: A
      forward_to:
        - queue: B
"""


def problems(tmp_path: Path, more: str, start: str = FILE) -> list[str]:
    """Return what is wrong with a configuration, without the folder of its file."""
    file = tmp_path / "gateway.yaml"
    file.write_text(start + more)
    with pytest.raises(ConfigError) as caught:
        load(file)
    return [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems]


def warned(text: str) -> list[tuple[str, str]]:
    section = load(None, settings=[f"virtual_destinations={text}"]).virtual_destinations
    return [(".".join(str(part) for part in each.place), each.text) for each in section.warnings()]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "        - topic: a.>\n",
            "gateway.yaml:6:11: virtual_destinations.composite_queues.0.forward_to.1: 'a.>' has",
        ),
        ("        - topic: a/#\n", "gateway.yaml:6:11: virtual_destinations.composite_queues.0.forward_to.1: 'a/#'"),
        (
            "        - {queue: C, topic: d}\n",
            "gateway.yaml:6:11: virtual_destinations.composite_queues.0.forward_to.1: set",
        ),
        (
            "        - queue: C\n          selector: a = = 1\n",
            "gateway.yaml:7:21: virtual_destinations.composite_queues.0.forward_to.1.selector: selector, character 5:",
        ),
        (
            "        - queue: C\n          selector:\n",
            "gateway.yaml:6:11: virtual_destinations.composite_queues.0.forward_to.1: selector is empty",
        ),
        (
            "      forwardOnly: true\n",
            "gateway.yaml:6:7: virtual_destinations.composite_queues.0.forwardOnly: there is no such key (did you mean"
            " 'forward_only'?)",
        ),
        (
            "    - name: A.>.B\n      forward_to: [{queue: C}]\n",
            "gateway.yaml:6:13: virtual_destinations.composite_queues.1",
        ),
        (
            "    - name: C\n      forward_to: []\n",
            "gateway.yaml:6:7: virtual_destinations.composite_queues.1: forward_to has",
        ),
        (
            "      copy_message: false\n",
            "gateway.yaml:6:21: virtual_destinations.composite_queues.0.copy_message: false is not allowed; "
            "allowed: one of: true",
        ),
        (
            "  fan_out: some\n",
            "gateway.yaml:6:12: virtual_destinations.fan_out: 'some' is not allowed; allowed: one of",
        ),
    ],
)
def test_errors_are_reported_with_file_and_line(tmp_path: Path, more: str, said: str) -> None:
    """Unknown options, bad selectors, wildcard targets and empty selectors are load errors (activemq.md 25.8)."""
    [problem] = problems(tmp_path, more)
    assert problem.startswith(said)


def test_selectors_of_targets_are_in_the_dialect_of_the_node(tmp_path: Path) -> None:
    """`a = b = c` parses in ActiveMQ, `NOT a > 1` does not."""
    chained = "          selector: a = b = c\n"
    [problem] = problems(tmp_path, chained)
    assert problem.startswith("gateway.yaml:6:21: virtual_destinations.composite_queues.0.forward_to.0.selector:")

    file = tmp_path / "gateway.yaml"
    file.write_text(FILE + chained + "selectors: {compat: activemq}\n")
    assert load(file).virtual_destinations.composite_queues[0].forward_to[0].selector == "a = b = c"
    both_wrong = "          selector: NOT a > 1\n        - {queue: C, selector: a =}\n"
    first, second = problems(tmp_path, both_wrong + "selectors: {compat: activemq}\n")
    assert "NOT a has no order" in first
    assert second.startswith("gateway.yaml:7:32: virtual_destinations.composite_queues.0.forward_to.1.selector:")


def test_a_declared_queue_has_wildcards_where_it_consumes_a_virtual_topic(tmp_path: Path) -> None:
    """Its name is a pattern of topics; any other queue's is none."""
    declared = "queues: {declared: [{name: Consumer.A.VirtualTopic.>}, {name: 'Consumer.A.Other.>'}]}\n"
    [problem] = problems(tmp_path, declared, start="")
    assert problem == (
        "gateway.yaml:1:63: queues.declared.1.name: 'Consumer.A.Other.>' contains '>'; "
        "allowed: any printable character except ' < > * ? & ;"
    )
    config = load(settings=["queues.declared=[{name: Consumer.A.VirtualTopic.>}]"])
    assert config.queues.declared[0].config.name == "Consumer.A.VirtualTopic.>"


def test_a_circle_is_refused_with_the_way_it_goes(tmp_path: Path) -> None:
    """VD-49."""
    [problem] = problems(tmp_path, "    - {name: B, forward_to: [{queue: A}]}\n")
    assert problem == (
        "gateway.yaml:5:9: virtual_destinations.composite_queues.0.forward_to: messages would go round in a circle: "
        "queue://B > queue://A > queue://B; allowed: a way that ends"
    )


@pytest.mark.parametrize(
    "definitions",
    [
        "{composite_queues: [{name: A, forward_to: [{queue: A}]}]}",
        "{composite_topics: [{name: A.>, forward_to: [{topic: A.B}]}]}",
        "{composite_topics: [{name: A.>, forward_to: [{topic: A/B}]}]}",
        "{composite_queues: [{name: Consumer.X.VirtualTopic.T, forward_to: [{topic: VirtualTopic.T}]}]}",
        "{composite_queues: [{name: Q.*, forward_to: [{topic: T}]}], "
        "composite_topics: [{name: T, forward_to: [{queue: Q.1}]}]}",
    ],
)
def test_circles_are_found_through_wildcards_and_virtual_topics(definitions: str) -> None:
    """VD-49; activemq.md 3: the original recurses until its stack ends."""
    with pytest.raises(ConfigError, match="round in a circle"):
        load(None, settings=[f"virtual_destinations={definitions}"])


def test_an_apparent_circle_is_accepted() -> None:
    """The consumer queue of one topic may forward to another topic, whose own consumer queue is no composite."""
    text = "{composite_queues: [{name: Consumer.X.VirtualTopic.T, forward_to: [{topic: VirtualTopic.U}]}]}"
    assert load(None, settings=[f"virtual_destinations={text}"]).virtual_destinations.composite_queues


def test_chains_have_a_limit() -> None:
    """activemq.md 25.4: a hop limit of 8."""
    chain = ", ".join(f"{{name: Q{number}, forward_to: [{{queue: Q{number + 1}}}]}}" for number in range(9))
    with pytest.raises(ConfigError, match="9 composites forward one after the other; allowed: at most 8"):
        load(None, settings=[f"virtual_destinations={{composite_queues: [{chain}]}}"])
    load(None, settings=[f"virtual_destinations={{composite_queues: [{chain[: chain.rindex(', {name')]}]}}"])


def test_there_are_not_more_definitions_than_anybody_means() -> None:
    """docs/concepts/virtual-destinations.md: 10,000 of each kind."""
    queues = [{"name": f"Q{number}", "forward_to": [{"queue": "all"}]} for number in range(DEFINITIONS_MAX + 1)]
    with pytest.raises(ValidationError, match=f"at most {DEFINITIONS_MAX} items"):
        VirtualDestinationsSection.model_validate({"composite_queues": queues})


def test_there_is_a_virtual_topic_unless_others_are_configured() -> None:
    """activemq.md 2.1: configured definitions replace the built-in one."""
    assert [each.name for each in Config().virtual_destinations.virtual_topics] == ["VirtualTopic.>"]
    assert load(None, settings=["virtual_destinations.virtual_topics=[]"]).virtual_destinations.virtual_topics == ()
    assert Config().virtual_destinations.warnings() == []


@pytest.mark.parametrize(
    ("definitions", "place", "said"),
    [
        ("{virtual_topics: [{name: '>'}]}", "virtual_topics.0.name", "every topic is virtual"),
        (
            "{composite_topics: [{name: a/b, forward_only: false, forward_to: [{topic: a/c}]}]}",
            "composite_topics.0.forward_to.0",
            "each message twice",
        ),
        (
            "{composite_topics: [{name: a, forward_to: [{queue: B}]}, "
            "{name: a, forward_only: false, forward_to: [{queue: C}]}]}",
            "composite_topics.1.forward_only",
            "its own subscribers get all",
        ),
        (
            "{composite_queues: [{name: X, "
            "forward_to: [{topic: VirtualTopic.O}, {queue: Consumer.A.VirtualTopic.O}]}]}",
            "composite_queues.0.forward_to.1",
            "it takes each message once",
        ),
        ("{fan_out: activemq}", "fan_out", "doubles it"),
    ],
)
def test_the_linter_warns_of_what_doubles_messages(definitions: str, place: str, said: str) -> None:
    """Section 15 of the issue's reference: found before there is a message."""
    assert [each for each in warned(definitions) if each[0] == place and said in each[1]]


def test_a_section_is_its_own_form() -> None:
    section = VirtualDestinationsSection()
    assert VirtualDestinationsSection.model_validate(section.model_dump()) == section
