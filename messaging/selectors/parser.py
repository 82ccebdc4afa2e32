"""Parse the text of a selector into a condition: the grammar of JMS (Jakarta Messaging 3.1, 3.8.1), which is SQL-92's.

    condition  := condition OR condition | condition AND condition | NOT condition | comparison | operand
    comparison := operand (= | <> | < | <= | > | >=) operand  |  operand IS [NOT] NULL
                | operand [NOT] BETWEEN operand AND operand   |  name [NOT] IN ('text', ...)
                | operand [NOT] LIKE 'pattern' [ESCAPE 'c']
    operand    := operand (+ | -) operand | operand (* | / | %) operand | (+ | -) operand | name | constant

Later lines bind stronger, and NOT stronger than AND; parentheses go around anything. Comparisons do not chain. An
operand that is a condition by itself is a truth value: a name, TRUE or FALSE. Prefixes of ActiveMQ may come first. The
dialects of `messaging.selectors.dialects` change the binding, and the conditions that are made.

Types of constants are checked here; types of properties are checked for each message.
"""

from collections.abc import Mapping
from typing import Final, final

from sluicegate.messaging.message import headers as native_fields
from sluicegate.messaging.message.headers import NativeFields, UserPropertyValue
from sluicegate.messaging.selectors import operands as selector_operands
from sluicegate.messaging.selectors.conditions import (
    EQUAL,
    SIGNS,
    UNEQUAL,
    AllOf,
    AnyOf,
    Condition,
    In,
    IsNull,
    Not,
)
from sluicegate.messaging.selectors.dialects import ALLOWED_OPERAND, Dialect, check_ordered
from sluicegate.messaging.selectors.lexer import (
    END,
    NAME,
    NUMBER,
    RESERVED,
    SELECTOR_CHARS_MAX,
    SIGN,
    TEXT,
    SelectorError,
    Token,
    tokenize,
)
from sluicegate.messaging.selectors.operands import (
    BINDS_AND,
    BINDS_COMPARISON,
    BINDS_PRODUCT,
    Annotation,
    Constant,
    Durability,
    Header,
    Name,
    NativeField,
    Negative,
    Operand,
    Property,
)

# JMS allows selectors on six headers; the others come from ActiveMQ and Artemis. Names of values that change from
# delivery to delivery are refused: a selector judges the message, and is not evaluated again for one that did not
# match.


ANNOTATION_PREFIX: Final = "m."
AMQP_PREFIX: Final = "amqp."

HEADERS: Final[dict[str, int]] = {
    "JMSPriority": selector_operands.PRIORITY,
    "JMSMessageID": selector_operands.MESSAGE_ID,
    "JMSTimestamp": selector_operands.TIMESTAMP,
    "JMSCorrelationID": selector_operands.CORRELATION_ID,
    "JMSExpiration": selector_operands.EXPIRATION,
    "JMSDestination": selector_operands.DESTINATION,
    "x_destination": selector_operands.CURRENT_DESTINATION,  # for a copy: the destination it went to
    "JMSReplyTo": selector_operands.REPLY_TO,
    "JMSXGroupID": selector_operands.GROUP_ID,
    "AMQPriority": selector_operands.PRIORITY,
    "AMQUserID": selector_operands.MESSAGE_ID,  # Artemis's name for the message id that the publisher set
    "AMQTimestamp": selector_operands.TIMESTAMP,
    "AMQExpiration": selector_operands.EXPIRATION,
    "AMQAddress": selector_operands.ADDRESS,
    "AMQGroupID": selector_operands.GROUP_ID,
    "AMQSize": selector_operands.SIZE,
    "amqp.priority": selector_operands.PRIORITY,
    "amqp.message-id": selector_operands.MESSAGE_ID,
    "amqp.correlation-id": selector_operands.CORRELATION_ID,
    "amqp.reply-to": selector_operands.REPLY_TO,
    "amqp.content-type": selector_operands.CONTENT_TYPE,
    "amqp.absolute-expiry-time": selector_operands.EXPIRY_TIME,
    "amqp.creation-time": selector_operands.CREATION_TIME,
    "amqp.group-id": selector_operands.GROUP_ID,
}
DURABILITIES: Final[dict[str, tuple[UserPropertyValue, UserPropertyValue]]] = {
    "JMSDeliveryMode": selector_operands.DELIVERY_MODES,
    "AMQDurable": selector_operands.DURABLE_TEXTS,
    "amqp.durable": selector_operands.DURABLE_FLAGS,
}
NATIVE_FIELDS: Final[dict[str, str]] = {
    "JMSType": native_fields.SUBJECT,
    "JMSXUserID": native_fields.USER_ID,
    "JMSXGroupSeq": native_fields.GROUP_SEQUENCE,
} | {AMQP_PREFIX + field: field for field in native_fields.FIELDS}
OF_DELIVERIES: Final = frozenset(
    {
        "JMSRedelivered",
        "JMSXDeliveryCount",
        "JMSXRcvTimestamp",
        "JMSXConsumerTXID",
        "JMSXState",
        "JMSXGroupFirstForConsumer",
        "amqp.delivery-count",
        "amqp.first-acquirer",
        "amqp.redelivered",
        "amqp.ttl",
    }
)


def operand_of(name: str, at: int, natives: Mapping[int, NativeFields]) -> Name:
    """Return the operand for a name at an index of the selector. Raises SelectorError.

    It is a header, under its name in JMS, Artemis or AMQP, or a user property.
    """
    known = name.replace("_", "-") if name.startswith(AMQP_PREFIX) else name  # `amqp.group_id` needs no quotes
    if known in HEADERS:
        return Header(name, HEADERS[known])
    if known in DURABILITIES:
        return Durability(name, DURABILITIES[known], natives)
    if known in NATIVE_FIELDS:
        return NativeField(name, NATIVE_FIELDS[known], natives)
    if known in OF_DELIVERIES:
        raise SelectorError(f"{name} belongs to a delivery, not to the message", at=at, allowed="what stays as it is")
    if name.startswith(ANNOTATION_PREFIX):
        return Annotation(name, name[len(ANNOTATION_PREFIX) :], natives)
    if name.startswith(AMQP_PREFIX):
        fields = sorted(each for each in [*HEADERS, *DURABILITIES, *NATIVE_FIELDS] if each.startswith(AMQP_PREFIX))
        raise SelectorError(f"{name!r} is not a field of AMQP", at=at, allowed=", ".join(fields))
    return Property(name)


DEPTH_MAX: Final = 200  # forms within each other: at most 600 frames of the interpreter's stack, which holds 1000
WORDS_MAX: Final = 2000  # bounds the cost of evaluating one message
WORDS_PER_WEIGHT: Final = 64  # 0.4 us
LIKE_WEIGHT: Final = 4  # of a pattern, and again for each PATTERN_CHARS of it: with texts of a kilobyte
PATTERN_CHARS: Final = 32

CONVERTS: Final = "convert_string_expressions:"
_PREFIXES: Final = (CONVERTS, "no_" + CONVERTS, "hyphenated_props:", "no_hyphenated_props:")

_ALLOWED_NEXT: Final = "AND, OR, a comparison, arithmetic, or the end"


def parse_condition(text: str, natives: Mapping[int, NativeFields], dialect: Dialect) -> tuple[Condition, str, int]:
    """Return the condition of a selector, the prefix it has to be written with, and its weight.

    The weight is the cost of evaluating a message, in multiples of the simplest selectors. Raises SelectorError.
    """
    if len(text) > SELECTOR_CHARS_MAX:
        raise SelectorError(
            f"it has {len(text)} characters", at=SELECTOR_CHARS_MAX, allowed=f"at most {SELECTOR_CHARS_MAX} characters"
        )
    start, converts, hyphenated = read_prefixes(text)
    words = tokenize(text, start, hyphenated=hyphenated)
    if len(words) > WORDS_MAX:
        raise SelectorError("it has too many words", at=words[WORDS_MAX].at, allowed=f"at most {WORDS_MAX}")
    parser = _Parser(words, natives, dialect, converts=converts)
    return parser.condition(), CONVERTS if converts else "", 1 + len(words) // WORDS_PER_WEIGHT + parser.likes_weight


def read_prefixes(text: str) -> tuple[int, bool, bool]:
    """Return where the selector itself begins, and the values of the prefixes before it: the last of a kind counts."""
    converts = False
    hyphenated = False
    pos = 0
    while True:
        pos += len(text[pos:]) - len(text[pos:].lstrip(" \t\r\n\f"))
        for prefix in _PREFIXES:
            if text.startswith(prefix, pos):
                pos += len(prefix)
                if prefix.endswith(CONVERTS):
                    converts = prefix == CONVERTS
                else:
                    hyphenated = not prefix.startswith("no_")
                break
        else:
            return pos, converts, hyphenated


@final
class _Parser:
    """An operator precedence parser. Reads tokens from left to right, each once."""

    def __init__(
        self, words: list[Token], natives: Mapping[int, NativeFields], dialect: Dialect, *, converts: bool
    ) -> None:
        self._words = words
        self._natives = natives
        self._dialect = dialect
        self._converts = converts
        self._index = 0
        self._depth = 0  # of incomplete forms
        self.likes_weight = 0  # of the patterns so far

    def condition(self) -> Condition:
        """Return the condition of the whole text."""
        found = self._form(0)
        word = self._word()
        if word.kind != END:
            raise SelectorError(f"{word!r} where nothing can continue", at=word.at, allowed=_ALLOWED_NEXT)
        return self._as_condition(found, self._words[0].at)

    # --- by binding ---

    def _form(self, binds: int) -> Operand | Condition:
        """Return the form that begins here, with everything after it that binds stronger than `binds`."""
        self._depth += 1
        at = self._word().at
        if self._depth > DEPTH_MAX:
            raise self._too_deep(at)
        form = self._first()
        while True:
            word = self._word()
            stronger = self._dialect.binds.get(word.text, 0) if word.kind in (SIGN, RESERVED) else 0
            if stronger <= binds:
                self._depth -= 1
                return form
            form = self._continued(form, at, word, stronger)
            if form.depth > DEPTH_MAX:
                raise self._too_deep(word.at)

    def _first(self) -> Operand | Condition:
        """Return the form that begins here, up to the first sign between two operands."""
        word = self._next()
        if word.kind == NAME:
            name = operand_of(word.text, word.at, self._natives)
            if self._word().text == "(" and self._word().kind == SIGN:
                raise SelectorError(f"{word!r} is called", at=word.at, allowed="no functions")
            return name
        if word.kind == NUMBER:
            return Constant(word.number)
        if word.kind == TEXT:
            return Constant(word.text)
        if word.kind == RESERVED:
            if word.text in ("TRUE", "FALSE"):
                return Constant(word.text == "TRUE")
            if word.text == "NOT":
                at = self._word().at
                binds = self._dialect.not_binds
                return Not(self._as_condition(self._form(binds), at), binds)
            if word.text == "NULL":
                return self._dialect.null(word.at)
            if word.text in ("XPATH", "XQUERY"):
                raise SelectorError(f"{word.text} looks into the payload", at=word.at, allowed="names and constants")
        elif word.text == "(":
            form = self._form(0)
            self._expect(")")
            return form
        elif word.text in ("+", "-"):
            at = self._word().at
            operand = self._as_operand(self._form(BINDS_PRODUCT), at)
            return operand if word.text == "+" else Negative(operand)
        raise SelectorError(f"{word!r} where an operand has to stand", at=word.at, allowed=ALLOWED_OPERAND)

    def _continued(self, form: Operand | Condition, at: int, word: Token, binds: int) -> Operand | Condition:
        """Return `form`, which begins at an index, extended by the word after it."""
        if binds <= BINDS_AND:
            return self._joined(self._as_condition(form, at), word.text, binds)
        left = self._as_operand(form, at)
        if binds > BINDS_COMPARISON:
            self._next()
            return self._dialect.arithmetic(word.text, left, self._operand(binds))
        if word.kind == SIGN:
            return self._comparison(left, at, binds)
        if word.text == "IS":
            self._next()
            negated = self._skip("NOT")
            self._expect("NULL")
            return IsNull(left, negated=negated)
        negated = self._skip("NOT")
        word = self._next()
        if word.text == "LIKE" and word.kind == RESERVED:
            return self._like(left, negated=negated)
        if word.text == "BETWEEN" and word.kind == RESERVED:
            check_ordered(left, at)
            low = self._ordered_operand()
            self._expect("AND")
            high = self._ordered_operand()
            return self._dialect.between(left, low, high, negated=negated, converts=self._converts)
        if word.text == "IN" and word.kind == RESERVED:
            if not isinstance(left, Name):
                raise SelectorError("IN after something other than a name", at=at, allowed="name IN ('text', ...)")
            return In(left, self._listed_texts(), negated=negated)
        raise SelectorError(f"{word!r} behind NOT", at=word.at, allowed="NOT LIKE, NOT BETWEEN or NOT IN")

    # --- the kinds of conditions ---

    def _joined(self, first: Condition, junction: str, binds: int) -> Condition:
        conditions = [first]
        while self._word().kind == RESERVED and self._word().text == junction:
            self._next()
            at = self._word().at
            conditions.append(self._as_condition(self._form(binds), at))
        return AllOf(conditions) if junction == "AND" else AnyOf(conditions)

    def _comparison(self, left: Operand, at: int, binds: int) -> Condition:
        operator = SIGNS.index(self._next().text)
        right_at = self._word().at
        right = self._operand(binds)
        if operator in (EQUAL, UNEQUAL):
            self._dialect.check_equality(left, at, right, right_at)
        else:
            check_ordered(left, at)
            check_ordered(right, right_at)
        return self._dialect.comparison(operator, left, right, converts=self._converts)

    def _like(self, left: Operand, *, negated: bool) -> Condition:
        pattern = self._text("the pattern")
        self.likes_weight += LIKE_WEIGHT * (1 + len(pattern) // PATTERN_CHARS)
        escape = ""
        if self._skip("ESCAPE"):
            at = self._word().at
            escape = self._text("the escape character")
            if len(escape) != 1:
                raise SelectorError(f"{escape!r} behind ESCAPE", at=at, allowed="one character")
        return self._dialect.like(left, pattern, escape, negated=negated)

    def _listed_texts(self) -> list[str]:
        self._expect("(")
        texts = [self._text("what is listed")]
        while self._skip(","):
            texts.append(self._text("what is listed"))
        self._expect(")")
        return texts

    # --- operands ---

    def _operand(self, binds: int) -> Operand:
        at = self._word().at
        return self._as_operand(self._form(binds), at)

    def _ordered_operand(self) -> Operand:
        at = self._word().at
        operand = self._operand(BINDS_COMPARISON)
        check_ordered(operand, at)
        return operand

    def _as_operand(self, form: Operand | Condition, at: int) -> Operand:
        return form if isinstance(form, Operand) else self._dialect.value_of(form, at)

    def _as_condition(self, form: Operand | Condition, at: int) -> Condition:
        if isinstance(form, Condition):
            return form
        if isinstance(form, Name) or (isinstance(form, Constant) and isinstance(form.constant, bool)):
            return self._dialect.holds(form)
        raise SelectorError(
            "a value where a condition has to stand", at=at, allowed="a comparison, a name, TRUE, FALSE"
        )

    # --- words ---

    def _word(self) -> Token:
        return self._words[self._index]

    def _next(self) -> Token:
        word = self._words[self._index]
        if word.kind != END:
            self._index += 1
        return word

    def _skip(self, text: str) -> bool:
        """Skip the next token if it is this sign or reserved word, and return whether it is."""
        word = self._word()
        if word.kind not in (SIGN, RESERVED) or word.text != text:
            return False
        self._index += 1
        return True

    def _expect(self, text: str) -> None:
        word = self._word()
        if not self._skip(text):
            raise SelectorError(f"{word!r} where {text} has to stand", at=word.at, allowed=text)

    def _text(self, what: str) -> str:
        word = self._next()
        if word.kind != TEXT:
            raise SelectorError(f"{word!r} where {what} has to stand", at=word.at, allowed="a text in '")
        return word.text

    def _too_deep(self, at: int) -> SelectorError:
        return SelectorError("the selector is nested too deeply", at=at, allowed=f"at most {DEPTH_MAX}")
