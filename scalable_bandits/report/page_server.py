"""Server of a watched page, for browsers on this machine alone."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from scalable_bandits import checks
from scalable_bandits.progress import paced
from scalable_bandits.report.watched_page import SECONDS, WatchedPage
from scalable_bandits.report.watching import Watched

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # names by which a browser may ask for the page


class PageServer(ThreadingHTTPServer):
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
        self.page, self.nonce = WatchedPage(watched), secrets.token_urlsafe(16)
        self.path = f"/{secrets.token_urlsafe(16)}"
        self.make()
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}{self.path}"
        self._thread = threading.Thread(target=self.serve_forever, name="page server", daemon=True)
        self._thread.start()

    def make(self) -> None:
        """Make the page of what was read last."""
        self.html = self.page.html(nonce=self.nonce).encode()

    def keep_up_to_date(self) -> None:
        """Read what is new again and again, until nothing more comes."""
        for _ in paced(SECONDS):
            self.page.watched.read()
            self.make()
            if self.page.watched.over:
                return

    def stop(self) -> None:
        """End the server."""
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answer to a browser: the page, to those who know where it is."""

    server: PageServer
    server_version = "scalable_bandits"
    sys_version = ""

    def do_GET(self) -> None:
        # A page of another site could have its name resolve to this machine, and read what is here: it then asks for
        # that name.
        if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in LOOPBACK:
            self._answer(403, b"This page is for browsers on this machine.")
        elif self.path != self.server.path:
            self._answer(404, b"There is nothing here: use the whole address.")
        else:
            self._answer(200, self.server.html, "text/html")

    def _answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        policy = (
            f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'nonce-{self.server.nonce}'; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        headers = {
            "Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body)), "Cache-Control": "no-store",
            "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
        }  # fmt: skip
        with suppress(ConnectionError):  # the browser has left
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write no line for each answer."""
