"""What `help(sluicegate.Message)` shows: each parameter with its type and unit, and examples that work."""

import inspect
import re
import ssl
from collections.abc import Callable

import pytest

import sluicegate

PARAMETER = re.compile(r"`(\w+)` \(([^)]+)\)(?:,|: )([^`]*)")
UNITS = {"_ms": "milliseconds", "_s": "seconds", "bytes": "bytes", "window": "messages"}

DOCUMENTED: list[tuple[Callable[..., object], str | None]] = [
    (sluicegate.Message, sluicegate.Message.__doc__),
    (sluicegate.ClientOptions, sluicegate.ClientOptions.__doc__),
    (sluicegate.Client, sluicegate.Client.__init__.__doc__),
    (sluicegate.BlockingClient, sluicegate.BlockingClient.__init__.__doc__),
    (sluicegate.Client.publisher, sluicegate.Client.publisher.__doc__),
    (sluicegate.Client.consumer, sluicegate.Client.consumer.__doc__),
    (sluicegate.Client.browser, sluicegate.Client.browser.__doc__),
    (sluicegate.Client.subscriber, sluicegate.Client.subscriber.__doc__),
]


@pytest.mark.parametrize(("of", "text"), DOCUMENTED, ids=lambda each: getattr(each, "__qualname__", ""))
def test_every_parameter_has_a_type_and_its_unit(of: Callable[..., object], text: str | None) -> None:
    described = {name: (kind, meaning) for name, kind, meaning in PARAMETER.findall(text or "")}
    parameters = [name for name in inspect.signature(of).parameters if name != "self"]
    assert [name for name in parameters if name not in described] == []
    for name in parameters:
        for suffix, unit in UNITS.items():
            assert not name.endswith(suffix) or unit in described[name][1], name


@pytest.mark.parametrize("of", [sluicegate.Message, sluicegate.ClientOptions])
def test_the_examples_of_constructors_work(of: type) -> None:
    examples = re.findall(rf"^ +({of.__name__}\(.*\))$", of.__doc__ or "", re.MULTILINE)
    assert len(examples) >= 2
    for example in examples:
        assert isinstance(eval(example, vars(sluicegate.client)), of)


@pytest.mark.parametrize("of", [sluicegate.Client, sluicegate.BlockingClient])
def test_the_examples_of_clients_work(
    of: type[sluicegate.Client | sluicegate.BlockingClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssl, "create_default_context", lambda cafile: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    examples = re.findall(rf"^ +({of.__name__}\(.*\))$", inspect.getdoc(of.__init__) or "", re.MULTILINE)
    assert len(examples) >= 2
    for example in examples:
        assert isinstance(eval(example, {**vars(sluicegate.client), "ssl": ssl}), of)
