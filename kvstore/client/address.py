"""Addresses of servers: host:port, and the names of gRPC such as unix:PATH and dns:///HOST:PORT."""

import ipaddress
import re
import socket
from typing import Final, NamedTuple

SCHEMES: Final = ("dns", "ipv4", "ipv6", "unix", "unix-abstract")
"""Schemes of gRPC's names; the others (such as xds) need a resolver that is not there."""


class Endpoint(NamedTuple):
    """One place where a server listens: a port of a host, or a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""
    """The path of a Unix socket; it begins with a zero byte if the socket has no file."""

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine, and no other machine can reach it."""
        return bool(self.path) or is_loopback(self.host)


def scheme_of(address: str) -> str:
    """Return the scheme of one of gRPC's names, or "" for host:port."""
    scheme, colon, _ = address.partition(":")
    return scheme if colon and scheme in SCHEMES else ""


def several(address: str) -> list[str]:
    """Return the addresses that commas separate; one of gRPC's names is a single address."""
    return [address] if scheme_of(address) else address.split(",")


def endpoints(address: str) -> list[Endpoint]:
    """Return the places that an address names. Raises `ValueError` for a text that is none."""
    if url := re.match(r"(https?|grpcs?)://([^/]*)", address):
        tls = " --tls" if url[1] in ("https", "grpcs") else ""
        raise ValueError(
            f"an address of gRPC has no {url[1]}://: write {url[2]}{tls}, got {address!r}"
        )
    scheme = scheme_of(address)
    rest = address.removeprefix(f"{scheme}:") if scheme else address
    if scheme == "unix":
        path = re.sub(r"^//[^/]*", "", rest)
        if not path:
            raise ValueError(f"a Unix socket is unix:PATH or unix:///PATH, got {address!r}")
        return [Endpoint(path=path)]
    if scheme == "unix-abstract":
        return [Endpoint(path=f"\0{rest}")]
    if scheme == "dns":
        rest = re.sub(r"^//[^/]*/", "", rest)
    if not scheme and "://" in rest:
        raise ValueError(
            f"the scheme of an address must be one of {', '.join(SCHEMES)}, got {address!r}"
        )
    return [_of_host(each, scheme, address) for each in rest.split(",")]


def _of_host(text: str, scheme: str, address: str) -> Endpoint:
    host, colon, port = text.rpartition(":")
    if not scheme and not (host and colon and port.isdecimal()):
        raise ValueError(f"an address is host:port, such as 127.0.0.1:40123, got {text!r}")
    if scheme and not (host and port.isdecimal()):
        raise ValueError(f"{address!r} needs a host and a port, such as {scheme}:127.0.0.1:40123")
    if not 0 < int(port) < 65536:
        raise ValueError(f"a port is a number from 1 to 65535, got {port} in {address!r}")
    host = host.strip("[]")
    if scheme in ("ipv4", "ipv6"):
        try:
            known = f"ipv{ipaddress.ip_address(host.partition('%')[0]).version}"
        except ValueError:
            known = "a name"
        if known != scheme:
            raise ValueError(f"{scheme}: takes addresses and no names, got {host!r}")
    return Endpoint(host, int(port))


def balanced(address: str) -> str:
    """Return several host:port as one of gRPC's names, over which gRPC can balance calls.

    Raises `ValueError` for a host without an address, and for those of two families.
    """
    hosts_and_ports = endpoints(address)
    if scheme_of(address) or len(hosts_and_ports) == 1:
        return address
    places = []
    for each in hosts_and_ports:
        try:
            family, *_, place = socket.getaddrinfo(each.host, each.port, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            raise ValueError(f"{each.host} has no address ({error})") from None
        places.append((family, f"[{place[0]}]" if family == socket.AF_INET6 else str(place[0])))
    if len({family for family, _ in places}) > 1:
        raise ValueError(f"give addresses of IPv4 or of IPv6, not both: {address!r}")
    scheme = "ipv6" if places[0][0] == socket.AF_INET6 else "ipv4"
    hosts = (f"{host}:{each.port}" for (_, host), each in zip(places, hosts_and_ports, strict=True))
    return f"{scheme}:{','.join(hosts)}"


def is_loopback(host: str) -> bool:
    """Return whether every address of this host is one of this machine's loopback interface."""
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host.strip("[]"), None)}
    except OSError:
        return False
    return bool(addresses) and all(
        ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in addresses
    )
