"""`muntin.dashboard()`: a web server on loopback, in threads of the driver."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from types import TracebackType
from typing import Any

from muntin.checks import is_integer
from muntin.errors import MuntinError
from muntin.spark.dashboard.figures import OfQuery, Source
from muntin.spark.dashboard.prometheus import CONTENT_TYPE, exposition
from muntin.spark.dashboard.windows import Closed
from muntin.spark.metrics import kind_of

HOST = "127.0.0.1"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_HIGHEST = 65535


class Dashboard:
    """A running page. It ends with `stop()`, at the end of a `with` block, or with the process."""

    def __init__(self, source: Source, closed: Closed | None, port: int) -> None:
        self._source = source
        self._closed = closed
        try:
            self._server = ThreadingHTTPServer((HOST, port), _handler(self))
        except OSError as error:
            raise MuntinError(
                f"port {port} cannot be used ({error.strerror}); give another one, or leave port= out."
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="muntin-dashboard", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def stop(self) -> None:
        """Stop the page. The stream goes on."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._source.stop()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Dashboard({self.url if self._thread.is_alive() else 'stopped'})"

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """The type and the content of a path; None if there is none."""
        if path in _FILES:
            name, kind = _FILES[path]
            return kind, (files(__package__) / name).read_bytes()
        if path == "/figures.json":
            shown = self._source.figures() | {"now": time.time()}
            shown["windows"] = None if self._closed is None else self._closed.read()
            return "application/json", json.dumps(shown, allow_nan=False).encode()
        if path == "/metrics":
            return CONTENT_TYPE, exposition(self._source).encode()
        return None


def dashboard(
    query: Any,
    *,
    results: Callable[[], Any] | None = None,
    value: str | None = None,
    name: str | None = None,
    port: int = 0,
) -> Dashboard:
    """Show a running stream on a web page of this machine: rates, watermark, state, shedding and windows.

    The page is at `.url`, on loopback only, and has the metrics for Prometheus under `/metrics`. Call `.stop()` to end
    it, or use it in a `with` block; the stream goes on.

    Parameters
    ----------
    query
        The `StreamingQuery` that `writeStream...start()` returns.
    results
        A function that returns the written results, such as `lambda: spark.read.parquet("out")`, for the windows as
        they close. It is called every few seconds while somebody looks at the page.
    value
        The column of results to draw; by default the first number that is computed.
    name
        The `name=` of `muntin.over`, where the stream consists of several queries of Muntin.
    port
        The port; by default any that is free.

    Examples
    --------
    >>> with muntin.dashboard(running, results=lambda: spark.read.parquet("out")) as page:
    ...     print(page.url)
    http://127.0.0.1:.../
    """
    if not isinstance(getattr(query, "recentProgress", None), list):
        raise MuntinError(
            f"dashboard() takes the StreamingQuery that writeStream...start() returns, got {kind_of(query)}."
        )
    if results is not None and not callable(results):
        raise MuntinError(
            "results must be a function that returns the written results, such as "
            f"results=lambda: spark.read.parquet('out'), got {type(results).__name__}."
        )
    if value is not None and (results is None or not isinstance(value, str)):
        raise MuntinError(f"value={value!r} is the name of a column of results; give it with results=.")
    port = checked_port(port)
    source = OfQuery(query, name)
    source.figures()  # an unknown name is an error here
    return Dashboard(source, None if results is None else Closed(results, value), port)


def checked_port(port: object) -> int:
    if not is_integer(port) or not 0 <= port <= _HIGHEST:
        raise MuntinError(f"port must be a number from 0 (any) to {_HIGHEST}, got {port!r}.")
    return int(port)


def _handler(page: Dashboard) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "muntin", ""
        timeout = 30

        def do_GET(self) -> None:
            self._answer(with_content=True)

        def do_HEAD(self) -> None:
            self._answer(with_content=False)

        def _answer(self, with_content: bool) -> None:
            if self.headers.get("Host") not in (f"{HOST}:{page.port}", f"localhost:{page.port}"):
                # Another site's name that resolves to this machine is not allowed to read the page.
                self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"unknown host", with_content)
                return
            try:
                found = page.answer(self.path.partition("?")[0])
            except Exception as error:
                text = f"{type(error).__name__}: {error}"[:500]
                self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", text.encode(), with_content)
                return
            if found is None:
                self._send(HTTPStatus.NOT_FOUND, "text/plain", b"not found", with_content)
            else:
                self._send(HTTPStatus.OK, *found, with_content)

        def _send(self, status: HTTPStatus, kind: str, content: bytes, with_content: bool) -> None:
            self.send_response(status)
            for header, text in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
                self.send_header(header, text)
            self.end_headers()
            if with_content:
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            """Requests are not logged."""

    return Handler
