"""axe-core (Deque), which checks what a program can see of WCAG 2.1 AA: names, roles, contrast, keyboard."""

from typing import Any, Final

from playwright.sync_api import Page

from support.processes.foreign_programs import node_modules

RULES: Final = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


def faults(page: Page) -> list[str]:
    """Return the serious faults of what is shown, each with the place."""
    if not page.evaluate("'axe' in window"):
        page.evaluate((node_modules("axe-core") / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate(
        "async rules => await axe.run(document, { runOnly: rules, resultTypes: ['violations'] })", RULES
    )
    return [
        f"{each['id']}: {each['help']}: {node['target']} {node['html'][:120]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]
