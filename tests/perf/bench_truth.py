"""What `loadproof bench` reports against what the server knows: one run a level, the server in a process of its own.

    python tests/perf/bench_truth.py [STREAMS ...]      default: 16 64

The server streams 64 tokens a request with TTFT 50 ms and ITL 20 ms and logs when it got each request and wrote each
token, on the same machine's monotonic clock. Reported − truth is what the client, the loopback and the scheduler
added. CPU is the client's, start-up and report included apart.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))

TOKENS = 64
ROUNDS = 6  # requests of each stream


def serve(log: Path) -> None:
    import uvloop
    from bench_fakes import FakeEndpoint

    endpoint = FakeEndpoint(ttft_s=0.05, itl_s=0.02)

    async def run() -> None:
        server = await asyncio.start_server(endpoint.handle, "127.0.0.1", 0, backlog=4096)
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        print(server.sockets[0].getsockname()[1], flush=True)
        await stopped.wait()

    uvloop.run(run())
    rows = [[served.prompt, served.received_ns, served.token_ns] for served in endpoint.served]
    log.write_text(json.dumps(rows))


def measure(streams: int, folder: Path) -> dict[str, float]:
    log = folder / "truth.json"
    server = subprocess.Popen([sys.executable, __file__, "--serve", str(log)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    cpu_before = cpu_s()
    out = folder / "run"
    command = [sys.executable, "-c", "from loadproof.cli.main import main; main()", "bench"]
    command += ["--target", "sagemaker://truth", "--endpoint-url", f"http://127.0.0.1:{port}", "--protocol", "tgi"]
    command += ["--concurrency", str(streams), "--requests-per-level", str(ROUNDS * streams), "--warmup", "0"]
    command += ["--output-tokens", str(TOKENS), "--out", str(out), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    cpu = cpu_s() - cpu_before
    server.send_signal(signal.SIGTERM)
    server.wait(10)
    (level,) = json.loads(done.stdout)["levels"]
    truth = json.loads(log.read_text())
    ttft = sorted((tokens[0] - received) / 1e6 for _, received, tokens in truth)
    gaps = sorted((b - a) / 1e6 for _, _, tokens in truth for a, b in pairwise(tokens))
    return {
        "streams": streams,
        "requests": level["requests"],
        "errors": level["errors"],
        "requests/s": level["requests_per_s"],
        "requests/s possible": streams / (0.05 + 0.02 * (TOKENS - 1)),
        "TTFT p50 reported": level["ttft_ms"]["p50"],
        "TTFT p50 truth": at(ttft, 0.5),
        "TTFT p99 reported": level["ttft_ms"]["p99"],
        "TTFT p99 truth": at(ttft, 0.99),
        "ITL p50 reported": level["itl_ms"]["p50"],
        "ITL p50 truth": at(gaps, 0.5),
        "ITL p99 reported": level["itl_ms"]["p99"],
        "ITL p99 truth": at(gaps, 0.99),
        "dispatch lag p99": level["lag_ms"]["p99"],
        "loop lag p99": level["loop_lag_ms"]["p99"],
        "valid": level["valid"],
        "client CPU s, whole command": cpu,
        "exit code": done.returncode,
    }


def at(values: list[float], share: float) -> float:
    return values[round(share * (len(values) - 1))]


def cpu_s() -> float:
    """Of children that ended: the client is the only one that did in between."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]))
        return
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}"
    )
    for streams in map(int, sys.argv[1:] or ("16", "64")):
        with tempfile.TemporaryDirectory() as folder:
            for name, value in measure(streams, Path(folder)).items():
                print(f"{name:>30}  {value:,.2f}" if isinstance(value, float) else f"{name:>30}  {value}")


if __name__ == "__main__":
    main()
