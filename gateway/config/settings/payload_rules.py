"""Make the rules for payloads of a message VPN: read schema files, and check what a configuration says of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from sluicegate.gateway.config.sections.message_vpns.payload_rules import PayloadRule as PayloadRuleSection
from sluicegate.gateway.config.sections.message_vpns.payload_rules import Schemas
from sluicegate.messaging.clients.payload_rules import PayloadRule

if TYPE_CHECKING:
    from sluicegate.protocols.schemas.references import FolderReferences


@final
class SchemaFiles:
    """The schema files as one read of a configuration finds them; its rules share what references lead to."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._references: FolderReferences | None = None  # None: no rule has been made

    def made_rule(self, rule: PayloadRuleSection) -> PayloadRule:
        """Return a rule with the schema in its file. Raises ValueError with file and reason."""
        from sluicegate.protocols.schemas.references import FolderReferences  # late: nodes without rules need neither
        from sluicegate.protocols.schemas.schema import problem_finder

        schemas = self._schemas
        if schemas.folder is None:
            raise ValueError("schemas.folder is missing: the folder with the schema files")
        if self._references is None:
            self._references = FolderReferences(schemas.folder)
        problem_of = problem_finder(
            schemas.folder,
            rule.schema_file,
            references=self._references,
            message_type=rule.message_type,
            allow_unknown_fields=rule.allow_unknown_fields,
            payload_bytes_max=schemas.payload_bytes_max,
        )
        return PayloadRule(rule.name, rule.filters(), rule.action, problem_of)


def unusable_rules(rules: Sequence[PayloadRuleSection], files: SchemaFiles) -> list[tuple[int, str]]:
    """Return place and problem of each rule whose schema cannot be used."""
    found: list[tuple[int, str]] = []
    for index, rule in enumerate(rules):
        try:
            files.made_rule(rule)
        except ValueError as problem:
            found.append((index, str(problem)))
    return found
