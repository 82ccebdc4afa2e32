"""Why the demo cannot go on."""


class DemoFailed(Exception):
    """A part of the demo did not do what it is there for; the text says which, and where more is written."""
