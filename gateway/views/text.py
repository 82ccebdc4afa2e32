"""Patterns of names in questions to the admin port: `*` stands for any characters, `?` for one.

They are matched on the event loop, so the time for it may not explode, whatever the pattern: a part between two `*` is
looked for once, at the first place where it fits, and never again further on.
"""

import re


def name_pattern(text: str) -> re.Pattern[str]:
    """Return what matches the names, as a whole, that a pattern is for; an empty one is for all."""
    head, *parts = [re.escape(part).replace(r"\?", ".") for part in (text or "*").split("*")]
    if not parts:
        return re.compile(head, re.DOTALL)
    within = "".join(f"(?>.*?{part})" for part in parts[:-1] if part)
    return re.compile(f"{head}{within}.*{parts[-1]}", re.DOTALL)
