"""CPU of the client per 100,000 streamed tokens, and what it reports against what the server did.

    .venv/bin/python tests/perf/invocation_cpu.py [--streams 64,256,1024] [--seconds 5] [--protocol sagemaker|openai]
                                                  [--tls] [--portable] [--plain]

The truth server (truth_server.c) streams 64 tokens a request with a first token after 50 ms and a gap of 20 ms. One
process of `invocation` keeps N streams busy; nothing of `benchmarks` runs. CPU is user + system of that process during
the load. `--portable`: asyncio's transports, as where the kernel stamps no reads.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import truth_server
import uvloop
from priority import CLIENT, SERVER, realtime
from truth_server import ITL_MS, TOKENS, TTFT_MS, Boolean

from loadproof.invocation import GenerationRequest, HttpTransport, Invocation, Invoker, SageMakerTransport, codec_for
from loadproof.invocation.credentials import fixed
from loadproof.invocation.sigv4 import Credentials

Figures = dict[str, float]


async def _load(invoker: Invoker, streams: int, seconds: float) -> tuple[list[Invocation], float, float]:
    """Records, client CPU seconds and wall seconds of a closed loop that starts after a warm-up."""
    request = GenerationRequest("word " * 64, TOKENS)
    await invoker.warm(streams)
    await asyncio.gather(*(invoker.invoke(request) for _ in range(streams)))
    gc.collect()
    gc.freeze()
    records: list[Invocation] = []
    began, cpu = time.perf_counter(), _cpu_s()

    async def worker(number: int) -> None:
        await asyncio.sleep(number / streams * TTFT_MS / 1e3)  # streams of a real load are not in step
        while time.perf_counter() - began < seconds:
            records.append(await invoker.invoke(request))

    await asyncio.gather(*map(worker, range(streams)))
    return records, _cpu_s() - cpu, time.perf_counter() - began


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def figures_of(streams: int, records: list[Invocation], cpu_s: float, wall_s: float) -> Figures:
    good = [record for record in records if record.outcome.ok]
    ttft_ms = [(record.first_token_ns - record.sent_ns) / 1e6 for record in good]  # type: ignore[operator]
    gaps_ms = np.concatenate([np.diff(np.frombuffer(record.arrival_ns, dtype=np.int64)) for record in good]) / 1e6
    lags_ms = np.concatenate([np.frombuffer(record.read_lag_ns, dtype=np.int64) for record in good]) / 1e6
    return {
        "streams": streams,
        "failed": len(records) - len(good),
        "cpu_s_per_100k_tokens": cpu_s / sum(record.output_tokens or 0 for record in good) * 1e5,
        "requests_per_s_of_possible": len(good) / wall_s / (streams / (TTFT_MS + ITL_MS * (TOKENS - 1)) * 1e3),
        **_quantiles("ttft", ttft_ms),
        **_quantiles("itl", gaps_ms),
        **_quantiles("read_lag", lags_ms),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def truth_figures(truth: Boolean) -> Figures:
    return {**_quantiles("truth_ttft", truth.ttft_ms()), **_quantiles("truth_itl", truth.gaps_ms())}


def _quantiles(name: str, values: object) -> Figures:
    p50, p99 = np.percentile(values, (50, 99))  # type: ignore[call-overload]
    return {f"{name}_p50_ms": float(p50), f"{name}_p99_ms": float(p99)}


def measure(
    streams: int, seconds: float, protocol: str, *, tls: bool = False, portable: bool = False, first: bool = True
) -> Figures:
    """One level against a fresh truth server, in a fresh process, so that memory is this level's own."""
    flags = [*(["--tls"] if tls else []), *(["--portable"] if portable else [])]
    pieces = truth_server.tgi_pieces() if protocol == "sagemaker" else truth_server.chat_pieces()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate = truth_server.certificate(folder) if tls else None
        program, before = truth_server.build(folder, tls=tls), realtime(SERVER) if first else None
        with truth_server.running(program, folder, pieces, certificate=certificate, before=before) as server:
            url = f"{'https' if tls else 'http'}://localhost:{server.port}"
            words = ["--client", url, "--streams", str(streams), "--seconds", str(seconds), "--protocol", protocol]
            environment = {**os.environ, **({"SSL_CERT_FILE": str(certificate)} if tls else {})}
            command = [sys.executable, __file__, *words, *flags]
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                env=environment,
                preexec_fn=realtime(CLIENT) if first else None,
            )
            return {**json.loads(done.stdout), **truth_figures(server.stop())}


def client(arguments: argparse.Namespace) -> Figures:
    streams = int(arguments.streams)
    tls = ssl.create_default_context() if arguments.tls else None
    invoker = _invoker(arguments.protocol, arguments.client, tls, not arguments.portable)
    return figures_of(streams, *uvloop.run(_load(invoker, streams, arguments.seconds)))


def _invoker(protocol: str, url: str, tls: ssl.SSLContext | None, kernel_times: bool) -> Invoker:
    if protocol == "openai":
        transport = HttpTransport(f"{url}/v1/chat/completions", tls=tls, kernel_times=kernel_times)
        return Invoker(transport, codec_for("openai-chat", model="m"))
    keys = fixed(Credentials("AKID", "secret", "token"))
    region = "us-east-1"
    signed = SageMakerTransport(
        "ep", region=region, credentials=keys, endpoint_url=url, tls=tls, kernel_times=kernel_times
    )
    return Invoker(signed, codec_for("tgi"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="64,256")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--protocol", choices=["sagemaker", "openai"], default="sagemaker")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--portable", action="store_true")
    parser.add_argument("--plain", action="store_true", help="no real-time priority")
    parser.add_argument("--client", help=argparse.SUPPRESS)  # the load itself, in a process of its own
    arguments = parser.parse_args()
    if arguments.client:
        print(json.dumps(client(arguments)))
        return
    for streams in map(int, arguments.streams.split(",")):
        try:
            figures = measure(
                streams,
                arguments.seconds,
                arguments.protocol,
                tls=arguments.tls,
                portable=arguments.portable,
                first=not arguments.plain,
            )
        except truth_server.NoCompilerError as error:
            sys.exit(str(error))
        print("  ".join(f"{name} {value:.2f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
