"""The pages have every setting, key of an account and queue attribute, with its default."""

import re
from pathlib import Path

from sluicegate.gateway.config.allowed import leaves
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.reload import RELOADABLE
from sluicegate.gateway.config.sections.admin import AdminUser
from sluicegate.gateway.config.sections.security.authentication import User
from sluicegate.gateway.config.sections.values import parse_size
from sluicegate.messaging.queues.attributes import ATTRIBUTES

DOCS = Path(__file__).resolve().parents[4] / "docs"
ROW = re.compile(r"^\| `([a-z0-9_.]+)` \| ([^|]*) \|", re.MULTILINE)
LISTENER = re.compile(r"^\| `(listeners\.\w+)` \| [^|]* \| `(\w+)` \| `(\d+)` \| (?:`([^`]*)`)? *\|$", re.MULTILINE)
OF_LISTENERS = re.compile(r"^\| `listeners\.NAME\.(\w+)` \| ([^|]*) \|", re.MULTILINE)


def rows(page: str) -> dict[str, str]:
    """Return the second column of every table row of a page by the name in its first."""
    return {name: text.strip().strip("`") for name, text in ROW.findall((DOCS / page).read_text(encoding="utf-8"))}


def settings() -> dict[str, str]:
    """Return the default of every setting in the page, which has those of all listeners in one table."""
    text = (DOCS / "operate/settings.md").read_text(encoding="utf-8")
    every = rows("operate/settings.md")
    found = {name: default for name, default in every.items() if not name.startswith("listeners.")}
    common, websocket, tls = (
        {key: default.strip("`") for key, default in OF_LISTENERS.findall(table)}
        for table in re.split("^Listeners with ", text, flags=re.MULTILINE)
    )
    for listener, enabled, port, path in LISTENER.findall(text):
        own = common | {"enabled": enabled, "port": port}
        if path:
            own |= websocket | {"path": path}
        if listener.endswith("_tls"):
            own |= tls
        found |= {f"{listener}.{key}": default for key, default in own.items()}
    return found


def says(text: str, value: object) -> bool:
    """Tell whether a page's word for a default is this value."""
    if value is None:
        return text == "none"
    if isinstance(value, bool):
        return text == str(value).lower()
    if value in ("", (), {}):
        return text == "empty"
    if isinstance(value, tuple):
        return text == ", ".join(each.name for each in value)
    return text == str(value) or (isinstance(value, int) and parse_size(text) == value)


def test_every_setting_stands_in_the_page_with_its_default() -> None:
    written = settings()
    defaults = {path: value for path, _, value in leaves(Config())}
    assert [path for path in defaults if path not in written] == []
    assert [path for path, value in defaults.items() if not says(written[path], value)] == []


def test_the_page_says_of_every_setting_that_a_reload_takes_over_from_when_on() -> None:
    text = (DOCS / "operate/configuration.md").read_text(encoding="utf-8")
    table = text.partition("## Reload")[2].partition("\n## ")[0]
    written = set(re.findall(r"`([a-z_.]+)`", table))
    assert [path for path in RELOADABLE if not path.startswith("listeners.") and path not in written] == []


def test_the_page_knows_no_setting_that_there_is_not() -> None:
    known = {path for path, _, _ in leaves(Config())} | set(User.model_fields)
    dotted = {name for name in settings() if "." in name}
    assert dotted - known == set()


def test_every_key_of_an_account_stands_in_the_page() -> None:
    text = (DOCS / "operate/settings.md").read_text(encoding="utf-8")
    assert set(User.model_fields) <= set(rows("operate/accounts.md"))
    assert [name for name in AdminUser.model_fields if f"`{name}`" not in text] == []


def test_every_queue_attribute_stands_in_its_page_with_its_default() -> None:
    written = rows("concepts/queues.md")
    assert [each.name for each in ATTRIBUTES if each.name not in written] == []
    assert [each.name for each in ATTRIBUTES if not says(written[each.name], each.default)] == []
