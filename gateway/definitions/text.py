"""A document of definitions as YAML."""

import yaml

from sluicegate.gateway.views.text import printable_json


def as_yaml(document: object) -> str:
    """Return a document as YAML, with control characters escaped."""
    # The YAML writer does not escape all of them: bidirectional marks, for example.
    return printable_json(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


class _Dumper(yaml.SafeDumper):
    """Writes texts with unprintable characters in double quotes, the only style in which YAML can escape them."""


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _write_text)
