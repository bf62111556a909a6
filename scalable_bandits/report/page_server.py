"""Server of a watched page, for browsers on this machine alone."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from scalable_bandits import checks
from scalable_bandits.report.watched_page import SECONDS, WatchedPage
from scalable_bandits.report.watching import Watched, paced

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # names by which a browser may ask for the page


class PageServer:
    """Server of a watched page on this machine alone, which reads the store until the run is over or it is stopped.

    The page is at a secret path, so that other users of the machine do not find it.

    Parameters
    ----------
    watched
        The run or the study, as it was read last.
    port
        Port; 0 for any that is free.

    Raises
    ------
    ValueError, OSError
        If there is no such port, or another program has it.

    Attributes
    ----------
    url : str
        Address of the page.
    """

    def __init__(self, watched: Watched, port: int = 0):
        port = checks.integer("port", port, 0, 65_535)
        self._page, self._nonce, path = WatchedPage(watched), secrets.token_urlsafe(16), f"/{secrets.token_urlsafe(16)}"
        self._html = b""
        self._make()
        server = self

        class Handler(_Handler):
            def page(self) -> bytes | None:
                return server._html if self.path == path else None

            policy = (
                f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'nonce-{self._nonce}'; "
                "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            )

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{path}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="page server", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        self._html = self._page.html(nonce=self._nonce).encode()

    def keep_up_to_date(self) -> None:
        """Read what is new again and again, until nothing more comes."""
        for _ in paced(SECONDS):
            self._page.watched.read()
            self._make()
            if self._page.watched.over:
                return

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answer to a browser: the page, to those who know where it is."""

    policy = ""  # Content-Security-Policy
    server_version = "scalable_bandits"
    sys_version = ""

    def page(self) -> bytes | None:
        """Return the page; None if there is none at the path."""
        raise NotImplementedError

    def do_GET(self) -> None:
        # A page of another site could have its name resolve to this machine, and read what is here: it then asks for
        # that name.
        if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in LOOPBACK:
            self._answer(403, b"This page is for browsers on this machine.", "text/plain")
            return
        page = self.page()
        if page is None:
            self._answer(404, b"There is nothing here: use the whole address.", "text/plain")
        else:
            self._answer(200, page, "text/html")

    do_HEAD = do_GET

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        with suppress(ConnectionError):  # the browser has left
            self._send(status, body, kind)

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body)), "Cache-Control": "no-store",
            "Content-Security-Policy": self.policy, "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
        }  # fmt: skip
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write no line for each answer."""
