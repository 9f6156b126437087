"""Addresses: ``HOST:PORT``, with an IPv6 address in brackets, ``[2001:db8::1]:7400``."""

from __future__ import annotations

from p2p_labeldp.errors import RequestError

Address = tuple[str, int]
EVERYWHERE = ("0.0.0.0", "::")


def parse_address(text: str) -> Address:
    """``HOST:PORT``, with an IPv6 address in brackets."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:  # without brackets nobody can tell where the address ends
        host = ""
    if not host or not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise RequestError(f"{text!r} is not an address; write HOST:PORT, or [ADDRESS]:PORT for IPv6")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """What ``parse_address`` reads; a host that a person wrote may have its brackets already."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
