"""moto's own server in this process, for tests that ask a service which is not ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from moto import backends
from moto.server import ThreadedMotoServer

# Of every request that names a service in its host: moto lists its own folder, a hundred and fifty looks at the disk.
SERVICES = frozenset(backends.list_of_moto_modules())


@contextmanager
def moto_server() -> Iterator[str]:
    """Its address, on loopback."""
    backends.list_of_moto_modules = lambda: SERVICES
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
