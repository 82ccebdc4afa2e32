"""Rounds of failures of a replicated broker on real processes, under load by clients that others wrote.

`python -m rounds` plays them; the test suite does not. Start reading at `command.py`.
"""
