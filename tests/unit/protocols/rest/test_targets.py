"""Where REST delivery points may push to, by list and by default, and which headers they may set."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis.strategies import ip_addresses, sampled_from

from sluicegate.protocols.rest.allowed_targets import AllowedTargets, parse_targets
from sluicegate.protocols.rest.settings import HEADERS_ALLOWED, RESERVED, RESERVED_PREFIX, is_reserved

ANYTHING = AllowedTargets()
METADATA = "169.254.169.254"
# The same address as translators, tunnels and the system itself know it.
FORMS = (
    METADATA,
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::1",
    "fe80::1",
    "fe80::1%2",
    "febf:ffff::1",
)


@pytest.mark.parametrize("address", FORMS)
def test_link_local_addresses_are_refused_in_every_form_whatever_name_led_there(address: str) -> None:
    assert "link-local" in ANYTHING.refusal("harmless.example", address)
    named = parse_targets(["harmless.example", "0.0.0.0/0", "::/0"])
    assert "link-local" in named.refusal("harmless.example", address)
    if "%" not in address:
        assert "link-local" in ANYTHING.host_refusal(address)


def test_a_link_local_address_is_allowed_by_an_entry_of_its_own() -> None:
    targets = parse_targets(["169.254.169.254", "fe80::/64"])
    for address in (METADATA, "::ffff:169.254.169.254", "fe80::1%2"):
        assert targets.refusal(address, address) == ""
    for address in ("169.254.169.253", "fe80:0:0:1::1"):
        assert "link-local" in targets.refusal(address, address)
    assert targets.refusal("h", "192.0.2.1") == "192.0.2.1, an address of h, is not in rest.allowed_targets"


@given(ip_addresses(), sampled_from(["h.example", ""]))
def test_without_a_list_only_link_local_addresses_are_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, host: str
) -> None:
    refused = ANYTHING.refusal(host or str(address), str(address)) != ""
    if isinstance(address, ipaddress.IPv4Address) or int(address) >> 112 not in (0, 0x64, 0x2002):  # those with IPv4
        assert refused == address.is_link_local


@given(ip_addresses(network="10.20.0.0/16"), ip_addresses(v=4))
def test_with_a_list_only_its_addresses_are_allowed(
    inside: ipaddress.IPv4Address, anywhere: ipaddress.IPv4Address
) -> None:
    targets = parse_targets(["10.20.0.0/16"])
    assert targets.refusal("h", str(inside)) == targets.refusal("h", f"::ffff:{inside}") == ""
    assert (targets.refusal("h", str(anywhere)) == "") == (anywhere in ipaddress.ip_network("10.20.0.0/16"))
    assert "not in rest.allowed_targets" in targets.refusal("h", "2001:db8::1")


def test_names_are_compared_whole_and_below_a_domain_by_their_levels() -> None:
    targets = parse_targets(["ERP.example.", "*.Hooks.example"])
    for host in ("erp.example", "Erp.Example.", "a.hooks.example", "b.a.hooks.example"):
        assert (targets.host_refusal(host), targets.refusal(host, "192.0.2.1")) == ("", "")
    for host in ("hooks.example", "xhooks.example", "erp.example.evil.example", "sub.erp.example", "192.0.2.1"):
        assert targets.host_refusal(host).endswith("is not in rest.allowed_targets")
        assert targets.refusal(host, "192.0.2.1").endswith("is not in rest.allowed_targets")


def test_a_host_that_may_yet_resolve_to_an_allowed_address_is_not_refused_beforehand() -> None:
    targets = parse_targets(["erp.example", "10.0.0.0/8"])
    assert targets.host_refusal("other.example") == ""
    assert targets.refusal("other.example", "192.0.2.1") != ""
    assert targets.host_refusal("192.0.2.1") == "192.0.2.1 is not in rest.allowed_targets"


@pytest.mark.parametrize("host", ["2852039166", "0xa9fea9fe", "169.254.43518", "0251.0376.0251.0376", "1.2.3.4.5"])
def test_numbers_that_only_some_systems_read_as_an_address_are_no_host(host: str) -> None:
    assert "no IPv4 address of four decimal numbers" in ANYTHING.host_refusal(host)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("10.0.0.1/8", "bits behind the length of its network"),
        ("::ffff:10.0.0.0/104", "write it as such"),
        ("10.0.0.256", "is no entry"),
        ("*", "is no entry"),
        ("a.*.example", "is no entry"),
        ("http://erp.example", "is no entry"),
        ("erp.example:8080", "is no entry"),
        ("", "is no entry"),
    ],
)
def test_an_invalid_target_is_refused(entry: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_targets(["erp.example", entry])


@pytest.mark.parametrize("name", [*sorted(RESERVED), f"{RESERVED_PREFIX}connection", f"{RESERVED_PREFIX}authorization"])
def test_headers_that_frame_or_route_a_request_are_the_gateways(name: str) -> None:
    """RFC 9112 6.1 and 7.2, RFC 9110 7.6.1 and 10.1.1."""
    for written in (name, name.title(), name.upper(), name.replace("-", "_")):
        assert is_reserved(written)
    assert name.removeprefix(RESERVED_PREFIX) == name or "Proxy-..." in HEADERS_ALLOWED


@pytest.mark.parametrize("name", ["", "X-From", "Content-Type", "Authorization", "TEx", "X-Host", "Hostname", "Proxy"])
def test_other_headers_are_the_operators(name: str) -> None:
    assert not is_reserved(name)


def test_the_reserved_headers_are_the_documented_ones() -> None:
    told = HEADERS_ALLOWED.lower().partition("than ")[2].split(", ")
    assert sorted(told) == sorted([*RESERVED, f"{RESERVED_PREFIX}..."])
