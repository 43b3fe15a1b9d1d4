"""One Lambda execution environment: a child process that loads a handler once and answers events from a pipe.

Run as a script by `walls.confined`, isolated from the virtual environment and unbuffered (`-I -S -u`): the
handler sees its own zip, the layers and what Lambda's runtime provides, nothing else. Lines of JSON come in on stdin
and go out on what was stdout, after an empty one once the handler is loaded; its own prints go to stderr, which the
server reads. When stdin closes (the
server is gone, even killed) the process ends at once, whatever it does.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

Document = dict[str, Any]
Handler = Callable[[Any, Any], Any]


class Context:
    """Lambda's context object."""

    def __init__(self, request_id: str, function_arn: str, deadline_s: float) -> None:
        self.aws_request_id = request_id
        self.invoked_function_arn = function_arn
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.identity = None
        self.client_context = None
        self._deadline_s = deadline_s

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline_s - time.time()) * 1000))


def load_handler(name: str) -> Handler:
    """`package.module.function`, as Lambda resolves it."""
    module_name, _, function_name = name.rpartition(".")
    handler: Handler = getattr(importlib.import_module(module_name.replace("/", ".")), function_name)
    return handler


def failure(error: BaseException) -> Document:
    """Lambda's error document."""
    return {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "stackTrace": traceback.format_exception(error),
    }


def answer(handler: Handler, call: Document) -> Document:
    context = Context(call["request_id"], call["function_arn"], time.time() + call["timeout_s"])
    try:
        return {"result": json.loads(json.dumps(handler(call["event"], context)))}
    except BaseException as error:  # SystemExit too: Lambda reports it as an error of the invocation
        traceback.print_exc()
        return {"error": failure(error)}


def read_calls(source: BinaryIO, calls: queue.Queue[Document]) -> None:
    for line in source:
        calls.put(json.loads(line))
    with contextlib.suppress(OSError):
        os.killpg(0, signal.SIGKILL)  # with what the handler started
    os._exit(0)


def main(handler_name: str, search_path: list[str]) -> None:
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:0] = search_path
    calls: queue.Queue[Document] = queue.Queue()
    threading.Thread(target=read_calls, args=(sys.stdin.buffer, calls), daemon=True).start()
    broken: Document | None = None
    handler: Handler | None = None
    try:
        handler = load_handler(handler_name)
    except BaseException as error:
        traceback.print_exc()
        broken = {"error": failure(error)}
    out.write(b"\n")  # loaded: from here on an event's time counts
    out.flush()
    while True:
        call = calls.get()
        reply = answer(handler, call) if handler is not None else broken
        out.write(json.dumps(reply).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
