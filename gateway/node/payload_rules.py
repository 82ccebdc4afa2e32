"""The rules for payloads of a node's message VPNs, with the last usable schema of each."""

import logging
from dataclasses import dataclass
from typing import Final, final

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.message_vpns.payload_rules import PayloadRule as PayloadRuleSection
from sluicegate.gateway.config.settings.payload_rules import SchemaFiles
from sluicegate.messaging.clients.payload_rules import PayloadRule

log = logging.getLogger("sluicegate.node")


@final
@dataclass(frozen=True, slots=True)
class ReadRules:
    """The rules of one read of a configuration, with the schemas in their files as they were then."""

    rules: dict[str, list[PayloadRule]]  # by message VPN
    stale: dict[str, list[str]]  # by message VPN: rules whose file cannot be used, with the schema that they had
    sections: dict[tuple[str, str], tuple[PayloadRuleSection, PayloadRule]]  # by message VPN and name


NO_RULES: Final = ReadRules({}, {}, {})


def read_rules(config: Config, before: ReadRules) -> ReadRules:
    """Read the schema files of a configuration, and compile them. It may take seconds, and changes nothing.

    A rule whose file cannot be used keeps the schema that it had before, and that is logged. Raises ValueError for a
    schema that cannot be used, of a rule that is new or has changed.
    """
    read, files = ReadRules({}, {}, {}), SchemaFiles(config.schemas)
    for vpn, section in config.message_vpns().items():
        read.rules[vpn] = []
        for rule in section.payload_rules:
            try:
                ready = files.made_rule(rule)
            except ValueError as problem:
                former, kept = before.sections.get((vpn, rule.name), (None, None))
                if kept is None or former != rule:
                    raise
                ready = kept
                read.stale.setdefault(vpn, []).append(rule.name)
                text = "payload rule %r of message VPN %r keeps its last schema; the file cannot be used: %s"
                log.error(text, rule.name, vpn, problem)
            read.sections[vpn, rule.name] = (rule, ready)
            read.rules[vpn].append(ready)
    return read
