"""Text of clients as it may stand on a terminal or in a log: one line, and nothing in it that a terminal obeys."""


def printable(text: str) -> str:
    """Return a text with what cannot be seen written out: a newline is `\\n`, an escape `\\x1b`."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
