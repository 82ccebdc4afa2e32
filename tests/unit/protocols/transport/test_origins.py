"""The rule for web pages: which origins and hosts pass, on every kind of port."""

import ipaddress
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.clients.rights import FOREIGN_HOST, FOREIGN_ORIGIN
from sluicegate.protocols.transport.origins import WebPages, authority_of, host_name

SETTING: Final = "http.allowed_origins"
AT: Final = "127.0.0.1:9000"


def port(
    *origins: str, hosts: tuple[str, ...] = (), is_open: bool = True, is_tls: bool = False, setting: str = SETTING
) -> WebPages:
    return WebPages(
        is_tls=is_tls, origins_setting=setting, origins=lambda: origins, hosts=lambda: hosts, is_open=lambda: is_open
    )


def reason(pages: WebPages, *, host: str = AT, origin: str = "", site: str = "") -> str:
    """Return why a request is refused, as metrics have it; empty if it passes."""
    foreign = pages.refusal(host, origin, site)
    return "" if foreign is None else foreign.reason


@pytest.mark.parametrize(
    "origin",
    [
        "http://127.0.0.1:9000",
        "https://127.0.0.1:9000",  # something before us ends TLS; old clients of paho say it always
        "HTTP://127.0.0.1:9000",
    ],
)
def test_pages_of_the_port_itself_pass(origin: str) -> None:
    """RFC 6454 5: scheme, host and port."""
    assert reason(port(), origin=origin) == ""
    assert reason(port(), origin=origin, site="same-origin") == ""


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:3000",  # the same site, and another program
        "http://localhost:9000",
        "http://127.0.0.1:9000.evil.example",
        "http://evil.example:9000",
        "http://127.0.0.1:9000@evil.example",
        "chrome-extension://127.0.0.1:9000",
        "127.0.0.1:9000",
        "null",
        "file://",
        "http://127.0.0.1:9000, https://evil.example",
        "http://",
    ],
)
@pytest.mark.parametrize("pages", [port(), port("https://shop.example"), port(is_open=False), port(is_tls=True)])
def test_pages_of_other_origins_do_not(pages: WebPages, origin: str) -> None:
    assert reason(pages, origin=origin) == FOREIGN_ORIGIN
    assert reason(pages, origin=origin, site="same-origin") == FOREIGN_ORIGIN


def test_a_page_over_http_has_no_access_to_a_port_in_tls() -> None:
    """Whoever can change what goes over the wire can make a page of `http` and our name and port."""
    assert reason(port(is_tls=True), origin="http://127.0.0.1:9000") == FOREIGN_ORIGIN
    assert reason(port(is_tls=True), origin="https://127.0.0.1:9000") == ""


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("localhost", "http://localhost:80"),
        ("localhost", "https://localhost"),
        ("localhost:443", "https://localhost"),
        ("LOCALHOST:9000", "http://localhost:9000"),
        ("[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_the_port_that_a_scheme_has_by_itself_need_not_be_said(host: str, origin: str) -> None:
    assert reason(port(), host=host, origin=origin) == ""


def test_another_default_port_is_another_port() -> None:
    assert reason(port(), host="localhost:80", origin="https://localhost") == FOREIGN_ORIGIN
    assert reason(port(), host="localhost:443", origin="http://localhost") == FOREIGN_ORIGIN


@pytest.mark.parametrize("site", ["", "same-origin", "cross-site", "same-site"])
def test_allowed_origins_pass_wherever_their_page_is(site: str) -> None:
    """Fetch metadata: the site of an allowed page is mostly another one."""
    pages = port("https://shop.example")
    assert reason(pages, origin="https://shop.example", site=site) == ""
    assert reason(pages, origin="https://SHOP.example", site=site) == ""
    assert reason(pages, origin="http://shop.example", site=site) == FOREIGN_ORIGIN
    assert reason(port("*"), origin="null", site=site) == ""


@pytest.mark.parametrize(
    ("site", "expected"),
    [
        ("", ""),
        ("none", ""),
        ("same-origin", ""),
        ("same-site", FOREIGN_ORIGIN),
        ("cross-site", FOREIGN_ORIGIN),
        ("something-new", FOREIGN_ORIGIN),
        ("same-origin, cross-site", FOREIGN_ORIGIN),
    ],
)
def test_without_an_origin_the_site_decides(site: str, expected: str) -> None:
    """Fetch metadata: an image, a link and a form of GET have no Origin. No origin need be allowed for programs."""
    assert reason(port(), site=site) == expected
    assert reason(port("https://shop.example"), site=site) == expected
    assert reason(port("*"), site=site) == ""


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1",
        "192.0.2.7:9000",
        "[::1]",
        "[fe80::1%25eth0]:9000",
        "localhost",
        "LocalHost.:9000",
        "localhost:",
        "broker.lan",
        "BROKER.lan.:9000",
    ],
)
def test_addresses_localhost_and_names_of_the_node_are_hosts_of_it(host: str) -> None:
    assert reason(port(hosts=("broker.lan",)), host=host) == ""


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "xlocalhost",
        "broker.lan.evil.example",
        "[evil.example]",
        "[::1]evil.example",
        "[::1",
        "127.0.0.1:9000:9000",
        "localhost:evil",
        "user@localhost",
        "*",
        "\N{FULLWIDTH DIGIT ONE}27.0.0.1",
    ],
)
def test_any_other_host_is_refused_where_no_login_is_required(host: str) -> None:
    """DNS rebinding: a page whose own name leads here is of the origin of the port, by what it calls it."""
    assert reason(port(hosts=("broker.lan",)), host=host, origin=f"http://{host}") == FOREIGN_HOST
    assert reason(port(hosts=("*",)), host=host) == ""
    assert reason(port(is_open=False), host=host) == ""


def test_a_page_has_no_way_around_by_saying_no_host() -> None:
    """HTTP/1.0 has no need of it. No browser leaves it out, and an origin is then of no port."""
    assert reason(port(), host="") == ""
    assert reason(port(), host="", origin="http://127.0.0.1:9000") == FOREIGN_ORIGIN
    assert reason(port(), host="", origin="http://") == FOREIGN_ORIGIN
    assert reason(port(), host="", site="cross-site") == FOREIGN_ORIGIN


def test_settings_hold_at_once() -> None:
    origins, hosts = ["https://shop.example"], ["broker.lan"]
    pages = WebPages(
        is_tls=False, origins_setting=SETTING, origins=lambda: origins, hosts=lambda: hosts, is_open=lambda: True
    )
    asked = {"host": "broker.lan", "origin": "https://shop.example"}
    assert reason(pages, **asked) == ""
    origins.clear()
    assert reason(pages, **asked) == FOREIGN_ORIGIN
    hosts.clear()
    assert reason(pages, **asked) == FOREIGN_HOST


def test_a_refusal_names_the_setting_that_would_allow_it() -> None:
    origin = port().refusal(AT, "https://evil.example", "")
    assert origin is not None
    assert (origin.status, origin.detail) == (
        403,
        "a page of 'https://evil.example' may not use this port: its origin is not in http.allowed_origins",
    )
    host = port().refusal("evil.example", "", "")
    assert host is not None
    assert host.status == 421
    assert "'evil.example'" in host.detail
    assert "node.allowed_hosts" in host.detail
    admin = port(setting="").refusal(AT, "", "cross-site")
    assert admin is not None
    assert admin.detail == "a page of another origin (Sec-Fetch-Site: 'cross-site') may not use this port"


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_whatever_stands_in_the_headers_a_refusal_is_short_and_printable(host: str, origin: str, site: str) -> None:
    foreign = port().refusal(host, origin, site)
    assert foreign is None or (foreign.detail.isprintable() and len(foreign.detail) < 1500)


LABEL: Final = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
NAMES: Final = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
ADDRESSES: Final = st.ip_addresses().map(
    lambda each: f"[{each}]" if isinstance(each, ipaddress.IPv6Address) else str(each)
)
PORTS: Final = st.integers(1, 65535)


@given(NAMES | ADDRESSES, PORTS, NAMES | ADDRESSES, PORTS, st.sampled_from(["http", "https"]))
def test_a_page_passes_exactly_if_host_and_port_are_the_same(
    host: str, at: int, of: str, of_port: int, scheme: str
) -> None:
    """Whatever they are called, where every name is one of ours."""
    passes = reason(port(hosts=("*",)), host=f"{host}:{at}", origin=f"{scheme}://{of}:{of_port}") == ""
    assert passes == ((host, at) == (of, of_port))


@given(NAMES | ADDRESSES, PORTS)
def test_a_port_a_dot_and_capitals_make_no_other_host(host: str, at: int) -> None:
    bare = host.strip("[]")
    dotted = host if host.startswith("[") else f"{host}."
    assert {host_name(each) for each in (host, f"{host}:{at}", f"{host}:", f"{dotted.upper()}:{at}")} == {bare}


@pytest.mark.parametrize(
    ("target", "authority"),
    [
        ("/TOPIC/a", ""),
        ("/http://evil.example/a", ""),
        ("http://evil.example:80/a?b", "evil.example:80"),
        ("HTTP://evil.example", "evil.example"),
        ("http://evil.example?http://localhost", "evil.example"),
        ("http://localhost#@evil.example", "localhost"),
        ("*", ""),
    ],
)
def test_a_target_that_is_a_whole_url_has_the_host(target: str, authority: str) -> None:
    """RFC 9112 3.2.2."""
    assert authority_of(target) == authority
