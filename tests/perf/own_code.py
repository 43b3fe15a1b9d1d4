"""Own code where a library exists: its lines, and what the library would cost in CPU a call and at import.

    .venv/bin/python tests/perf/own_code.py [--also FOLDER]

CPU per call is the least of nine rounds, in one process; CPU of an import the median of seven child processes, less
that of a Python that imports nothing. `--also`: where wheels that are not installed were unpacked; a library that is
found nowhere is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from botocore.eventstream import EventStreamBuffer
from cli_cpu import ROOT, cpu_s

from loadproof.invocation.eventstream import PayloadPartDecoder, encode_payload_part
from loadproof.invocation.sigv4 import Credentials, Signer
from loadproof.invocation.sse import ServerSentEvents

PARTS = {
    "SVG pictures": "pages/svg.py pages/figures.py bench/report/*charts.py advice/page review/formats/pictures.py",
    "text tables, console": "terminal.py cli/printing.py cli/*/*text.py cli/run/view.py bench/output/console.py",
    "statistics": " ".join(
        f"bench/measure/{name}.py" for name in ("statistics", "bootstrap", "intervals", "resampling", "steady")
    ),
    "event stream": "invocation/eventstream.py",
    "SSE": "invocation/sse.py wire/lines.py",
    "SigV4": "invocation/sigv4.py",
    "HTTP client": "invocation/http1.py invocation/connections.py invocation/sockets.py invocation/transports.py",
}
LIBRARIES = ("numpy", "rich.table", "scipy.stats", "plotly.graph_objects", "aiohttp", "awscrt.eventstream")
BODY, CALLS, ROUNDS = b"x" * 2_000, 2_000, 9
FRAME = encode_payload_part(b'data:{"token":{"id":1,"text":" word"}}\n\n')
HEADERS = {"host": "runtime.sagemaker.us-east-1.amazonaws.com", "content-type": "application/json"}


def lines_of(places: str) -> int:
    """Of files, or of all Python in a folder."""
    found = (file for place in places.split() for file in (ROOT / "loadproof").glob(place))
    files = (one for file in found for one in (file.rglob("*.py") if file.is_dir() else [file]))
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def own_signature() -> Callable[[], object]:
    signer, keys = Signer("us-east-1", "sagemaker"), Credentials("AKID", "secret")
    return lambda: signer.sign("POST", "/endpoints/chat/invocations", HEADERS, BODY, keys)


def botocores_signature() -> Callable[[], object]:
    auth = SigV4Auth(BotocoreCredentials("AKID", "secret"), "sagemaker", "us-east-1")
    url = f"https://{HEADERS['host']}/endpoints/chat/invocations"
    return lambda: auth.add_auth(AWSRequest("POST", url, headers=HEADERS, data=BODY))


def own_frames() -> Callable[[], object]:
    decoder = PayloadPartDecoder()
    return lambda: list(decoder.feed(FRAME))


def botocores_frames() -> Callable[[], object]:
    buffer = EventStreamBuffer()

    def read() -> object:
        buffer.add_data(FRAME)
        return [event.to_response_dict() for event in buffer]

    return read


def own_events() -> Callable[[], object]:
    splitter = ServerSentEvents()
    return lambda: splitter.feed(b'data:{"token":{"id":1,"text":" word"}}\n\n')


CALLED = {
    "SigV4, own": own_signature,
    "SigV4, botocore": botocores_signature,
    "event-stream frame, own": own_frames,
    "event-stream frame, botocore": botocores_frames,
    "server-sent event, own": own_events,
}


def call_us(call: Callable[[], object]) -> float:
    """CPU of one call."""
    rounds = []
    for _ in range(ROUNDS):
        began_ns = time.process_time_ns()
        for _ in range(CALLS):
            call()
        rounds.append((time.process_time_ns() - began_ns) / CALLS / 1000)
    return min(rounds)


def import_ms(module: str) -> float:
    command = (sys.executable, "-c", f"import {module}" if module else "")
    cpu_s(command)  # compiles what is not compiled yet
    return statistics.median(cpu_s(command) for _ in range(7)) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--also", type=Path, default=None)
    also = parser.parse_args().also
    if also is not None:
        folders = [str(folder) for folder in also.resolve().iterdir()]
        sys.path += folders
        os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    for name, places in PARTS.items():
        print(f"{name:30} {lines_of(places):6} lines")
    for name, made in CALLED.items():
        print(f"{name:30} {call_us(made()):6.1f} µs a call")
    bare_ms = import_ms("")
    for module in LIBRARIES:
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            print(f"import {module:23} {import_ms(module) - bare_ms:6.0f} ms CPU")


if __name__ == "__main__":
    main()
