"""The lexer of selectors: names, texts, numbers, signs and reserved words, without white space and comments.

The grammar is `messaging.selectors.parser`.
"""

import re
from typing import Final, final

SELECTOR_CHARS_MAX: Final = 8192  # Solace requires a capability above 1023 bytes; lists of IN may be long
INTEGER_MAX: Final = (1 << 64) - 1  # the range of AMQP's ulong; JMS ends at 2^63
_INTEGER_DIGITS_MAX: Final = 20
_SHOWN_CHARACTERS_MAX: Final = 40  # of a word, in the text of an error

# Kinds of tokens.
NAME: Final = 0
TEXT: Final = 1
NUMBER: Final = 2
SIGN: Final = 3
RESERVED: Final = 4  # `text` is in upper case
END: Final = 5

RESERVED_WORDS: Final = frozenset(
    {"AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE", "XPATH", "XQUERY"}
)

# Names may begin with one of two prefixes; any other name with a dot or a hyphen has to be quoted.
_NAME: Final = r"(?:(?:m|amqp)\.)?(?:[^\W\d]|\$)(?:\w|\$)*"
_HYPHENATED_NAME: Final = r"(?:(?:m|amqp)\.)?(?:[^\W\d]|\$)(?:[\w-]|\$)*"
_WORDS: Final = r"""
    (?P<space> [ \t\r\n\f]+ | --[^\r\n]* | /\*(?s:.*?)\*/ )
  | (?P<float> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
  | (?P<hex>   0[xX][0-9a-fA-F]+ )
  | (?P<octal> 0[0-7]*[lL]? )
  | (?P<whole> [1-9][0-9]*[lL]? )
  | (?P<name>  {} )
  | (?P<quoted> "(?:[^"]|"")++" )
  | (?P<text>  '(?:[^']|'')*+' )
  | (?P<sign>  <> | <= | >= | [-=<>+*%(),] | /(?!\*) )
"""
_PLAIN: Final = re.compile(_WORDS.format(_NAME), re.VERBOSE)
_HYPHENATED: Final = re.compile(_WORDS.format(_HYPHENATED_NAME), re.VERBOSE)
_PLAIN_NAME: Final = re.compile(_NAME)

_HINTS: Final = {
    "'": "a text that ends with '",
    '"': 'a name in quotes that is not empty and ends with "',
    "!": "<> is the sign for unequal",
    "/": "a comment that ends with */",
    "[": 'a name with other characters stands in "',
}


@final
class SelectorError(ValueError):
    """A text is not a valid selector. The message says where, what is wrong, and what is allowed."""

    def __init__(self, reason: str, *, at: int, allowed: str) -> None:
        super().__init__(f"selector, character {at + 1}: {reason}; allowed: {allowed}")
        self.reason = reason
        self.at = at  # index into the text
        self.allowed = allowed


@final
class Token:
    """One token and its position."""

    __slots__ = ("at", "kind", "number", "text")

    def __init__(self, kind: int, text: str, number: int | float, at: int) -> None:
        self.kind = kind  # NAME and so on
        self.text = text  # without quotes
        self.number = number  # of a NUMBER
        self.at = at  # index into the selector

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= _SHOWN_CHARACTERS_MAX else self.text[:_SHOWN_CHARACTERS_MAX] + "..."
        return "the end" if self.kind == END else repr(shown)


def tokenize(text: str, start: int, *, hyphenated: bool) -> list[Token]:
    """Return the tokens from `start` on, followed by END. Raises SelectorError."""
    pattern = _HYPHENATED if hyphenated else _PLAIN
    words: list[Token] = []
    pos = start
    while pos < len(text):
        found = pattern.match(text, pos)
        if found is None:
            sign = text[pos]
            raise SelectorError(
                f"{sign!r} begins nothing", at=pos, allowed=_HINTS.get(sign, "a name, a text in ', a number or a sign")
            )
        if found.lastgroup != "space":
            words.append(_word(found.lastgroup or "", found.group(), pos))
        pos = found.end()
    words.append(Token(END, "", 0, len(text)))
    return words


def quoted_name(name: str) -> str:
    """Return a name as written in a selector, quoted where needed."""
    if _PLAIN_NAME.fullmatch(name) is not None and not _is_reserved(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text as written in a selector."""
    return "'" + text.replace("'", "''") + "'"


def _word(group: str, written: str, at: int) -> Token:
    if group == "name":
        return Token(RESERVED, written.upper(), 0, at) if _is_reserved(written) else Token(NAME, written, 0, at)
    if group == "quoted":
        return Token(NAME, written[1:-1].replace('""', '"'), 0, at)
    if group == "text":
        return Token(TEXT, written[1:-1].replace("''", "'"), 0, at)
    if group == "sign":
        return Token(SIGN, written, 0, at)
    return Token(NUMBER, written, _number(group, written, at), at)


def _is_reserved(written: str) -> bool:
    return written.isascii() and written.upper() in RESERVED_WORDS  # the upper case of a dotless i is an ordinary I


def _number(group: str, written: str, at: int) -> int | float:
    if group == "float":
        approximate = float(written)
        if approximate - approximate != 0:  # infinite
            raise SelectorError(f"the number {written[:40]} is too large", at=at, allowed="numbers up to 1.7E308")
        return approximate
    digits = written.rstrip("lL")
    base = 16 if group == "hex" else 8 if group == "octal" else 10
    exact = int(digits, base) if base != 10 or len(digits) <= _INTEGER_DIGITS_MAX else INTEGER_MAX + 1
    if exact > INTEGER_MAX:
        raise SelectorError(
            f"the number {written[:40]} is too large", at=at, allowed=f"whole numbers up to {INTEGER_MAX}"
        )
    return exact
