"""The error that ends the demo."""


class DemoFailed(Exception):
    """A part of the demo failed; the text names it, and the file with the details."""
