"""One page for the browser of this machine's user, over HTTP on the loopback address.

Every web site that the browser has open can send requests to such a server, and so can every user of the machine. The
answer therefore needs the server's own name and port in `Host` (against DNS rebinding) and a path that cannot be
guessed. Requests are few, short and bounded in time.
"""

from __future__ import annotations

import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, Final

from airtcp import _csp

HOST: Final = "127.0.0.1"
MOST_AT_A_TIME: Final = 16
"""Connections at a time; more are closed at once."""
MOST_S: Final = 20.0
"""Longest time of a connection, from its begin to the last byte of the answer."""


class PageServer(ThreadingTCPServer):
    """Hands out one page at one address."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, page: bytes, port: int = 0) -> None:
        """Opens the port; 0: a free one.

        Raises:
            OSError: it cannot be opened.
        """
        self.page: Final = page
        self.path: Final = f"/{secrets.token_urlsafe(16)}/"
        self._room: Final = threading.BoundedSemaphore(MOST_AT_A_TIME)
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_address[1]}{self.path}"

    @property
    def names(self) -> tuple[str, ...]:
        """Every `Host` that is answered."""
        return tuple(f"{name}:{self.server_address[1]}" for name in (HOST, "localhost"))

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401
        """False if too many are being answered."""
        return self._room.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answers, and makes room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Says nothing: a client that went away is no fault."""


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"

    def setup(self) -> None:
        super().setup()
        # A time for each read would not do: a client could send a byte at a time for ever.
        self._end = threading.Timer(MOST_S, self._cut)
        self._end.daemon = True
        self._end.start()

    def finish(self) -> None:
        self._end.cancel()
        super().finish()

    def _cut(self) -> None:
        import contextlib
        import socket

        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].strip().lower() not in self.server.names:
            names = " or ".join(self.server.names)
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, f"Host must be {names}")
        elif not secrets.compare_digest(self.path.encode("latin-1", "replace"), self.server.path.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(self.server.page)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(self.server.page)

    def end_headers(self) -> None:
        """With every answer: it is shown alone, in no frame, and kept nowhere."""
        policy = {**_csp.directives(self.server.page.decode()), "frame-ancestors": ["'none'"]}
        self.send_header("Content-Security-Policy", "; ".join(f"{n} {' '.join(v)}" for n, v in policy.items()))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def version_string(self) -> str:
        return "airtcp"

    def log_message(self, *_: object) -> None:
        """Says nothing."""
