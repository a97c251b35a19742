"""Whom a request is counted for: keys, subjects, and the addresses of clients. They are as in Go and Node."""

import base64
import hashlib
import ipaddress
import re
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Union

from ._errors import ArgumentError, shown, warn
from ._types import check_int, check_list, check_text, text_size

_IP = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]


@dataclass(frozen=True)
class Request:
    """What a key is made from."""

    peer: str  # the remote address of the connection, with or without a port; "" of a Unix socket
    _raw: Callable[[str], List[bytes]]  # the bytes of a header, line by line; a server of WSGI joins lines by commas
    path: str  # decoded; "" if it is not UTF-8
    native: Any  # the environ of WSGI, the scope of ASGI

    def header(self, name: str) -> str:
        """The value of a header; "" without it, if it is not UTF-8, and if there are lines with different values, of
        which the application may take another one."""
        lines = set(self._raw(name))
        return _text(lines.pop()) if len(lines) == 1 else ""


Key = Callable[[Request], Union[str, Sequence[str]]]
"""Says whom a request is counted for: by a value, or by several together. A request without one ("", or what is no
text) is refused with status 400."""
Cost = Callable[[Request], int]
"""Says how many permits a request takes; one with 0 is not limited."""


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ""


def subject_of(*values: str) -> str:
    """The subject under which the middleware counts requests with these values, in every language. Use it to look up or
    reset one: limiter.reset(subject_of("192.0.2.7", "ada")). No list of values has another one's subject, and long
    values are hashed, so that no caller can store long keys."""
    return "|".join(map(_code, values))


def _code(value: str) -> str:
    if text_size(value) is None:
        raise ArgumentError("", "value", shown(value), "a str that UTF-8 can hold")
    raw = value.encode()
    if len(raw) > 128:
        return "~2" + base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
    return value.replace("~", "~0").replace("|", "~1") or "~"


def key_by_header(name: str) -> Key:
    """Counts by the value of a header. Use it for values that a caller cannot choose freely, as a checked API key."""
    check_text("", "name", name)
    return lambda request: request.header(name)


def key_by_ip(trusted_proxies: Sequence[str] = (), ipv6_prefix: int = 64, hops: int = 0) -> Key:
    """Counts by the address of the client, IPv6 by its /64. Behind proxies name them: as prefixes ("10.0.0.0/8"), as
    addresses, or "unix" for those with a Unix socket. Each has to append to X-Forwarded-For the address that
    it was called from. The client is the first address from the right that is not of a trusted proxy; what stands to
    the left of it was written by the client, and is never used. "unknown" is counted for the proxy that wrote it.

    If you know how many proxies there are and not their addresses, say hops: with 2 the client is the second from the
    right. If there are fewer, or that one is no address, it is the address of the connection, as with
    Envoy's xff_num_trusted_hops. Nobody may reach the service by fewer proxies: who does writes what they like."""
    check_list("", "trusted_proxies", trusted_proxies, 'prefixes ("10.0.0.0/8"), addresses, or "unix"')
    networks = [_network(proxy) for proxy in trusted_proxies if proxy != "unix"]
    check_int("", "ipv6_prefix", ipv6_prefix, 1, 128)
    if check_int("", "hops", hops, 0) and trusted_proxies:
        raise ArgumentError("", "hops", str(hops), "hops or trusted_proxies, not both")
    if any(network.prefixlen == 0 for network in networks):
        warn("key_by_ip", "trusted_proxies has all addresses", "who calls writes what they like: name the proxies")

    def trusted(address: Optional[_IP]) -> bool:
        return any(address is not None and address in network for network in networks)

    def client(request: Request) -> Optional[_IP]:
        address = _without_port(request.peer)
        unix = not address and request.peer.startswith(("@", "/", "unix:") if request.peer else "")
        proxy, read = trusted(address) if address else unix and "unix" in trusted_proxies, False
        forwarded = _forwarded(request)
        if 0 < hops <= len(forwarded):
            address = _without_port(forwarded[-hops]) or address
        for hop in reversed(forwarded):
            if not proxy or hop.lower() == "unknown":
                break
            address, read = _without_port(hop), True
            proxy = trusted(address)
        if address is None and not read:
            want = 'an address, or a proxy by a Unix socket ("unix"); a TestClient needs client=("192.0.2.1", 1234)'
            raise NoPeer("key_by_ip", "peer", shown(request.peer), want)
        return address

    def key(request: Request) -> str:
        address = client(request)
        if address is None:
            return ""
        if address.version == 4 or ipv6_prefix == 128:
            return str(address)
        return str(ipaddress.ip_network((int(address), ipv6_prefix), strict=False))

    return key


def _forwarded(request: Request) -> List[str]:
    """The elements of X-Forwarded-For."""
    lines = request._raw("X-Forwarded-For")
    return [hop.strip(" \t") for hop in b",".join(lines).decode("latin-1").split(",")] if lines else []


def _network(proxy: str) -> Union[ipaddress.IPv4Network, ipaddress.IPv6Network]:
    try:
        network = ipaddress.ip_network(check_text("", "trusted_proxies", proxy))
    except ValueError:
        want = 'a prefix ("10.0.0.0/8"), an address, or "unix"'
        raise ArgumentError("", "trusted_proxies", shown(proxy), want) from None
    mapped = getattr(network.network_address, "ipv4_mapped", None) if network.prefixlen >= 96 else None
    return ipaddress.IPv4Network((mapped, network.prefixlen - 96)) if mapped else network


def _parse_address(text: str) -> Optional[_IP]:
    """An address without a port; IPv4 written as IPv6 is IPv4, and a zone is left out. None if it is none."""
    host, percent, zone = text.partition("%")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if percent and (address.version == 4 or not zone):
        return None
    return getattr(address, "ipv4_mapped", None) or address


class NoPeer(ArgumentError):
    """The server does not say from where a request comes, or names a proxy that does not."""


_ADDRESS = re.compile(r"(?:\[(.*)\]|([^:\[\]]*))(?::([0-9]+))?", re.DOTALL)


def _without_port(text: str) -> Optional[_IP]:
    """192.0.2.7:80, [2001:db8::7]:80, [2001:db8::7], or an address without a port."""
    found = _ADDRESS.fullmatch(text)
    if not found:
        return _parse_address(text)
    bracketed, other, port = found.groups()
    if int((port or "0").lstrip("0")[:6] or "0") > 65535 or (bracketed and ":" not in bracketed):
        return None
    return _parse_address(other if bracketed is None else bracketed)
