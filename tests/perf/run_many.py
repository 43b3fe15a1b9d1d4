"""`loadproof run`'s engine beside boto3 and a thread pool, on the local cloud's twin; writes docs/run-performance.md.

    .venv/bin/python tests/perf/run_many.py [--quick]

Each measurement is a process of its own, so that CPU time is its own; all of a table run one after another on the same
endpoint. Machines differ and are shared: read the ratios, not the seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "cli")]

PAGE = ROOT / "docs" / "run-performance.md"
DEV, PROD = ROOT / "deploy_profiles/dev/llama-3-1-8b.yaml", ROOT / "deploy_profiles/prod/llama-3-1-8b.yaml"


@dataclass(frozen=True, slots=True)
class Case:
    """One batch: `client` is ours or boto3 with threads; `concurrency` auto is ours only."""

    client: str  # "loadproof" | "boto3"
    endpoint: str
    concurrency: int | str
    requests: int
    input_tokens: int
    output_tokens: int
    stream: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    duration_s: float
    cpu_s: float
    answered: int
    requests: int
    most_in_flight: int | None

    @property
    def cpu_ms_a_request(self) -> float:
        return 1000 * self.cpu_s / self.answered


def prompts(case: Case) -> list[str]:
    """Of exactly the input length by the twin's rule, each with a beginning of its own."""
    return [f"number-{n} " + "word " * (case.input_tokens - 1) for n in range(case.requests)]


def ours(case: Case) -> Measured:
    from loadproof.bench.load.process import loop_factory
    from loadproof.invocation import GenerationRequest, Invoker, SageMakerTransport, codec_for
    from loadproof.invocation.chains import Item
    from loadproof.invocation.engine import Many
    from loadproof.invocation.many import pace_of

    async def main() -> Measured:
        transport = SageMakerTransport(
            case.endpoint,
            component=f"{case.endpoint}-main",
            region="us-east-1",
            endpoint_url=os.environ["AWS_ENDPOINT_URL"],
        )
        invoker = Invoker(transport, codec_for("tgi"))
        many = Many(invoker, pace_of(case.concurrency))  # type: ignore[arg-type]
        items = (
            Item(str(n), GenerationRequest(text, case.output_tokens, stream=case.stream, keep_text=case.stream))
            for n, text in enumerate(prompts(case))
        )
        started_s, cpu_s, answered = time.perf_counter(), time.process_time(), 0
        async for result in many.run(items):
            answered += (
                result.outcome.ok
                and result.invocation is not None
                and (result.invocation.output_tokens == case.output_tokens)
            )
        taken_s, spent_s = time.perf_counter() - started_s, time.process_time() - cpu_s
        await invoker.close()
        return Measured(taken_s, spent_s, answered, case.requests + many.retried, many.most_in_flight)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main())


def boto3_threads(case: Case) -> Measured:
    """What the founding post does: a client, a pool of threads, one call a prompt."""
    import boto3
    from botocore.config import Config

    threads = int(case.concurrency)
    client = boto3.client(
        "sagemaker-runtime", config=Config(max_pool_connections=threads, retries={"total_max_attempts": 1})
    )

    def call(text: str) -> bool:
        parameters = {"max_new_tokens": case.output_tokens, "details": True}
        body = json.dumps({"inputs": text, "parameters": parameters, "stream": case.stream})
        common = {
            "EndpointName": case.endpoint,
            "InferenceComponentName": f"{case.endpoint}-main",
            "ContentType": "application/json",
            "Body": body,
        }
        if not case.stream:
            answer = json.loads(client.invoke_endpoint(**common)["Body"].read())
            return bool((answer[0] if isinstance(answer, list) else answer)["generated_text"])
        buffer, texts = b"", []
        for event in client.invoke_endpoint_with_response_stream(**common)["Body"]:
            buffer += event["PayloadPart"]["Bytes"]
            *whole, buffer = buffer.split(b"\n")
            texts += [json.loads(line[5:])["token"]["text"] for line in whole if line.startswith(b"data:")]
        return len(texts) == case.output_tokens

    texts = prompts(case)
    started_s, cpu_s = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        answered = sum(pool.map(call, texts))
    return Measured(time.perf_counter() - started_s, time.process_time() - cpu_s, answered, case.requests, threads)


def measure(case: Case, environment: dict[str, str]) -> Measured:
    done = subprocess.run(
        [sys.executable, __file__, "--case", json.dumps(asdict(case))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{case}: {done.stderr[-2000:]}")
    measured = Measured(**json.loads(done.stdout.splitlines()[-1]))
    assert measured.answered == case.requests, f"{case}: {measured.answered} answered"
    print(case, measured, f"load {os.getloadavg()[0]:.1f}", flush=True)
    return measured


def table(names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [list(names), *([str(cell) for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def five_workers(environment: dict[str, str], requests: int) -> str:
    rows = []
    for client in ("loadproof", "boto3"):
        one, five = (
            measure(Case(client, "loadproof-dev-llama-3-1-8b", workers, requests, 256, 64), environment)
            for workers in (1, 5)
        )
        gain = one.duration_s / five.duration_s
        rows.append([client, f"{one.duration_s:.1f} s", f"{five.duration_s:.1f} s", f"{gain:.2f}×"])
    return table(["client", "one after another", "5 in flight", "gain"], rows)


def auto_and_fixed(environment: dict[str, str], endpoint: str, levels: tuple[int, ...], requests: int) -> str:
    cases = [Case("loadproof", endpoint, level, requests, 256, 100) for level in (*levels, "auto")]
    measured = [measure(case, environment) for case in cases]
    best = min(one.duration_s for one in measured[:-1])
    rows = [
        [case.concurrency, f"{requests * 100 / one.duration_s:,.0f}", one.most_in_flight, one.requests - requests,
         f"{best / one.duration_s:.1%}"]
        for case, one in zip(cases, measured, strict=True)
    ]  # fmt: skip
    return table(["in flight", "output tokens/s", "most at once", "retries", "of the best fixed"], rows)


def cpu(environment: dict[str, str], requests: int) -> str:
    rows = []
    for stream, words in ((True, "streamed"), (False, "whole")):
        pair = [
            measure(Case(client, "loadproof-prod-llama-3-1-8b", 128, requests, 64, 100, stream), environment)
            for client in ("loadproof", "boto3")
        ]
        share = pair[0].cpu_ms_a_request / pair[1].cpu_ms_a_request
        rows.append([words, *(f"{one.cpu_ms_a_request:.2f} ms" for one in pair), f"{share:.2f}",
                     *(f"{one.duration_s:.1f} s" for one in pair)])  # fmt: skip
    return table(["answers", "loadproof", "boto3 + threads", "share", "loadproof took", "boto3 took"], rows)


def page(environment: dict[str, str], quick: bool) -> str:
    share = 0.2 if quick else 1.0
    first = five_workers(environment, round(20 * share))
    one_copy = auto_and_fixed(environment, "loadproof-dev-llama-3-1-8b", (32, 48, 64), round(300 * share))
    copies = auto_and_fixed(environment, "loadproof-prod-llama-3-1-8b", (64, 96, 128), round(500 * share))
    third = cpu(environment, round(1000 * share))
    return TEXT.format(
        first=first,
        one_copy=one_copy,
        copies=copies,
        third=third,
        load=f"{os.getloadavg()[1]:.1f}",
        cores=os.cpu_count(),
    )


TEXT = """# How fast `loadproof run` is

Written by `tests/perf/run_many.py`: every figure is of one run, on the local cloud's twin on the same machine
({cores} cores, load average {load} at the end, for others worked on it too). The endpoint's speed is simulated; what
the clients do is real. Read the ratios.

## Five at a time

Prompts of 256 tokens, answers of 64, the dev profile of Llama 3.1 8B on one `ml.g6e.2xlarge`; streamed.

{first}

Five in flight cannot bring more than five times one in flight as long as a request takes as long alone as in company,
and a step that decodes five answers takes a little longer than one that decodes one: just below 5 is what there is to
have. A gain above it, like the 5.47× of the post that this figure comes from, needs a sequential run that pays for
something else too, for example a first call that is cold or answers that happen to be longer.

## `auto` and fixed numbers

Whole batches from the first request to the last answer, the search included; prompts of 256 tokens, answers of 100.
One copy, whose server refuses the 65th request (`max_concurrent_requests`):

{one_copy}

Two copies:

{copies}

A few percent either way are the machine's, and the last round's, which is not full. The retries are requests that the
server refused while the search found out how many it takes; a refusal costs it nothing.

## What a request costs the client

1,000 prompts, answers of 100 tokens, 128 in flight, two copies: CPU time of the client process a request.

{third}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a fifth of everything; writes no page")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        case = Case(**json.loads(given.case))
        print(json.dumps(asdict((ours if case.client == "loadproof" else boto3_threads)(case))))
        return
    from run_cloud import cloud_with

    with tempfile.TemporaryDirectory() as folder:
        os.environ["LOADPROOF_STATE_DIR"] = folder
        with cloud_with(DEV, PROD, name="run-many") as cloud:
            text = page({**os.environ, **cloud.environment()}, given.quick)
    if not given.quick:
        PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
