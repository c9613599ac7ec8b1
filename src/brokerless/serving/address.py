"""Parsing of `host:port`."""

from __future__ import annotations

from brokerless.wording import option

_LARGEST_PORT = 65_535


def host_and_port(name: str, text: str, *, needs_port: bool = True) -> tuple[str, int | None]:
    """Parse a host and a port. An IPv6 address with a port is in brackets.

    Args:
        name: the argument, for an error.
        text: the text.
        needs_port: whether a host alone is an error.

    Raises:
        ValueError: the text has another form.

    >>> host_and_port("listen", "[::1]:9092"), host_and_port("advertised", "kafka", needs_port=False)
    (('::1', 9092), ('kafka', None))
    >>> host_and_port("listen", "kafka:99999")
    Traceback (most recent call last):
    ValueError: listen: 'kafka:99999': a port is a number from 0 to 65535, not '99999'
    """
    host, colon, port = text.rpartition(":")
    is_bare = not colon or (":" in host and not (host.startswith("[") and host.endswith("]")))
    if is_bare and not needs_port and text:
        return text.strip("[]"), None
    if is_bare or not host.strip("[]"):
        raise ValueError(f"{option(name)}: {text!r} is not a host and a port, as in localhost:9092")
    if not (port.isascii() and port.isdigit() and len(port) <= len(str(_LARGEST_PORT)) and int(port) <= _LARGEST_PORT):
        raise ValueError(f"{option(name)}: {text!r}: a port is a number from 0 to {_LARGEST_PORT}, not {port!r}")
    return host.strip("[]"), int(port)
