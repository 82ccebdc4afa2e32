"""The section of virtual destinations, with ActiveMQ's options. Loading checks them together."""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from sluicegate.gateway.config.sections.section import Section
from sluicegate.messaging.routing.virtual.definitions import (
    ACTIVEMQ,
    DEFINITIONS_MAX,
    QUEUE,
    TARGETS_MAX,
    TOPIC,
    CompositeDestination,
    ForwardTarget,
    Place,
    VirtualDestinations,
    VirtualTopic,
)
from sluicegate.messaging.routing.virtual.names import NAME_CHARS_MAX, ConsumerNames, NameInvalid, NamePattern
from sluicegate.messaging.routing.virtual.validation import DefinitionFault, check_target, errors_of, warnings_of
from sluicegate.messaging.selectors.durable import CacheRules
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selectors

PLACED_PROBLEM: Final = "placed_problem"  # error type whose context has the place in the section


def _pattern(given: str) -> str:
    try:
        NamePattern(given)
    except NameInvalid as problem:
        raise PydanticCustomError(
            PLACED_PROBLEM, "{text}", {"place": (), "text": f"{given!r}: {problem.reason}; allowed: {problem.allowed}"}
        ) from None
    return given


Pattern = Annotated[str, AfterValidator(_pattern), Field(min_length=1, max_length=NAME_CHARS_MAX)]
SelectorText = Annotated[str, Field(min_length=1, max_length=8192)]


class VirtualTopicSection(Section):
    """A virtual topic."""

    name: Pattern = Field(default="VirtualTopic.>", description="topics of this pattern are virtual")
    prefix: str = Field(
        default="Consumer.*.", max_length=NAME_CHARS_MAX, description="of the names of its consumers' queues"
    )
    postfix: str = Field(default="", max_length=NAME_CHARS_MAX, description="of the names of its consumers' queues")
    selector_aware: bool = Field(
        default=False, description="a queue gets the messages that at least one of its consumers selects"
    )
    local: bool = Field(default=False, description="ignore messages that came over a bridge")
    concurrent_send: bool = Field(
        default=False, description="with fan_out activemq: a refusal does not stop delivery to the others"
    )
    transacted_send: bool = Field(
        default=False, description="with fan_out activemq: all queues get the message, or none"
    )
    drop_on_resource_limit: bool = Field(default=False, description="skip a queue that refuses the message")
    set_original_destination: bool = Field(
        default=False, description="queues get copies whose destination is the queue"
    )

    def definition(self, place: Place) -> VirtualTopic:
        """Return it as the core's type."""
        return VirtualTopic(
            place,
            NamePattern(self.name),
            ConsumerNames(self.prefix, self.postfix),
            selector_aware=self.selector_aware,
            local=self.local,
            concurrent_send=self.concurrent_send,
            transacted_send=self.transacted_send,
            drop_on_resource_limit=self.drop_on_resource_limit,
            set_original_destination=self.set_original_destination,
        )


class ForwardToSection(Section):
    """A target: a queue or a topic. With a selector it is a filtered destination."""

    queue: str | None = Field(default=None, min_length=1, max_length=NAME_CHARS_MAX)
    topic: str | None = Field(default=None, min_length=1, max_length=NAME_CHARS_MAX)
    selector: SelectorText | None = Field(default=None, description="a JMS selector; without it, every message")

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if (self.queue is None) == (self.topic is None):
            raise ValueError("set exactly one of queue and topic")
        if "selector" in self.model_fields_set and self.selector is None:
            raise ValueError("selector is empty: it would select nothing; leave it out for every message")
        wrong = check_target(self.target())
        if wrong:
            raise ValueError(wrong)
        return self

    def target(self) -> ForwardTarget:
        """Return it as the core's type."""
        if self.queue is not None:
            return ForwardTarget(QUEUE, self.queue, self.selector or "")
        assert self.topic is not None, "checked at construction"
        return ForwardTarget(TOPIC, self.topic, self.selector or "")


class CompositeSection(Section):
    """A composite queue or topic."""

    name: Pattern = Field(description="the queue or topic, or a pattern of them")
    forward_to: tuple[ForwardToSection, ...] = Field(default=(), description="targets, in this order")
    forward_only: bool = Field(default=True, description="false: its own consumers also get the messages")
    send_when_not_matched: bool = Field(
        default=False, description="its own consumers get the messages that no target selects"
    )
    concurrent_send: bool = Field(
        default=False, description="with fan_out activemq: a refusal does not stop delivery to the others"
    )
    copy_message: Literal[True] = Field(default=True, description="true: a copy never changes the message")
    drop_on_resource_limit: bool = Field(default=False, description="skip a target that refuses the message")
    set_original_destination: bool = Field(
        default=False, description="queues get copies whose destination is the queue"
    )

    @model_validator(mode="after")
    def _check_count(self) -> Self:
        if not 1 <= len(self.forward_to) <= TARGETS_MAX:
            raise ValueError(f"forward_to has {len(self.forward_to)} targets; allowed: 1 to {TARGETS_MAX}")
        return self

    def definition(self, place: Place, kind: str) -> CompositeDestination:
        """Return it as the core's type."""
        return CompositeDestination(
            place,
            kind,
            NamePattern(self.name),
            tuple(each.target() for each in self.forward_to),
            forward_only=self.forward_only,
            send_when_not_matched=self.send_when_not_matched,
            concurrent_send=self.concurrent_send,
            drop_on_resource_limit=self.drop_on_resource_limit,
            set_original_destination=self.set_original_destination,
        )


CompositeSections = Annotated[tuple[CompositeSection, ...], Field(max_length=DEFINITIONS_MAX)]


class SelectorCacheSection(Section):
    """How selector-aware virtual topics remember the selectors of consumers that are offline."""

    durable: bool = Field(
        default=True, description="the selector of a consumer stays in force while the consumer is offline"
    )
    compat: Literal["none", "activemq"] = Field(
        default="none", description="activemq: selectors accumulate for each queue, whichever consumer they came from"
    )
    single_selector_per_destination: bool = Field(
        default=False, description="with compat: a new selector replaces the old ones"
    )
    ignore_wildcard_selectors: bool = Field(
        default=False, description="with compat: selectors with a LIKE that has a wildcard are not remembered"
    )

    @model_validator(mode="after")
    def _check_compat(self) -> Self:
        if self.compat == "none" and (self.single_selector_per_destination or self.ignore_wildcard_selectors):
            raise ValueError("single_selector_per_destination and ignore_wildcard_selectors need compat: activemq")
        return self

    def rules(self) -> CacheRules:
        """Return it as the core's type."""
        return CacheRules(
            durable=self.durable,
            compat=self.compat == "activemq",
            single=self.single_selector_per_destination,
            ignores_wildcards=self.ignore_wildcard_selectors,
        )


class VirtualDestinationsSection(Section):
    """Virtual topics, composite queues and topics, and the options of all of them."""

    fan_out: Literal["atomic", "best-effort", "activemq"] = Field(
        default="atomic",
        description="atomic: all targets or none; best-effort: those that accept; activemq: in turn, until one refuses",
    )
    route_trace: bool = Field(default=False, description="copies list the destinations that they passed through")
    create_consumer_queues: bool = Field(
        default=True, description="create the queue of a virtual topic when a consumer asks for it"
    )
    selector_cache: SelectorCacheSection = SelectorCacheSection()
    virtual_topics: Annotated[tuple[VirtualTopicSection, ...], Field(max_length=DEFINITIONS_MAX)] = (
        VirtualTopicSection(),
    )
    composite_queues: CompositeSections = ()
    composite_topics: CompositeSections = ()

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for finding in errors_of(self.definitions()):
            raise PydanticCustomError(PLACED_PROBLEM, "{text}", {"place": finding.place, "text": finding.text})
        return self

    def definitions(self) -> VirtualDestinations:
        """Return them as the core's types."""
        topics = [each.definition(("virtual_topics", index)) for index, each in enumerate(self.virtual_topics)]
        composites = [
            each.definition(("composite_queues", index), QUEUE) for index, each in enumerate(self.composite_queues)
        ]
        composites += [
            each.definition(("composite_topics", index), TOPIC) for index, each in enumerate(self.composite_topics)
        ]
        return VirtualDestinations(tuple(topics), tuple(composites), self.fan_out, self.route_trace)

    def selector_errors(self, selectors: Selectors) -> list[DefinitionFault]:
        """Return the targets with an invalid selector. Another section has the dialect."""
        found: list[DefinitionFault] = []
        for definition in self.definitions().composites:
            for number, target in enumerate(definition.forward_to):
                try:
                    selectors.compile(target.selector or "TRUE")
                except SelectorError as problem:
                    found.append(DefinitionFault((*definition.place, "forward_to", number, "selector"), str(problem)))
        return found

    def warnings(self) -> list[DefinitionFault]:
        """Return warnings of settings that work, but are probably not intended."""
        found = warnings_of(self.definitions())
        if self.fan_out == ACTIVEMQ:
            found.append(
                DefinitionFault(
                    ("fan_out",), "a publisher that repeats a refused message doubles it where it was taken"
                )
            )
        return found
