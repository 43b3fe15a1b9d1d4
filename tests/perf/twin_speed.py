"""Simulated requests per CPU-second: the event-driven twin against a token-by-token one, in one run.

.venv/bin/python tests/perf/twin_speed.py [REQUESTS] [--public-simulator PYTHON]      default: 100000

PYTHON is the interpreter of an environment with `pip install vidur==0.0.26`; the same traffic then runs there too.

Prints a table and, with the machine's load, what a reader needs to judge it; asserts only that both agree. The
token-by-token simulator is the tests' oracle: the same decisions, one step at a time, O(batch) a step. It serves
fewer requests, since it takes that much longer.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "simulation"))

from token_by_token import TokenByToken

from loadproof.capacity import PlannedDeployment, StepTimes, batch_limits, deployment_from_container
from loadproof.simulation import (
    Autoscaler,
    ClosedLoop,
    ElasticCopies,
    Machines,
    OpenLoop,
    StartUp,
    TargetTracking,
    arrival_times_ms,
    fresh_copies,
    scheduler_for,
    simulate_fleet,
    summarise,
)

Sizes = Callable[[], Iterator[tuple[int, int]]]
SERVERS = ("tgi", "vllm")
BATCH = 64


def deployment(family: str, short_of_memory: bool = False) -> PlannedDeployment:
    """Llama 3.1 8B on one H100, where 64 requests of 256 + 2,560 tokens fit at once; or, short of memory, Llama 2 7B
    on one A100 of 40 GB, where about 15 do."""
    return deployment_from_container(
        family=family,  # type: ignore[arg-type]
        version="1",
        variables={
            "MAX_TOTAL_TOKENS": "4096",
            "MAX_BATCH_PREFILL_TOKENS": "4096",
            "MAX_CONCURRENT_REQUESTS": "1000",
            "SM_VLLM_MAX_MODEL_LEN": "4096",
        },
        model_id="meta-llama/Llama-2-7b-hf" if short_of_memory else "meta-llama/Llama-3.1-8B-Instruct",
        architecture=None,
        instance_type="ml.p4d.24xlarge" if short_of_memory else "ml.p5.48xlarge",
        accelerators_per_copy=1,
        copies=1,
    )


def equal(output_tokens: int) -> Sizes:
    return lambda: repeat((256, output_tokens))


def spread(output_tokens: int) -> Sizes:
    """Normal answers, standard deviation a quarter of the mean: no two requests end together but by chance."""

    def sizes() -> Iterator[tuple[int, int]]:
        chance = Random(0)
        while True:
            yield 256, min(3840, max(1, round(chance.gauss(output_tokens, output_tokens / 4))))

    return sizes


def event_driven(
    made: PlannedDeployment, sizes: Sizes, requests: int, rate: float | None = None
) -> tuple[float, float]:
    """(requests per CPU-second, predicted output tokens/s). The schedule is made outside the timer."""
    load = OpenLoop(list(islice(arrival_times_ms("poisson", rate), requests))) if rate else ClosedLoop(BATCH)
    copies, sent = fresh_copies(made), list(islice(sizes(), requests))
    started = time.process_time()
    summary = summarise(simulate_fleet(copies, load, sent))
    return requests / (time.process_time() - started), summary.output_tokens_per_s or 0.0


def token_by_token(made: PlannedDeployment, sizes: Sizes, requests: int) -> tuple[float, float]:
    """The same closed loop on the oracle."""
    server = TokenByToken(StepTimes(made), batch_limits(made))
    sent = list(islice(sizes(), requests))
    waiting = enumerate(sent)
    started, now_ms = time.process_time(), 0.0
    for name, size in islice(waiting, BATCH):
        server.submit(str(name), *size, now_ms)
    while (step := server.next_step(now_ms)) is not None:
        now_ms += step.duration_ms
        for _ in step.finished:
            if (following := next(waiting, None)) is not None:
                server.submit(str(following[0]), *following[1], now_ms)
    return requests / (time.process_time() - started), sum(answer for _, answer in sent) / now_ms * 1000


class Line:
    """The step model of an H100's decoding reduced to one line, so that another simulator can be given the same."""

    def __init__(self, times: StepTimes) -> None:
        at_rest = times.step_ms(decodes=BATCH, context_tokens=0)
        self.per_decode_ms = (times.step_ms(decodes=2 * BATCH, context_tokens=0) - at_rest) / BATCH
        self.per_context_token_ms = (times.step_ms(decodes=BATCH, context_tokens=10_000) - at_rest) / 10_000
        self.per_prompt_token_ms = (times.prefill_ms(8000) - times.prefill_ms(4000)) / 4000
        self.base_ms = at_rest - BATCH * self.per_decode_ms

    def step_ms(
        self,
        *,
        decodes: float = 0,
        context_tokens: float = 0,
        prefill_tokens: float = 0,
        prefill_pairs: float = 0,
        prefill_requests: float = 0,
    ) -> float:
        decoding = self.per_decode_ms * decodes + self.per_context_token_ms * context_tokens
        return self.base_ms + decoding + self.per_prompt_token_ms * prefill_tokens


def beside_public_simulator(python: str, requests: int) -> None:
    """Poisson arrivals of 256 + 256 tokens at about 64 in flight, here and there; both must predict the same."""
    made = deployment("vllm")
    line, limits = Line(StepTimes(made)), batch_limits(made)
    rate = 0.95 * event_driven(made, equal(256), 2000)[1] / 256
    arrivals_ms = list(islice(arrival_times_ms("poisson", rate), requests))
    copies, sizes = [scheduler_for(line, limits)], [(256, 256)] * requests
    started = time.process_time()
    summary = summarise(simulate_fleet(copies, OpenLoop(arrivals_ms), sizes))
    ours_s = time.process_time() - started
    traffic = {
        "arrivals_s": [at_ms / 1000 for at_ms in arrivals_ms],
        "input_tokens": 256,
        "output_tokens": 256,
        "token_budget": limits.step_prefill_tokens,
        **{name: getattr(line, name) for name in vars(line)},
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(traffic, file)
        file.flush()
        runner = str(Path(__file__).with_name("vidur_traffic.py"))
        found = subprocess.run([python, runner, file.name], capture_output=True, text=True, check=True)
    theirs = json.loads(found.stdout.splitlines()[-1])
    print(f"\nPoisson, {rate:.0f}/s, 256 + 256 tokens, {requests:,} requests, one step model on both, vLLM:")
    print(f"{'':12}{'requests/CPU-s':>16}{'simulated s':>14}{'mean E2E, ms':>14}")
    ours = (requests / ours_s, summary.end_ms / 1000, summary.e2e.mean_ms or 0.0)
    for name, figures in (
        ("Loadproof", ours),
        ("Vidur", (requests / theirs["cpu_s"], theirs["simulated_s"], theirs["e2e_mean_ms"])),
    ):
        print(f"{name:12}{figures[0]:>16,.0f}{figures[1]:>14,.2f}{figures[2]:>14,.1f}")


def scaled(made: PlannedDeployment, requests: int, rate: float) -> float:
    """Requests per CPU-second where copies follow the load and clients give up, summarised."""
    load = OpenLoop(list(islice(arrival_times_ms("poisson", rate), requests)))
    sent, copies = list(islice(spread(256)(), requests)), elastic(made)
    started = time.process_time()
    summarise(simulate_fleet(copies, load, sent, give_up_after_ms=60_000.0))
    return requests / (time.process_time() - started)


def elastic(made: PlannedDeployment) -> ElasticCopies:
    """One to eight copies at 32 requests in flight each."""
    policy = TargetTracking("concurrent_requests_per_copy", 32)
    return ElasticCopies(
        Autoscaler([policy], min_copies=1, max_copies=8),
        lambda: fresh_copies(made)[0],
        StartUp(instance_s=300, copy_s=90),
        Machines(copies_per_instance=1, min_instances=1, max_instances=8),
    )


def memory_kib(requests: int, scales: bool = False) -> float:
    """Most memory taken while so many requests are simulated and summarised."""
    made = deployment("vllm")
    load = OpenLoop(arrival_times_ms("poisson", 60)) if scales else ClosedLoop(BATCH)
    copies = elastic(made) if scales else fresh_copies(made)
    tracemalloc.start()
    summarise(simulate_fleet(copies, load, islice(spread(256)(), requests), give_up_after_ms=60_000.0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", nargs="?", type=int, default=100_000)
    parser.add_argument("--public-simulator", metavar="PYTHON", help="interpreter of an environment with Vidur")
    given = parser.parse_args()
    requests = given.requests
    stamp = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {stamp}")
    print("requests per CPU-second, prompts of 256 tokens, 64 in flight\n")
    print(f"{'traffic':44}{'server':8}{'event-driven':>14}{'token by token':>16}{'faster':>9}")
    for name, sizes, short in (
        ("answers of 256, equal", equal(256), False),
        ("answers of 256, spread", spread(256), False),
        ("answers of 2,560, spread", spread(2560), False),
        ("answers of 2,560, spread, short of memory", spread(2560), True),
    ):
        for family in SERVERS:
            made, few = deployment(family, short), max(BATCH, requests // 200)
            ours, _ = event_driven(made, sizes, requests)
            naive, tokens_per_s = token_by_token(made, sizes, few)
            _, ours_of_few = event_driven(made, sizes, few)
            assert abs(ours_of_few / tokens_per_s - 1) < 1e-6, "the two simulators disagree"
            print(f"{name:44}{family:8}{ours:>14,.0f}{naive:>16,.0f}{ours / naive:>8,.0f}x")
    for family in SERVERS:
        # Rates that keep about 64 in flight, by Little's law from the closed loop's own throughput.
        made = deployment(family)
        rate = 0.95 * event_driven(made, spread(256), 2000)[1] / 256
        ours, _ = event_driven(made, spread(256), requests, rate)
        print(f"{f'Poisson arrivals, {rate:.0f}/s, answers of 256':44}{family:8}{ours:>14,.0f}")
        ours = scaled(made, requests, 3 * rate)
        print(f"{f'{3 * rate:.0f}/s, scaling from 1 to 8 copies, time-outs':44}{family:8}{ours:>14,.0f}")
    if given.public_simulator:
        beside_public_simulator(given.public_simulator, max(BATCH, requests // 40))
    for scales, words in ((False, "closed loop"), (True, "scaling copies")):
        few, many = memory_kib(20_000, scales), memory_kib(60_000, scales)
        print(f"\nmost memory, {words}: {few:,.0f} KiB for 20,000 requests, {many:,.0f} KiB for 60,000", end="")
    print()


if __name__ == "__main__":
    main()
