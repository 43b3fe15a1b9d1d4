"""Worker processes: they keep their state while warm, and never outlive the server."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from loadproof.localcloud.queue.functions import Functions


def function(code: str, **more: object) -> SimpleNamespace:
    """What the pool reads of moto's LambdaFunction."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("app.py", code)
    fields = {
        "function_name": "f",
        "function_arn": "arn:aws:lambda:us-east-1:123456789012:function:f",
        "handler": "app.handle",
        "code_sha_256": code,
        "code_bytes": packed.getvalue(),
        "environment_vars": {},
        "timeout": 5,
        "memory_size": 128,
        "layers": [],
        "region": "us-east-1",
    }
    return SimpleNamespace(**{**fields, **more})


@pytest.fixture
def functions() -> Iterator[Functions]:
    running = Functions({})
    yield running
    running.close()


def test_a_warm_worker_keeps_its_globals(functions: Functions) -> None:
    """Module state survives from event to event, as in a warm execution environment."""
    counting = function("n = 0\ndef handle(event, context):\n    global n\n    n += 1\n    return n\n")
    assert [functions.invoke(counting, {}).value for _ in range(3)] == [1, 2, 3]


def test_a_module_that_cannot_be_loaded_fails_every_event(functions: Functions) -> None:
    """An ImportError at load is the answer to each event, with its type and message."""
    broken = function("import no_such_module\n")
    for _ in range(2):
        error = functions.invoke(broken, {}).error
        assert error is not None
        assert error["errorType"] == "ModuleNotFoundError"
        assert "no_such_module" in error["errorMessage"]


def test_a_worker_that_exits_is_an_error_and_is_replaced(functions: Functions) -> None:
    """os._exit in the handler: Runtime.ExitError, then a fresh process serves the next event."""
    code = "import os\ndef handle(event, context):\n    if event: os._exit(3)\n    return 'alive'\n"
    error = functions.invoke(function(code), {"exit": 1}).error
    assert error is not None and error["errorType"] == "Runtime.ExitError"
    assert functions.invoke(function(code), {}).value == "alive"


def test_the_first_event_of_a_worker_has_the_functions_time_and_no_more(functions: Functions) -> None:
    """A module takes 3 s to load, which is not its time; the handler's 4 s are more than its Timeout of 2."""
    slow = "import time\ntime.sleep({})\ndef handle(event, context):\n    time.sleep({})\n    return 'done'\n"
    assert functions.invoke(function(slow.format(3, 0), timeout=2), {}).value == "done"
    late = functions.invoke(function(slow.format(0, 4), timeout=2), {}).error
    assert late is not None and late["errorType"] == "Sandbox.Timedout"


def test_what_a_handler_prints_is_not_its_answer(functions: Functions) -> None:
    """Prints go to the log; the answer's channel is its own."""
    code = "print('loading')\ndef handle(event, context):\n    print('{\"result\": 1}')\n    return 2\n"
    assert functions.invoke(function(code), {}).value == 2


def test_an_answer_that_is_not_json_is_an_error(functions: Functions) -> None:
    """As in Lambda, the handler's return value must serialize."""
    error = functions.invoke(function("def handle(event, context):\n    return {1, 2}\n"), {}).error
    assert error is not None and "set is not JSON serializable" in error["errorMessage"]


def test_a_large_answer_comes_through_whole(functions: Functions) -> None:
    """Four megabytes, far past a pipe's buffer."""
    answer = functions.invoke(function("def handle(event, context):\n    return 'x' * (1 << 22)\n"), {}).value
    assert len(answer) == 1 << 22


def test_workers_die_with_a_killed_server() -> None:
    """SIGKILL to the process that owns the pool, while a handler sleeps: the worker is gone soon after."""
    script = """
import json, sys, threading, time
sys.path[:0] = json.loads(sys.argv[1])
from test_queue_workers import function
from loadproof.localcloud.queue.functions import Functions
sleeping = function("import time\\ndef handle(event, context):\\n    time.sleep(60)\\n", timeout=60)
threading.Thread(target=Functions({}).invoke, args=(sleeping, {}), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""
    paths = json.dumps([str(Path(__file__).parent), *(path for path in sys.path if path)])
    server = subprocess.Popen([sys.executable, "-c", script, paths], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 60
        while not (workers := psutil.Process(server.pid).children()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.3)  # let the handler begin to sleep
        server.send_signal(signal.SIGKILL)
        server.wait()
        gone, alive = psutil.wait_procs(workers, timeout=30)
        assert len(gone) == 1 and not alive
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
