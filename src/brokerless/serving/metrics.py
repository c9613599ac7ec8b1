"""Counters of a server over HTTP, as Prometheus reads them."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from brokerless.serving.address import host_and_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless import _native

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Anybody who reaches the port may connect. These are the most connections at a time, and the largest size and the
# longest time of a request. Further connections are closed at once.
_MOST_CONNECTIONS = 16
_MOST_BYTES = 8 << 10
_SECONDS = 5.0


@contextmanager
def metrics_at(listen: str, server: _native.Server) -> Iterator[str]:
    """Answer `GET /metrics` at a host and port, as long as the `with` block runs. The block gets host and port.

    Raises:
        OSError: the port is taken.
        ValueError: `listen` is not a host and a port.
    """
    host, port = host_and_port("metrics", listen)
    free = threading.BoundedSemaphore(_MOST_CONNECTIONS)

    class Http(socketserver.ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        allow_reuse_address = True
        # Connections above the limit are closed at once, instead of waiting to be accepted.
        request_queue_size = 128
        daemon_threads = True

        def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in the library
            if free.acquire(blocking=False):
                super().process_request(request, client_address)
            else:
                self.shutdown_request(request)

        def process_request_thread(self, request: Any, _: Any) -> None:  # noqa: ANN401 - as in the library
            try:
                with contextlib.suppress(OSError):
                    request.sendall(_answer(_request(request), server))
                self.shutdown_request(request)
            finally:
                free.release()

    try:
        opened = Http((host, port or 0), socketserver.BaseRequestHandler)
    except OSError as error:
        raise OSError(f"cannot listen on {listen}: {error.strerror or error}") from error
    with opened as http:
        thread = threading.Thread(target=http.serve_forever, name="brokerless-metrics", daemon=True)
        thread.start()
        try:
            yield f"{listen.rpartition(':')[0]}:{http.server_address[1]}"
        finally:
            http.shutdown()
            thread.join()


def _request(connection: socket.socket) -> bytes:
    """Return the head of a request.

    Raises:
        OSError: the request is too long, or takes too long.
    """
    until = time.monotonic() + _SECONDS
    head = b""
    while b"\r\n\r\n" not in head:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("a request takes too long")
        connection.settimeout(left)
        piece = connection.recv(_MOST_BYTES)
        if not piece or len(head) + len(piece) > _MOST_BYTES:
            raise ConnectionError("no request")
        head += piece
    # The timeout of the whole answer: `sendall` observes it.
    connection.settimeout(_SECONDS)
    return head


def _answer(head: bytes, server: _native.Server) -> bytes:
    is_known = head.startswith((b"GET /metrics ", b"GET /metrics?"))
    content = text(server).encode() if is_known else b"see /metrics\n"
    lines = [
        f"HTTP/1.1 {'200 OK' if is_known else '404 Not Found'}",
        f"Content-Type: {_CONTENT_TYPE}",
        f"Content-Length: {len(content)}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content


def text(server: _native.Server) -> str:
    """Return the counters in the text format of Prometheus."""
    lines: list[str] = []
    last = ""
    for name, help_text, is_gauge, label, value in server.counts():
        full = f"brokerless_{name}"
        if full != last:
            lines += [f"# HELP {full} {help_text}", f"# TYPE {full} {'gauge' if is_gauge else 'counter'}"]
            last = full
        labels = "" if label is None else f'{{{label[0]}="{label[1]}"}}'
        lines.append(f"{full}{labels} {value}")
    return "\n".join(lines) + "\n"
