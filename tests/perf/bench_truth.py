"""What a load generator reports against what the server did: `loadproof bench` and, side by side, common clients.

    .venv/bin/python tests/perf/bench_truth.py [--client loadproof|aiohttp|boto3] [--streams 64,256] [--rounds 6]
                                               [--workers 1] [--tls] [--plain]

The truth server (truth_server.c) streams 64 tokens a request, TTFT 50 ms, ITL 20 ms, and logs on the same machine's
monotonic clock when each request arrived and each token left. Reported − truth is what the client added. CPU time,
children included, is the client's between the first request and the last token; start-up is what it used before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import truth_server
from priority import CLIENT, SERVER, none, realtime
from sampling import SampledRun, run_sampled
from truth_server import ITL_MS, TOKENS, TTFT_MS, Boolean, TruthServer

HERE = Path(__file__).resolve().parent
REQUEST_S = (TTFT_MS + ITL_MS * (TOKENS - 1)) / 1e3
Figures = dict[str, float]
CLIENTS = ("loadproof", "aiohttp", "boto3")


def measure(
    client: str, streams: int, rounds: int, *, tls: bool = False, workers: int | None = None, first: bool = True
) -> Figures:
    """One closed loop of `streams`, `rounds` requests each, against a server of its own. Raises NoCompilerError.

    `first`: both run before all other work of the machine, where it lets us; else the client has no priority at all.
    `workers` None: as many as `loadproof bench` takes by itself.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = truth_server.build(folder, tls=tls)
        certificate = truth_server.certificate(folder) if tls else None
        pieces = truth_server.tgi_pieces()
        with truth_server.running(
            program, folder, pieces, certificate=certificate, before=realtime(SERVER) if first else None
        ) as server:
            trust = {"AWS_CA_BUNDLE": str(certificate)} if tls else {}
            keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
            command = _command(client, streams, rounds, server, folder, tls=tls, workers=workers)
            compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
            run = run_sampled(command, {**compiled, **keys, **trust}, realtime(CLIENT) if first else none)
            truth = server.stop()
    ramp_s = streams * 0.001 if client == "loadproof" else 0.0  # it opens one slot a millisecond, peers all at once
    return {**_reported(client, run), **_measured(run, truth, rounds * REQUEST_S + ramp_s)}


def _command(
    client: str, streams: int, rounds: int, server: TruthServer, folder: Path, *, tls: bool, workers: int | None
) -> list[str]:
    url = f"{'https' if tls else 'http'}://localhost:{server.port}"
    if client != "loadproof":
        return [sys.executable, str(HERE / "peers.py"), client, url, str(streams), str(rounds)]
    words = f"bench --target sagemaker://truth --endpoint-url {url} --protocol tgi --warmup 0 --format json"
    words += f" --concurrency {streams} --requests-per-level {rounds * streams} --output-tokens {TOKENS}"
    words += f" --out {folder / 'run'}" + (f" --workers {workers}" if workers else "")
    return [sys.executable, "-c", "from loadproof.cli.main import main; main()", *words.split()]


def _reported(client: str, run: SampledRun) -> Figures:
    """In the client's own words; peers print theirs in our names."""
    said = json.loads(run.stdout)
    if client != "loadproof":
        return dict(said)
    (level,) = said["levels"]
    latencies = {f"{name}_{at}_ms": level[f"{name}_ms"][at] for name in ("ttft", "itl") for at in ("p50", "p99", "max")}
    lags = {"lag_p99_ms": level["lag_ms"]["p99"], "loop_lag_p99_ms": level["loop_lag_ms"]["p99"]}
    return {"requests": level["requests"], "failed": level["errors"], **latencies, **lags, "valid": level["valid"]}


def _measured(run: SampledRun, truth: Boolean, possible_s: float) -> Figures:
    """From outside: the server's log and the operating system. `possible_s`: how long the load takes at best."""
    first_ns, last_ns = int(truth.arrived_ns.min()), int(truth.sent_ns.max())
    cpu_s = run.cpu_s_at(last_ns) - run.cpu_s_at(first_ns)
    ttft_p50, ttft_p99 = np.percentile(truth.ttft_ms(), (50, 99))
    itl_p50, itl_p99 = np.percentile(truth.gaps_ms(), (50, 99))
    return {
        "served": len(truth.arrived_ns),
        "truth_ttft_p50_ms": float(ttft_p50),
        "truth_ttft_p99_ms": float(ttft_p99),
        "truth_itl_p50_ms": float(itl_p50),
        "truth_itl_p99_ms": float(itl_p99),
        "share_of_possible_rate": possible_s / ((last_ns - first_ns) / 1e9),
        "cpu_s_per_100k_tokens": cpu_s / truth.sent_ns.size * 1e5,
        "whole_cpu_s_per_100k_tokens": run.whole_cpu_s / truth.sent_ns.size * 1e5,
        "start_up_cpu_s": run.cpu_s_at(first_ns),
        "after_cpu_s": run.whole_cpu_s - run.cpu_s_at(last_ns),
        "rss_mb": float(run.rss_mb[run.times_ns <= last_ns].max()),
        "rss_with_report_mb": float(run.rss_mb.max()),
        "rss_growth_mb_per_hour": run.rss_growth_mb_per_hour(first_ns + 5 * 10**9, last_ns - 2 * 10**9),
        "exit_code": run.exit_code,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", choices=CLIENTS, default="loadproof")
    parser.add_argument("--streams", default="64,256")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--plain", action="store_true", help="no real-time priority")
    arguments = parser.parse_args()
    for streams in map(int, arguments.streams.split(",")):
        try:
            figures = measure(
                arguments.client,
                streams,
                arguments.rounds,
                tls=arguments.tls,
                workers=arguments.workers,
                first=not arguments.plain,
            )
        except truth_server.NoCompilerError as error:
            sys.exit(str(error))
        print(f"{arguments.client}, {streams} streams, load average {os.getloadavg()[0]:.1f}")
        for name, value in figures.items():
            print(f"{name:>28}  {value:,.2f}")


if __name__ == "__main__":
    main()
