"""Destination interceptors: virtual topics, composites, and mirrored queues."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from sluicegate.gateway.config.sections.message_vpns.virtual_destinations import VirtualDestinationsSection
from sluicegate.gateway.config.sections.node import SelectorLanguage
from sluicegate.gateway.importing.activemq.policies import Policies
from sluicegate.gateway.importing.activemq.values import flag_of
from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.xml_text import Element
from sluicegate.messaging.selectors.selector import Selectors

OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "concurrentSend": "concurrent_send",
        "dropOnResourceLimit": "drop_on_resource_limit",
        "forwardOnly": "forward_only",
        "local": "local",
        "selectorAware": "selector_aware",
        "sendWhenNotMatched": "send_when_not_matched",
        "setOriginalDestination": "set_original_destination",
        "transactedSend": "transacted_send",
    }
)
COPIES: Final = "a copy never changes the message"


def take_virtual_destinations(broker: Element, policies: Policies, imported: Imported) -> None:
    """Take the interceptors. Raises ImportFailed."""
    section: dict[str, Any] = {}
    for interceptors in broker.children:
        if interceptors.name != "destinationInterceptors":
            continue
        for each in interceptors.all("virtualTopic"):
            made: dict[str, Any] = {"name": each.get("name", "VirtualTopic.>")}
            made |= {key: each.get(key) for key in ("prefix", "postfix") if key in each.attributes}
            _add(section, "virtual_topics", each, made, imported)
        for kind in ("compositeQueue", "compositeTopic"):
            for each in interceptors.all(kind):
                made = {"name": each.get("name"), "forward_to": _targets(each, imported)}
                _add(
                    section, {"compositeQueue": "composite_queues"}.get(kind, "composite_topics"), each, made, imported
                )
        for each in interceptors.all("mirroredQueue"):
            _mirrored(section, each, policies, imported)
    if section:
        imported.put("virtual_destinations", section)


def _targets(composite: Element, imported: Imported) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for holder in composite.children:
        if holder.name != "forwardTo":
            continue
        holder.is_noted = True
        for each in holder.children:
            kind = each.name if each.name in ("queue", "topic") else ""
            name = each.get("physicalName")
            if each.name == "filteredDestination":
                kind = "queue" if each.get("queue") else "topic"
                name = each.get("queue") or each.get("topic")
            if not kind or not name:
                imported.report.not_taken(each.setting(), "a target is a queue or a topic with a name")
                continue
            target = {kind: name}
            if each.get("selector"):
                target["selector"] = each.get("selector")
                imported.put("selectors.compat", "activemq")
                if problem := _selector_problem(target["selector"]):
                    imported.report.not_taken(each.setting("selector"), f"{problem}; the target is left out")
                    continue
            found.append(target)
            imported.report.taken(each.setting(), f"forward_to: {target}")
    return found


def _selector_problem(selector: str) -> str:
    try:
        Selectors({}, SelectorLanguage(compat="activemq").dialect()).compile(selector)
    except ValueError as problem:
        return str(problem)
    return ""


def _add(section: dict[str, Any], kind: str, element: Element, made: dict[str, Any], imported: Imported) -> None:
    """Add a definition, if it is valid beside the others."""
    report = imported.report
    for attribute in element.attributes:
        if attribute in OPTIONS:
            made[OPTIONS[attribute]] = flag_of(element, attribute, False)
            report.taken(element.setting(attribute), f"{OPTIONS[attribute]}: {made[OPTIONS[attribute]]}")
        elif attribute == "copyMessage":
            report.differs(element.setting(attribute), COPIES)
    try:
        VirtualDestinationsSection.model_validate({**section, kind: [*section.get(kind, ()), made]})
    except ValidationError as error:
        texts = [str(each.get("ctx", {}).get("text", each["msg"])) for each in error.errors()]
        report.not_taken(element.setting(), "; ".join(texts))
        return
    section.setdefault(kind, []).append(made)
    report.taken(element.setting(), f"virtual_destinations.{kind}: {made['name']}")
    if kind == "virtual_topics":
        report.differs(element.setting(), "all of a message's queues get it, or none (fan_out: atomic)")


def _mirrored(section: dict[str, Any], element: Element, policies: Policies, imported: Imported) -> None:
    """Make a composite of each declared queue: there is no name for all queues' mirrors."""
    prefix, postfix = element.get("prefix", "VirtualTopic.Mirror."), element.get("postfix")
    dead = {each.get("dead_msg_queue") for each in policies.declared.values()}
    mirrored = [name for name in policies.declared if name not in dead]
    for name in mirrored:
        made = {"name": name, "forward_only": False, "forward_to": [{"topic": f"{prefix}{name}{postfix}"}]}
        _add(section, "composite_queues", element, made, imported)
    if "copyMessage" in element.attributes:
        imported.report.differs(element.setting("copyMessage"), COPIES)
    imported.report.not_taken(
        element.setting(), "queues that clients create have no mirror: write a composite for each"
    )
