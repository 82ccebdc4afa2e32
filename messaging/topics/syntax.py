"""Topics and topic filters: the syntaxes of MQTT and SMF, and when a filter matches a topic.

A filter is parsed once, into levels that are independent of the syntax. Everything else (the subscription index, the
retained set, queue subscriptions) works on those levels. `messaging.topics.subscription_index` matches many filters
against one topic; `messaging.topics.retained` finds many topics by one filter.

Rules of matching, for both syntaxes:

1. Levels are separated by `/`. Empty levels count: `a`, `/a`, `a/` and `a//b` are four different topics. Nothing
   is normalised: topics are equal when their code points are [MQTT 4.7.3-4].
2. A topic whose first level begins with `$`, `#P2P` or `#LOG` is reached only by a filter that names that first level
   in full, never by a wildcard there [MQTT 4.7.2-1]. In later levels wildcards are free. (SMF lets wildcards reach
   `#LOG`; but an MQTT client, whose `#` is such a wildcard, must not be sent a topic that has one in it.)
3. A wildcard stands for one level, or in the last place of a filter for all levels from there on. So matching goes
   once from left to right and never back.
"""

from enum import StrEnum
from typing import Final, NamedTuple, final

DEAD_MESSAGE_QUEUE: Final = "#DEAD_MSG_QUEUE"


MQTT_TOPIC_BYTES_MAX: Final = 65535  # a UTF-8 string on the wire has a length of two bytes [MQTT 4.7.3-3]
NO_LEVELS_MAX: Final = 0  # of MQTT's topics: the standard limits their length only
SMF_TOPIC_BYTES_MAX: Final = 250
SMF_TOPIC_LEVELS_MAX: Final = 128

LITERAL: Final = 0  # exactly this text
ANY_LEVEL: Final = 1  # any one level, an empty one too
PREFIX: Final = 2  # one level that begins with this text, or is it
REST: Final = 3  # one or more further levels; only as the last level
REST_OR_NONE: Final = 4  # zero or more further levels; only as the last level

LevelKind = int  # one of the five above

SHARE_TOPICS: Final = "$share/"  # prefix of MQTT's shared subscriptions, and of no topic
_SMF_SHARE: Final = "#share/"
TOPIC_REMEMBERED_CHARACTERS_MAX: Final = 256  # in any cache by topic: longer ones, up to 64 KB, would fill the memory
FILTERS_REMEMBERED_MAX: Final = 1024  # in each syntax; the cache is cleared when it is full
_REMEMBERED_CHARACTERS_MAX: Final = 128  # of a filter: longer ones are parsed each time
SHARE_FORMS: Final = (SHARE_TOPICS, _SMF_SHARE)  # prefixes of shared subscriptions
NO_EXPORT: Final = "#noexport/"  # prefix of subscriptions that neighbor brokers are not told of, and of no topic
# Libraries of MQTT clients refuse a filter with a `#` before other levels. Both forms have ten characters.
NO_EXPORT_FORMS: Final = (NO_EXPORT, "$noexport/")
_MQTT_SHARE_FORMS: Final = (SHARE_TOPICS, *[form + SHARE_TOPICS for form in NO_EXPORT_FORMS])
QUEUE_TOPICS: Final = "$queue/"  # prefix of the topics of queues
TEMPORARY_TOPICS: Final = "$temporary/"  # prefix of the topics that the gateway makes for one AMQP connection,
REPLY_TOPICS: Final = "$reply/"  # and for the request of an HTTP client
_FIRST_LEVELS_OF_ONE: Final = frozenset([each[:-1] for each in (QUEUE_TOPICS, TEMPORARY_TOPICS, REPLY_TOPICS)])
ANONYMOUS_QUEUES: Final = "$anonymous/"  # prefix of temporary queues without a name; no MQTT client publishes to a `#`
# What follows the prefixes of names that a broker makes up begins with the broker's own name.
_MADE_UP: Final = (TEMPORARY_TOPICS, REPLY_TOPICS, QUEUE_TOPICS + ANONYMOUS_QUEUES)
EVENT_TOPICS: Final = "$SYS/"  # prefix of the topics on which only the gateway publishes
SYSTEM_LEVEL: Final = "$SYS"  # their first level
GATEWAY_TOPICS: Final = (EVENT_TOPICS, QUEUE_TOPICS)  # clients may not publish to these; to a queue, by its address
DEAD_MESSAGE_ADDRESS: Final = "$queue/$DEAD_MSG_QUEUE"
_SHOWN_CHARACTERS_MAX: Final = 80  # of a refused topic, in the text of its error


class Syntax(StrEnum):
    """The syntax that a filter is written in.

    A StrEnum hashes as its text does. Other enums hash by a function of Python's, which takes a thousand instructions
    where interests of brokers are counted (`messaging.network.interest`).
    """

    MQTT = "mqtt"
    SMF = "smf"


class TopicError(ValueError):
    """A topic or filter breaks the rules of its syntax. The text names the rule; the fields are for programs."""

    def __init__(self, reason: str, *, text: str, level: int | None, allowed: str) -> None:
        shown = text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "..."
        where = "" if level is None else f", level {level}"
        super().__init__(f"{shown!r}{where}: {reason}; allowed: {allowed}")
        self.reason = reason
        self.text = text
        self.level = level  # counted from 1; None: the rule concerns the whole text
        self.allowed = allowed


class Level(NamedTuple):
    """One level of a filter."""

    kind: LevelKind
    text: str  # of LITERAL and PREFIX; empty for other kinds


_ANY: Final = Level(ANY_LEVEL, "")
_REST: Final = Level(REST, "")
_REST_OR_NONE: Final = Level(REST_OR_NONE, "")


def _level(kind: LevelKind, text: str) -> Level:
    # Calling the class would run the interpreted constructor of a named tuple: 2,300 instructions, of a filter's 4,500.
    return tuple.__new__(Level, (kind, text))


@final
class TopicFilter:
    """A parsed filter, immutable. Built by `parse_filter`.

    Two filters are equal when they match by the same rule, whatever their syntax: MQTT `a/+` is SMF `a/*`. One that is
    not exported is another than one that is: a client may have both.

    Invariants: at least one level; REST and REST_OR_NONE only in the last place; a PREFIX has at least one character.
    """

    __slots__ = ("is_literal", "is_local", "levels", "syntax", "text")

    def __init__(self, text: str, syntax: Syntax, levels: tuple[Level, ...], *, is_local: bool = False) -> None:
        self.text: Final = text  # as subscribed, without any `#noexport/`, `$share/...` or `!` before it
        self.is_local: Final = is_local  # neighbor brokers are not told of it
        self.syntax: Final = syntax
        self.levels: Final = levels
        # When the filter is literal, `text` is the one topic it matches.
        self.is_literal: Final = all(level.kind == LITERAL for level in levels)

    def is_everything(self) -> bool:
        """Return whether it is `>`, or MQTT's `#`: all topics except the hidden ones."""
        return len(self.levels) == 1 and self.levels[0].kind >= REST

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicFilter):
            return NotImplemented
        return self.levels == other.levels and self.is_local == other.is_local

    def __hash__(self) -> int:
        return hash(self.levels)

    def __repr__(self) -> str:
        return f"TopicFilter({self.text!r}, {self.syntax.value})"


_mqtt_filters: Final[dict[str, TopicFilter]] = {}
_smf_filters: Final[dict[str, TopicFilter]] = {}


def queue_topic(name: str) -> str:
    """Return the topic of a queue: a message published to it goes into the queue, and its consumers see it."""
    return QUEUE_TOPICS + name


def is_queue_topic(topic: str) -> bool:
    """Return whether a topic is the topic of a queue, whether the queue exists or not."""
    return topic.startswith(QUEUE_TOPICS)


def queue_name_of(topic: str) -> str:
    """Return the name of the queue of a queue topic."""
    return topic[len(QUEUE_TOPICS) :]


def made_up_name(prefix: str, broker: str, number: int) -> str:
    """Return a name for a topic or queue that a broker makes for one client, with one of the prefixes above."""
    return f"{prefix}{broker}/{number:032x}"


def maker_of(topic: str) -> str:
    """Return the broker that made up the name of a topic, or of the queue whose topic it is; empty: none did."""
    for prefix in _MADE_UP:
        if topic.startswith(prefix):
            broker, slash, _ = topic[len(prefix) :].partition("/")
            return broker if slash else ""
    return ""


def reaches_others(topic_filter: TopicFilter) -> bool:
    """Return whether a filter matches topics for one receiver: queue topics, temporary topics and reply topics.

    Only filters that name the first level match such topics.
    """
    first = topic_filter.levels[0]
    return first.kind == LITERAL and first.text in _FIRST_LEVELS_OF_ONE


def shown_destination(topic: str) -> str:
    """Return a destination as JMS brokers write it."""
    return f"queue://{queue_name_of(topic)}" if is_queue_topic(topic) else f"topic://{topic}"


def queue_topic_filter(name: str) -> TopicFilter:
    """Return the filter for the topic of a queue. The name is literal: it may contain wildcard characters."""
    text = queue_topic(name)
    return TopicFilter(text, Syntax.MQTT, tuple([_level(LITERAL, level) for level in text.split("/")]))


def filter_of(levels: tuple[Level, ...]) -> TopicFilter:
    """Return the filter with these levels, as one of an index. Its text is as `in_mqtt_syntax` gives it."""
    return TopicFilter("/".join(_mqtt_words(levels)), Syntax.MQTT, levels)


def local_filter(topic_filter: TopicFilter) -> TopicFilter:
    """Return a filter as that of a subscription that neighbor brokers are not told of."""
    return TopicFilter(topic_filter.text, topic_filter.syntax, topic_filter.levels, is_local=True)


class SharedFilter(NamedTuple):
    """A shared subscription. Its group is the pair: another name, or another filter, is another group."""

    share_name: str
    filter: TopicFilter


def check_topic_name(topic: str) -> None:
    """Raise TopicError unless the topic is valid for an MQTT publish. The client's rights are not checked here."""
    check_topic_syntax(topic)
    if topic.startswith(SHARE_TOPICS):
        raise TopicError("'$share/' begins a filter, not a topic", text=topic, level=1, allowed="subscribing to it")


def check_topic_syntax(topic: str) -> None:
    """Raise TopicError for a text that no topic can have [MQTT 4.7]. `$share/` may begin it."""
    _check_text(topic, MQTT_TOPIC_BYTES_MAX, NO_LEVELS_MAX)
    for wildcard in ("#", "+"):
        if wildcard in topic:
            reason = f"{wildcard!r} in a topic that is published to"
            raise _error_at(topic.index(wildcard), reason, topic, "'+' and '#' in filters only")


def check_published_topic(topic: str) -> None:
    """Raise TopicError unless the topic is valid by MQTT's rules and not one of the gateway's own."""
    if topic.startswith(GATEWAY_TOPICS):
        reason = f"topics that begin with {' or '.join(GATEWAY_TOPICS)} are the gateway's"
        raise TopicError(reason, text=topic, level=1, allowed="another beginning")
    check_topic_name(topic)


def parse_filter(text: str, syntax: Syntax) -> TopicFilter:
    """Parse a filter in a syntax. Raises TopicError.

    Many clients subscribe to the same filter, so a recent result for the same text is returned again.

    A leading `!`, `$queue/` or `$share/` is literal here. These forms have parsers of their own below; a caller tries
    them first where they are permitted.
    """
    remembered = _mqtt_filters if syntax is Syntax.MQTT else _smf_filters
    found = remembered.get(text)
    if found is not None:
        return found
    if syntax is Syntax.MQTT:
        _check_text(text, MQTT_TOPIC_BYTES_MAX, NO_LEVELS_MAX)
        parsed = TopicFilter(text, syntax, _mqtt_levels(text))
    else:
        _check_text(text, SMF_TOPIC_BYTES_MAX, SMF_TOPIC_LEVELS_MAX)
        parsed = TopicFilter(text, syntax, _smf_levels(text))
    if len(text) <= _REMEMBERED_CHARACTERS_MAX:
        if len(remembered) >= FILTERS_REMEMBERED_MAX:
            remembered.clear()
        remembered[text] = parsed
    return parsed


def parse_subscription(text: str, syntax: Syntax) -> TopicFilter:
    """Parse a subscription of a client: a filter, or `#noexport/` and a filter. Raises TopicError."""
    if not text.startswith(NO_EXPORT_FORMS):
        return parse_filter(text, syntax)
    return local_filter(parse_filter(_without_no_export(text), syntax))


def _without_no_export(text: str) -> str:
    """Return what follows `#noexport/`. Raises TopicError for nothing, and for another one."""
    found = text[len(NO_EXPORT) :]
    if not found or found.startswith(NO_EXPORT_FORMS):
        reason = f"{found!r:.40} follows {text[: len(NO_EXPORT)]!r}" if found else f"no filter after {text!r}"
        raise TopicError(reason, text=text, level=2, allowed=f"{NO_EXPORT}FILTER")
    return found


def is_shared_in_mqtt(text: str) -> bool:
    """Return whether a text begins like a shared subscription of MQTT, exported or not."""
    return text.startswith(_MQTT_SHARE_FORMS)


def parse_shared(text: str, syntax: Syntax | None = None) -> SharedFilter | None:
    """Return the parts of `$share/NAME/FILTER` (MQTT) or `#share/NAME/FILTER` (SMF); None for any other text.

    `#noexport/` may begin it. With a syntax given, only its own form counts; without one, the prefix decides. Raises
    TopicError when the text begins like a shared subscription and is not a valid one: no name, a wildcard in it, no
    filter [MQTT 4.8.2-1, 4.8.2-2].
    """
    if text.startswith(NO_EXPORT_FORMS):
        exported = parse_shared(_without_no_export(text), syntax)
        return None if exported is None else SharedFilter(exported.share_name, local_filter(exported.filter))
    if text.startswith(SHARE_TOPICS) and syntax is not Syntax.SMF:
        form, wildcards = Syntax.MQTT, "+#"
        _check_text(text, MQTT_TOPIC_BYTES_MAX, NO_LEVELS_MAX)
    elif text.startswith(_SMF_SHARE) and syntax is not Syntax.MQTT:
        form, wildcards = Syntax.SMF, "*>"
        _check_text(text, SMF_TOPIC_BYTES_MAX, SMF_TOPIC_LEVELS_MAX)
    else:
        return None
    share_name, slash, filter_text = text[len(SHARE_TOPICS) :].partition("/")  # both prefixes are seven characters
    if not share_name:
        raise TopicError("the share name is empty", text=text, level=2, allowed="a name of one character or more")
    for wildcard in wildcards:
        if wildcard in share_name:
            raise TopicError(
                f"{wildcard!r} in the share name", text=text, level=2, allowed=f"a name without any of '/{wildcards}'"
            )
    if not slash or not filter_text:
        raise TopicError("no filter after the share name", text=text, level=None, allowed=f"{text[:7]}NAME/FILTER")
    return SharedFilter(share_name, parse_filter(filter_text, form))


def in_mqtt_syntax(topic_filter: TopicFilter) -> str:
    """Return a filter in MQTT's syntax, so that equal filters have equal texts.

    What MQTT cannot express stays as in SMF, and then looks like an MQTT filter of other meaning: a prefix, `>`, a
    level that is `+` or `#`.
    """
    return "/".join(_mqtt_words(topic_filter.levels))


_MQTT_WORDS: Final[dict[int, str]] = {ANY_LEVEL: "+", REST: ">", REST_OR_NONE: "#"}


def _mqtt_words(levels: tuple[Level, ...]) -> list[str]:
    return [_MQTT_WORDS.get(level.kind, level.text + "*" if level.kind == PREFIX else level.text) for level in levels]


def parse_queue_address(text: str) -> str | None:
    """Return NAME of `$queue/NAME`, MQTT's way to consume from a named queue; None for any other text.

    The name may contain `/`. It is not checked here whether the queue exists, or may. Raises TopicError for an empty
    name. `$queue/$DEAD_MSG_QUEUE` is the dead message queue as well: many clients send no filter with a `#` before a
    name.
    """
    if not text.startswith(QUEUE_TOPICS):
        return None
    if text == DEAD_MESSAGE_ADDRESS:
        return DEAD_MESSAGE_QUEUE
    _check_text(text, MQTT_TOPIC_BYTES_MAX, NO_LEVELS_MAX)
    name = text[len(QUEUE_TOPICS) :]
    if not name:
        raise TopicError("the queue name is empty", text=text, level=2, allowed="$queue/NAME")
    return name


def syntax_of(text: str) -> Syntax:
    """Guess the syntax of a text that may be in either: `+` and `#` mean nothing in SMF."""
    return Syntax.MQTT if "+" in text.removeprefix("!").split("/") or text.endswith("#") else Syntax.SMF


def parse_queue_subscription(text: str, syntax: Syntax) -> tuple[bool, TopicFilter]:
    """Parse a subscription of a queue: (is it an exception, its filter). Raises TopicError.

    `!FILTER` keeps matching topics out of the queue, whatever else matches. Only queues have exceptions, and they
    cannot be members of a share. `#noexport/FILTER` is not told to neighbor brokers, as no exception is. The limits are
    those of SMF in either syntax: queues belong to no protocol.
    """
    is_exception = text.startswith("!")
    filter_text = text[1:] if is_exception else text
    if is_exception and not filter_text:
        raise TopicError("no filter after '!'", text=text, level=1, allowed="!FILTER")
    is_local = filter_text.startswith(NO_EXPORT_FORMS)
    if is_local and is_exception:
        raise TopicError(f"{NO_EXPORT!r} in an exception", text=text, level=1, allowed="!FILTER")
    if is_local:
        filter_text = _without_no_export(filter_text)
    if filter_text.startswith(SHARE_FORMS):
        raise TopicError("a queue cannot be a member of a share", text=text, level=None, allowed="FILTER or !FILTER")
    _check_text(filter_text, SMF_TOPIC_BYTES_MAX, SMF_TOPIC_LEVELS_MAX)
    found = parse_filter(filter_text, syntax)
    return is_exception, local_filter(found) if is_local else found


def hidden_from_wildcards(topic: str) -> bool:
    """Return whether only a literal first level reaches this topic (rule 2 above)."""
    return topic.startswith("$") or topic.startswith("#P2P") or topic.startswith("#LOG")


def matches(topic_filter: TopicFilter, topic: str) -> bool:
    """Return whether the filter matches the topic: the plain definition, for one filter and one topic."""
    levels = topic_filter.levels
    words = topic.split("/")
    if levels[0].kind != LITERAL and hidden_from_wildcards(topic):
        return False
    for index, level in enumerate(levels):
        if level.kind == REST_OR_NONE:
            return True
        if index == len(words):
            return False
        if level.kind == REST:
            return True
        if level.kind == LITERAL and words[index] != level.text:
            return False
        if level.kind == PREFIX and not words[index].startswith(level.text):
            return False
    return len(levels) == len(words)


def _mqtt_levels(text: str) -> tuple[Level, ...]:
    """Parse an MQTT filter: `+` and `#` stand for levels, anywhere else in it they are errors [4.7.1-1, 4.7.1-2]."""
    words = text.split("/")
    levels: list[Level] = []
    for index, word in enumerate(words):
        if word == "+":
            levels.append(_ANY)
        elif word == "#":
            if index != len(words) - 1:
                raise TopicError("levels follow '#'", text=text, level=index + 1, allowed="'#' as the last level")
            levels.append(_REST_OR_NONE)
        elif "#" in word:
            raise TopicError("'#' beside other text", text=text, level=index + 1, allowed="'#' as the whole last level")
        elif "+" in word:
            raise TopicError("'+' beside other text", text=text, level=index + 1, allowed="'+' as a whole level")
        else:
            levels.append(_level(LITERAL, word))
    return tuple(levels)


def _smf_levels(text: str) -> tuple[Level, ...]:
    """Parse an SMF filter. A star or `>` in a place where it is not a wildcard is silently literal, as users expect.

    Of several stars in a level only the last can be a wildcard, by ending it: `a*b*` is the prefix `a*b`.
    """
    words = text.split("/")
    levels: list[Level] = []
    for index, word in enumerate(words):
        if not word:
            raise TopicError("the level is empty", text=text, level=index + 1, allowed="empty levels in topics only")
        if word == "*":
            levels.append(_ANY)
        elif word.endswith("*"):
            levels.append(_level(PREFIX, word[:-1]))
        elif word == ">" and index == len(words) - 1:
            levels.append(_REST)
        else:
            levels.append(_level(LITERAL, word))
    return tuple(levels)


def _check_text(text: str, bytes_max: int, levels_max: int) -> None:
    """Raise TopicError for a text that is neither a valid topic nor a valid filter."""
    if not text:
        raise TopicError("it is empty", text=text, level=None, allowed="one character or more")  # [MQTT 4.7.3-1]
    if "\0" in text:
        raise _error_at(text.index("\0"), "it contains U+0000", text, "any other character")  # [MQTT 4.7.3-2]
    size = len(text)
    if not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:  # a lone surrogate: no UTF-8 exists for it
            raise _error_at(error.start, "it has no UTF-8 form", text, "text without surrogates") from error
    if size > bytes_max:
        raise TopicError(f"it has {size} bytes", text=text, level=None, allowed=f"at most {bytes_max} bytes of UTF-8")
    check_level_count(text, levels_max)


def check_level_count(text: str, levels_max: int) -> None:
    """Raise TopicError for a topic or filter with more levels than an operator allows; 0: no limit."""
    if levels_max > 0:
        count = text.count("/") + 1
        if count > levels_max:
            raise TopicError(f"it has {count} levels", text=text, level=None, allowed=f"at most {levels_max} levels")


def _error_at(position: int, reason: str, text: str, allowed: str) -> TopicError:
    return TopicError(reason, text=text, level=text.count("/", 0, position) + 1, allowed=allowed)


@final
class Destination:
    """The destination of a publisher, in any protocol: a topic with its subscribers, or one queue by its topic."""

    __slots__ = ("is_queue", "topic")

    def __init__(self, topic: str, *, is_queue: bool) -> None:
        self.topic = topic
        self.is_queue = is_queue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Destination) and other.topic == self.topic and other.is_queue == self.is_queue

    __hash__ = None  # type: ignore[assignment]  # compared only
