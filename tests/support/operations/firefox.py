"""Pages in headless Firefox for tests of the console: an error in a page fails its test.

Firefox is the system's (scripts/test-needs). It is driven by WebDriver BiDi, which it speaks itself
(https://www.w3.org/TR/webdriver-bidi/): playwright drives only a Firefox of its own.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from websockets.sync.client import ClientConnection, connect

from support.processes.foreign_programs import program
from support.processes.gateway import wait_until

START_S: Final = 60
WAIT_S: Final = 60  # for what is to be seen, on a busy machine
ANNOUNCEMENT: Final = "WebDriver BiDi listening on "
FRAME_BYTES_MAX: Final = 64 << 20
PREFERENCES: Final = {  # nothing is asked of servers outside, and no page is shown at the start
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "services.settings.server": "http://127.0.0.1:9",
    "toolkit.telemetry.enabled": False,
}
EVENTS: Final = ("log.entryAdded", "network.beforeRequestSent", "network.responseCompleted", "network.fetchError")
# A refusal of the Content Security Policy is no message of the console: this makes it one.
REPORT_REFUSALS: Final = """() => addEventListener("securitypolicyviolation",
    event => console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`))"""


TAB: Final = "\ue004"  # as WebDriver names the key (https://www.w3.org/TR/webdriver2/#keyboard-actions)


class FirefoxPage:
    """One tab of a running Firefox. `errors` are those that its pages wrote on the console, or did not catch."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/session"
        self.errors: list[str] = []
        self._requests: set[str] = set()  # that are not answered

    def __enter__(self) -> Self:
        self._connection: ClientConnection = connect(self._url, max_size=FRAME_BYTES_MAX)
        self._last_id = 0
        self._command("session.new", capabilities={})
        self._command("session.subscribe", events=list(EVENTS))
        self._command("script.addPreloadScript", functionDeclaration=REPORT_REFUSALS)
        self._context: str = self._command("browsingContext.getTree")["contexts"][0]["context"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._command("session.end")
        self._connection.close()

    def open(self, url: str) -> None:
        """Open an address, and wait until it is loaded."""
        self._command("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """Return what an expression of JavaScript is, as JSON."""
        answer = self._command(
            "script.evaluate",
            expression=f"JSON.stringify({expression})",
            target={"context": self._context},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer["exceptionDetails"]["text"]
        return json.loads(answer["result"].get("value", "null"))

    def wait_for(self, expression: str) -> None:
        """Wait until an expression of JavaScript is true."""
        wait_until(lambda: bool(self.evaluate(expression)), within_s=WAIT_S, what=expression)

    def text(self, selector: str) -> str:
        """Return the text of the first element that a selector of CSS finds; empty: there is none."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"))

    def wait_for_text(self, selector: str, text: str) -> None:
        """Wait until the first element that a selector finds contains a text."""
        wait_until(lambda: text in self.text(selector), within_s=WAIT_S, what=f"{text!r} in {selector}")

    def wait_for_answers(self) -> None:
        """Wait until all requests of the page are answered."""
        wait_until(lambda: self.evaluate("true") and not self._requests, within_s=WAIT_S, what="answers")

    def click(self, selector: str) -> None:
        """Click the first element that a selector of CSS finds, as soon as it is there."""
        self._click({"type": "css", "value": selector})

    def click_button(self, name: str, *, within: str = "body") -> None:
        """Click a button by the name that a screen reader says, as soon as it is there."""
        place = self._locate({"type": "css", "value": within})
        self._click({"type": "accessibility", "value": {"role": "button", "name": name}}, startNodes=[place])

    def type(self, selector: str, text: str) -> None:
        """Click a field and type a text."""
        self.click(selector)
        self._perform({"type": "key", "id": "keyboard", "actions": _strokes(text)})

    def press(self, key: str) -> None:
        """Press a key, such as TAB. It does not press a button that has the focus: the window has none."""
        self._perform({"type": "key", "id": "keyboard", "actions": _strokes(key)})

    def _click(self, locator: dict[str, Any], **more: Any) -> None:
        node = self._locate(locator, **more)
        self._command(
            "script.callFunction",
            functionDeclaration="element => element.scrollIntoView({ block: 'center' })",
            arguments=[node],
            target={"context": self._context},
            awaitPromise=False,
        )
        move = {"type": "pointerMove", "x": 0, "y": 0, "origin": {"type": "element", "element": node}}
        press = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self._perform({"type": "pointer", "id": "mouse", "actions": [move, *press]})

    def _locate(self, locator: dict[str, Any], **more: Any) -> dict[str, str]:
        found: list[dict[str, str]] = []

        def is_there() -> bool:
            answer = self._command("browsingContext.locateNodes", context=self._context, locator=locator, **more)
            found[:] = answer["nodes"]
            return bool(found)

        wait_until(is_there, within_s=WAIT_S, what=str(locator))
        return {"sharedId": found[0]["sharedId"]}

    def _perform(self, source: dict[str, Any]) -> None:
        self._command("input.performActions", context=self._context, actions=[source])

    def _command(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; what Firefox tells meanwhile is noted."""
        self._last_id += 1
        self._connection.send(json.dumps({"id": self._last_id, "method": method, "params": params}))
        while True:
            message: dict[str, Any] = json.loads(self._connection.recv(timeout=WAIT_S))
            self._note(message)
            if message.get("id") == self._last_id:
                assert message["type"] == "success", f"{method}: {message}"
                result: dict[str, Any] = message["result"]
                return result

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "log.entryAdded" if message["params"]["level"] == "error":
                self.errors.append(str(message["params"]["text"]))
            case "network.beforeRequestSent":
                self._requests.add(message["params"]["request"]["request"])
            case "network.responseCompleted" | "network.fetchError":
                self._requests.discard(message["params"]["request"]["request"])


@contextmanager
def firefox(folder: Path) -> Iterator[str]:
    """Run Firefox on a profile in a new folder for the length of a `with` block; gives the address of its BiDi."""
    executable = program("firefox-esr")
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
    (folder / "user.js").write_text("\n".join(lines), encoding="utf-8")
    log = folder / "stderr.log"
    options = ["--headless", "--no-remote", "--remote-debugging-port", "0", "--profile", str(folder), "about:blank"]
    with log.open("wb") as stderr:
        process = subprocess.Popen([executable, *options], stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        wait_until(lambda: _address(log) != "", within_s=START_S, what="Firefox")
        yield _address(log)
    finally:
        process.kill()
        process.wait()


def _strokes(text: str) -> list[dict[str, str]]:
    """Return the actions that type a text."""
    return [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]


def _address(log: Path) -> str:
    """Return the address that Firefox has announced; empty: not yet."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        if line.startswith(ANNOUNCEMENT) and line.endswith("\n"):
            return line.removeprefix(ANNOUNCEMENT).strip()
    return ""
