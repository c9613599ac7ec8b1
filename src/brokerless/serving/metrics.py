"""Counters of a server over HTTP, as Prometheus reads them."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless import _native

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def metrics_at(listen: str, server: _native.Server) -> Iterator[str]:
    """Answer `GET /metrics` at a host and port, as long as the `with` block runs. Yields host and port.

    Raises:
        OSError: the port is taken.
        ValueError: `listen` is not a host and a port.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            is_known = self.path == "/metrics"
            content = text(server).encode() if is_known else b"see /metrics\n"
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", _CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log no requests."""

    host, _, port = listen.rpartition(":")
    if not (host and port.isdigit()):
        raise ValueError(f"metrics: {listen!r} is not a host and a port")
    with _server_of(host)((host.strip("[]"), int(port)), Handler) as http:
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, name="brokerless-metrics", daemon=True)
        thread.start()
        try:
            yield f"{host}:{http.server_address[1]}"
        finally:
            http.shutdown()
            thread.join()


class _OverIPv6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


def _server_of(host: str) -> type[ThreadingHTTPServer]:
    return _OverIPv6 if ":" in host else ThreadingHTTPServer


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
