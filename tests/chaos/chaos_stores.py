"""SQS (ours) and S3 and DynamoDB (moto's), each on a port of its own in this process: `python chaos_stores.py`.

Prints one line: `{"sqs": url, "aws": url}`; runs until stdin ends.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from loadproof.localcloud.queue.sqs.server import running


def main() -> None:
    os.environ["MOTO_ACCOUNT_ID"] = "123456789012"
    from moto import backends
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    services = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: services  # else it lists its own folder for every request
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = one_at_a_time(DomainDispatcherApplication(create_backend_app))
    moto = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=moto.serve_forever, daemon=True).start()
    with running() as sqs:
        print(json.dumps({"sqs": sqs.endpoint_url, "aws": f"http://127.0.0.1:{moto.server_port}"}), flush=True)
        sys.stdin.read()
    moto.shutdown()


def one_at_a_time(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """moto looks at a condition and writes in two steps; AWS's conditional writes are one."""
    turn = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with turn:
            return application(environ, start_response)

    return serve


if __name__ == "__main__":
    main()
