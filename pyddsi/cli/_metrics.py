"""`--metrics PORT`: all counts of a session in Prometheus' text form, for programs on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyddsi
from pyddsi.cli._arguments import UsageError
from pyddsi.cli._show import say

__all__ = ["served"]

HOST = "127.0.0.1"


def _handler(session: pyddsi.Session) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] == "/metrics":
                status, text = 200, str(session.metrics())
            else:
                status, text = 404, "there is only /metrics here\n"
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:  # standard error is not for this
            pass

    return Handler


@contextmanager
def served(session: pyddsi.Session, port: int) -> Iterator[None]:
    """Serve while the block lasts."""
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(session))
    except OSError as error:
        raise UsageError(
            f"--metrics: port {port} cannot be had: {error.strerror}; take another one, or 0 for any that is free"
        ) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    say(f"metrics are at http://{HOST}:{server.server_port}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
