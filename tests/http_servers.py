"""Made-up servers on loopback, each in threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Quiet:
    """A handler that tells nobody what was asked: `class Handler(Quiet, BaseHTTPRequestHandler)`."""

    def log_message(self, *_: object) -> None:
        pass


class Files(Quiet, SimpleHTTPRequestHandler):
    """Those of a folder: `partial(Files, directory=...)`."""


@contextmanager
def serving_http(handler: Callable[..., Any]) -> Iterator[str]:
    """The address, `http://127.0.0.1:PORT`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
