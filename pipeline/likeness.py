"""Texts that differ in numbers only: ids, addresses and times make each message's error another one."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

_NUMBERS: Final = r"\b(0x)?[0-9a-fA-F]*[0-9][0-9a-fA-F]*(-[0-9a-fA-F]+)*\b"


def alike(text: Column) -> Column:
    """Return a text with # for each number."""
    return fn.regexp_replace(text, _NUMBERS, "#")
