"""The table of everything the admin port can do. Router, OpenAPI document and documentation page are made from it."""

from dataclasses import replace
from typing import Final

from sluicegate.gateway.admin.operation import (
    BAD_BODY,
    INVALID_PARAMETER,
    NOT_PERMITTED,
    NOT_SIGNED_IN,
    REFUSED,
    VPN_PARAMETER,
    Answer,
    Operation,
    Parameter,
    TextParameter,
)
from sluicegate.gateway.admin.rest.objects_operations import (
    FIGURES_OPERATIONS,
    PROFILE_OPERATIONS,
    REST_OPERATIONS,
    TEMPLATE_OPERATIONS,
    USER_OPERATIONS,
)
from sluicegate.gateway.config.sections.security.access_levels import AccessLevel
from sluicegate.gateway.views.clients import CLIENTS_DEFAULT, CLIENTS_MAX
from sluicegate.gateway.views.subscriptions import ROWS_DEFAULT, ROWS_MAX
from sluicegate.messaging.selectors.lexer import SELECTOR_CHARS_MAX

HTML: Final = "text/html"
METRICS_TEXT: Final = "text/plain"
MESSAGES_MAX: Final = 1000  # one page of a browse
MESSAGES_DEFAULT: Final = 100
EVENTS_MAX: Final = 1000  # what a node keeps


NOT_FOUND: Final = Answer(404, "No queue has that name", "Problem")

BROWSE_PARAMETERS: Final = (
    Parameter("partition", "read this partition only", 0, 999),
    Parameter("after", "sequences above this one", 0, 2**63 - 1, 0),
    Parameter("limit", "most messages to return", 1, MESSAGES_MAX, MESSAGES_DEFAULT),
)

NO_VPN: Final = Answer(404, "No message VPN has that name", "Problem")

EVENTS_PARAMETERS: Final = (
    Parameter("after", "events with numbers above this one", 0, 2**63 - 1, 0),
    Parameter("limit", "most events to return; the latest ones", 1, EVENTS_MAX, 100),
)

SELECTOR_PARAMETER: Final = TextParameter("selector", "only messages that this selector selects", SELECTOR_CHARS_MAX)
FOLLOW: Final = Parameter(
    "follow", "1: go on with new messages as they come, one JSON object a line, until you hang up", 0, 1, 0
)
TOPIC_PARAMETER: Final = TextParameter("topic", "topic of the message; none with `queue`", 65_535)
TARGET_PARAMETER: Final = TextParameter("queue", "a queue the message is sent to", 250)
CLIENT_NAME_PARAMETER: Final = TextParameter("client_name", "* is any characters, ? one", 65_535)
CLIENTS_NUMBERS: Final = (
    Parameter("after", "clients to pass over", 0, 2**63 - 1, 0),
    Parameter("limit", "most clients to return", 1, CLIENTS_MAX, CLIENTS_DEFAULT),
)
QUEUE_PARAMETER: Final = TextParameter("queue", "name of the queue", 250, required=True)
KEY_PARAMETER: Final = TextParameter("key", "partition key", 255)
CLIENT_ID_PARAMETER: Final = TextParameter("client_id", "the publisher's, for queues that take keys from it", 65_535)
CLIENT_USERNAME_PARAMETER: Final = TextParameter(
    "client_username", "the publisher's, for its rights; without one that of the client that is connected", 255
)
PROPERTIES_PARAMETER: Final = TextParameter(
    "properties", 'user properties of the message, for selectors: a JSON object such as {"amount": 12}', 65_535
)
KEY_WANTED_PARAMETER: Final = TextParameter("key", "partition key", 255, required=True)
SPECIMEN_TEXTS: Final = (KEY_PARAMETER, CLIENT_ID_PARAMETER, CLIENT_USERNAME_PARAMETER, PROPERTIES_PARAMETER)
MESSAGE_PARAMETERS: Final = (
    Parameter("size", "payload in bytes", 0, 2**40, 0),
    Parameter("qos", "0: a direct message", 0, 2, 1),
    Parameter("priority", "below 4 is low", 0, 9, 4),
    Parameter("deliver_to_one", "1: it is for one of its subscribers only", 0, 1, 0),
)

PATTERN_CHARS_MAX: Final = 65_535
SMRP_TEXTS: Final = (
    TextParameter("vpn_name", "pattern; `*` stands for any characters, `?` for one", PATTERN_CHARS_MAX),
    TextParameter("destination_name", "pattern of clients and queues", PATTERN_CHARS_MAX),
    TextParameter("topic", "only what matches messages on this topic", PATTERN_CHARS_MAX),
    TextParameter("topic_str", "pattern of the subscription", PATTERN_CHARS_MAX),
)
SMRP_NUMBERS: Final = (
    Parameter("after", "rows to pass over", 0, 2**31 - 1, 0),
    Parameter("limit", "most rows to return", 1, ROWS_MAX, ROWS_DEFAULT),
)

OPEN: Final = frozenset({"/health/live", "/health/ready"})  # anybody may ask that
# What probes and scrapers ask: it tells no message, no name of a client, and changes nothing.
PROBED: Final = OPEN | {"/metrics"}

_OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("index", "GET", "/", "What there is here", (Answer(200, "A page of links", None, HTML),)),
    Operation("docs", "GET", "/docs", "This documentation", (Answer(200, "A page", None, HTML),)),
    Operation("openapi", "GET", "/openapi.json", "The OpenAPI document", (Answer(200, "OpenAPI 3.1", "Document"),)),
    Operation(
        "live",
        "GET",
        "/health/live",
        "Whether the process works; restart it when not",
        (Answer(200, "It works", "Health"), Answer(503, "It does not, for `reasons`", "Health")),
    ),
    Operation(
        "ready",
        "GET",
        "/health/ready",
        "Whether the node takes traffic",
        (Answer(200, "It does", "Health"), Answer(503, "It does not, for `reasons`", "Health")),
    ),
    Operation(
        "metrics",
        "GET",
        "/metrics",
        "Metrics for Prometheus",
        (Answer(200, "Text exposition format", None, METRICS_TEXT),),
    ),
    Operation("actors", "GET", "/actors", "The tree of actors", (Answer(200, "Roots first", "Actors"),)),
    Operation(
        "events",
        "GET",
        "/events",
        "What happened lately, oldest first",
        (Answer(200, "The latest ones", "Events"), INVALID_PARAMETER),
        parameters=EVENTS_PARAMETERS,
    ),
    Operation(
        "explain_publish",
        "GET",
        "/explain/publish",
        "Where a message would go, which partition it would get, what each check would say; nothing is published",
        (
            Answer(200, "The explanation", "PublishExplanation"),
            NOT_FOUND,
            INVALID_PARAMETER,
        ),
        parameters=(TOPIC_PARAMETER, TARGET_PARAMETER, *SPECIMEN_TEXTS, *MESSAGE_PARAMETERS),
    ),
    Operation(
        "explain_key",
        "GET",
        "/explain/key",
        "The partition of a key, who consumes it, and why its messages wait",
        (
            Answer(200, "The explanation", "KeyExplanation"),
            NOT_FOUND,
            INVALID_PARAMETER,
        ),
        parameters=(QUEUE_PARAMETER, KEY_WANTED_PARAMETER),
    ),
    Operation(
        "show_account",
        "GET",
        "/account",
        "Who you are here, and how far you may go in the node and in a message VPN",
        (Answer(200, "Your account", "AccountView"),),
    ),
    *FIGURES_OPERATIONS,
    *REST_OPERATIONS,
    *USER_OPERATIONS,
    *PROFILE_OPERATIONS,
    Operation(
        "smrp_subscriptions",
        "GET",
        "/smrp/subscriptions",
        "Who subscribes to what, and with which Deliver-To-One priority",
        (
            Answer(200, "A page of rows, by destination", "SmrpSubscriptionsView"),
            INVALID_PARAMETER,
        ),
        parameters=(*SMRP_TEXTS, *SMRP_NUMBERS),
    ),
    Operation(
        "list_message_vpns",
        "GET",
        "/message-vpns",
        "Every message VPN: whether it is up, and what it holds",
        (Answer(200, "By name", "MessageVpnsView"),),
    ),
    Operation(
        "list_clients",
        "GET",
        "/clients",
        "The clients that are connected, and what holds them up",
        (
            Answer(200, "A page of clients, by name", "ClientsView"),
            INVALID_PARAMETER,
        ),
        parameters=(CLIENT_NAME_PARAMETER, *CLIENTS_NUMBERS),
    ),
    Operation(
        "disconnect_client",
        "DELETE",
        "/clients/{name}",
        "Send a client away, over whatever protocols it came; it may come again",
        (Answer(204, "It is gone"), Answer(404, "No client of that name is connected", "Problem")),
    ),
    Operation(
        "show_spool",
        "GET",
        "/spool",
        "The spool: its incarnation, and how full it is",
        (Answer(200, "Now", "SpoolView"),),
    ),
    Operation(
        "start_backup",
        "POST",
        "/backup",
        "Begin a backup of the spool in the node's `backup.path`; without a name it is called by the time",
        (Answer(202, "It has begun", "BackupView"), REFUSED, *BAD_BODY),
        body="StartBackup",
    ),
    Operation(
        "show_backup",
        "GET",
        "/backup",
        "How far the latest backup has come",
        (Answer(200, "Its progress", "BackupView"), REFUSED),
    ),
    Operation(
        "cancel_backup",
        "DELETE",
        "/backup",
        "End the backup that is running; nothing of it is left",
        (Answer(200, "What it came to", "BackupView"), REFUSED),
    ),
    Operation("list_queues", "GET", "/queues", "Every queue", (Answer(200, "By name", "Queues"),)),
    Operation(
        "create_queue",
        "POST",
        "/queues",
        "Create a queue; what it leaves open is taken from the template that fits its name",
        (
            Answer(201, "Created", "QueueView"),
            Answer(409, "It exists already, or the node refuses", "Problem"),
            *BAD_BODY,
        ),
        body="QueueDefinition",
    ),
    Operation(
        "show_queue",
        "GET",
        "/queues/{name}",
        "One queue with its partitions and flows",
        (Answer(200, "The queue", "QueueView"), NOT_FOUND),
    ),
    Operation(
        "update_queue",
        "PATCH",
        "/queues/{name}",
        "Change some attributes, or the subscriptions as a whole; all of it or nothing",
        (Answer(200, "As it is now", "QueueView"), NOT_FOUND, REFUSED, *BAD_BODY),
        body="QueueChanges",
    ),
    Operation(
        "delete_queue",
        "DELETE",
        "/queues/{name}",
        "Delete a queue with all it holds",
        (Answer(204, "It is gone"), NOT_FOUND, REFUSED),
    ),
    Operation(
        "purge_queue",
        "POST",
        "/queues/{name}/purge",
        "Remove every message that waits; what is delivered and unsettled stays",
        (Answer(200, "How many", "Purged"), NOT_FOUND, REFUSED),
    ),
    Operation(
        "replay_queue",
        "POST",
        "/queues/{name}/replay",
        "Offer settled messages that the queue still keeps to its consumers again, before what is newer",
        (Answer(200, "How many", "Replayed"), NOT_FOUND, REFUSED, *BAD_BODY),
        body="Replay",
    ),
    Operation(
        "list_cursors",
        "GET",
        "/queues/{name}/cursors",
        "Its durable cursors: who reads it in bulk, and how far they are",
        (Answer(200, "By name", "Cursors"), NOT_FOUND),
    ),
    Operation(
        "delete_cursor",
        "DELETE",
        "/queues/{name}/cursors/{cursor}",
        "Forget a durable cursor, its position, and what is kept for it",
        (Answer(204, "It is gone"), Answer(404, "No such queue or cursor", "Problem"), REFUSED),
    ),
    Operation(
        "add_batch",
        "PUT",
        "/queues/{name}/cursors/{cursor}/batch",
        "Tell of the last batch of the reader behind a cursor, for the metrics; the same one counts once",
        (Answer(204, "It is counted"), Answer(404, "No such queue or cursor", "Problem"), *BAD_BODY),
        body="ReaderBatch",
    ),
    Operation(
        "list_selectors",
        "GET",
        "/durable-selectors",
        "What consumers of selector-aware virtual topics select, also those that are away",
        (Answer(200, "By queue and subscriber", "DurableSelectors"),),
    ),
    Operation(
        "put_selector",
        "PUT",
        "/queues/{name}/selectors/{subscriber}",
        "Set what a subscriber selects until it comes with another selector",
        (Answer(204, "It is in force"), NOT_FOUND, *BAD_BODY),
        body="SetSelectors",
    ),
    Operation(
        "delete_selector",
        "DELETE",
        "/queues/{name}/selectors/{subscriber}",
        "Forget what a subscriber selects: while it is away, nothing is collected for it",
        (Answer(204, "It is gone"), Answer(404, "No such queue or subscriber", "Problem")),
    ),
    Operation(
        "reload",
        "POST",
        "/configuration/reload",
        "Read the configuration again, as SIGHUP does; only who may not come in any more is sent away",
        (Answer(200, "What changed", "ReloadView"), REFUSED),
    ),
    Operation(
        "browse_queue",
        "GET",
        "/queues/{name}/messages",
        "Messages oldest first, without removing any",
        (
            Answer(200, "One page; with `follow=1` a MessageView a line (application/x-ndjson)", "Messages"),
            NOT_FOUND,
            INVALID_PARAMETER,
        ),
        parameters=(*BROWSE_PARAMETERS, SELECTOR_PARAMETER, FOLLOW),
    ),
    *TEMPLATE_OPERATIONS,
    *(
        Operation(
            f"{deed}_messages",
            "POST",
            f"/queues/{{name}}/messages/{deed}",
            summary,
            (Answer(200, "What was done, and what was not", "TakenView"), NOT_FOUND, *BAD_BODY),
            body=schema,
        )
        for deed, summary, schema in (
            ("delete", "Delete messages, by id or by what they are like; not what a consumer holds", "DeleteMessages"),
            ("move", "Move messages to another queue, each in one step; what it does not take stays", "MoveMessages"),
            ("copy", "Copy messages to another queue, as if they were published to it", "MoveMessages"),
        )
    ),
    Operation(
        "start_redrive",
        "POST",
        "/queues/{name}/redrive",
        "Drive dead messages back to where they died, as they were published",
        (Answer(202, "It has begun", "RedriveView"), NOT_FOUND, REFUSED, *BAD_BODY),
        body="RedriveMessages",
    ),
    Operation(
        "show_redrive",
        "GET",
        "/queues/{name}/redrive",
        "How far the latest re-drive has come",
        (Answer(200, "Its progress", "RedriveView"), NOT_FOUND, REFUSED),
    ),
    Operation(
        "cancel_redrive",
        "DELETE",
        "/queues/{name}/redrive",
        "End a re-drive where it is; another one goes on from there",
        (Answer(200, "What it came to", "RedriveView"), NOT_FOUND, REFUSED),
    ),
)

# What there is once for all message VPNs.
_OF_THE_NODE: Final = frozenset(
    {
        *("index", "docs", "openapi", "live", "ready", "metrics", "actors", "events", "list_message_vpns", "reload"),
        "node_figures",
        *("show_spool", "start_backup", "show_backup", "cancel_backup"),
    }
)

# For every account, however little it may do; or for those only who may do everything. The rest is by the method.
_FOR_EVERY_ACCOUNT: Final = frozenset({"index", "docs", "openapi", "live", "ready", "show_account"})
_FOR_ADMINS: Final = frozenset({"reload", "start_backup", "cancel_backup"})


def _level(operation: Operation) -> AccessLevel:
    if operation.id in _FOR_EVERY_ACCOUNT:
        return AccessLevel.NONE
    if operation.id in _FOR_ADMINS:
        return AccessLevel.ADMIN
    return AccessLevel.READ_ONLY if operation.method == "GET" else AccessLevel.READ_WRITE


def _of_vpn(operation: Operation) -> Operation:
    """Return an operation with what all have that are about one message VPN."""
    return replace(operation, parameters=(*operation.parameters, VPN_PARAMETER), of_vpn=True)


def _whole(operation: Operation) -> Operation:
    """Return an operation with what follows from its method, and from what it is about."""
    whole = operation if operation.id in _OF_THE_NODE else _of_vpn(operation)
    more = [] if operation.path in OPEN else [NOT_SIGNED_IN, NOT_PERMITTED]
    more += [NO_VPN, INVALID_PARAMETER] if whole.of_vpn else []
    statuses = {answer.status for answer in operation.answers}
    answers = (*operation.answers, *(each for each in more if each.status not in statuses))
    return replace(whole, answers=answers, level=_level(operation))


OPERATIONS: Final = tuple(_whole(each) for each in _OPERATIONS)
