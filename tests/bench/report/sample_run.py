"""A made-up run for looking at the page: `python tests/bench/report/sample_run.py FOLDER`. Nothing was measured.

A closed loop with seeded latencies that grow past a knee; every name in it says `sample`.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # bench_summaries

from bench_summaries import whole

from loadproof.bench.measure.histogram import histogram_of
from loadproof.bench.measure.records import RequestRecord

CONCURRENCIES = (1, 2, 4, 8, 16, 32)
OUTPUT_TOKENS = 64
USD_PER_HOUR = 7.09


def write_sample(folder: Path, *, seed: int = 0, requests_per_level: int = 48, **changes: Any) -> Path:
    """Write summary.json and requests.jsonl of a made-up run; `changes` replace top-level fields of the summary."""
    folder.mkdir(parents=True, exist_ok=True)
    random_source = random.Random(seed)
    records: list[RequestRecord] = []
    levels = []
    now_ns = 0
    for number, concurrency in enumerate(CONCURRENCIES):
        of_level = _level_records(random_source, number, concurrency, requests_per_level, now_ns)
        now_ns = max(record.end_ns for record in of_level) + 500_000_000
        records += of_level
        levels.append(_level(concurrency, of_level) | {"planned": {"level": number}})
    lines = (json.dumps(dataclasses.asdict(record)) + "\n" for record in records)
    (folder / "requests.jsonl").write_text("".join(lines))
    (folder / "summary.json").write_text(json.dumps(whole(_summary(levels) | changes), indent=1))
    return folder


def _level_records(
    random_source: random.Random, level: int, concurrency: int, count: int, start_ns: int
) -> list[RequestRecord]:
    free_ns = [start_ns] * concurrency
    records = []
    for index in range(count):
        slot = free_ns.index(min(free_ns))
        intended_ns = free_ns[slot]
        waiting = max(0.0, concurrency - 12) * 22
        first_ms = 62 + 4.5 * concurrency + waiting + random_source.expovariate(1 / (10 + 2.2 * concurrency))
        gap_ms = 21 + 0.62 * concurrency + random_source.gauss(0, 0.8)
        failed = concurrency == 32 and index % 17 == 5
        first_ns = intended_ns + int(first_ms * 1e6)
        arrivals = tuple(first_ns + int(step * gap_ms * 1e6) for step in range(OUTPUT_TOKENS))
        end_ns = first_ns if failed else arrivals[-1] + 400_000
        free_ns[slot] = end_ns
        records.append(
            RequestRecord(
                phase="measured",
                session=0,
                level=level,
                concurrency=concurrency,
                index=index,
                intended_ns=intended_ns,
                dispatched_ns=intended_ns,
                sent_ns=intended_ns + int(random_source.uniform(0.05, 0.6) * 1e6),
                first_token_ns=None if failed else first_ns,
                last_token_ns=None if failed else arrivals[-1],
                end_ns=end_ns,
                token_times_ns=() if failed else arrivals,
                tokens_at=() if failed else (1,) * OUTPUT_TOKENS,
                stalls_ns=(),
                planned_input_tokens=256,
                planned_output_tokens=OUTPUT_TOKENS,
                input_tokens=None if failed else 256,
                output_tokens=None if failed else OUTPUT_TOKENS,
                token_source="none" if failed else "server",
                outcome="throttled" if failed else "ok",
            )
        )
    return records


def _level(concurrency: int, records: list[RequestRecord]) -> dict[str, Any]:
    good = [record for record in records if record.ok]
    duration_s = (max(record.end_ns for record in records) - min(record.intended_ns for record in records)) / 1e9
    tokens_per_s = len(good) * OUTPUT_TOKENS / duration_s
    gaps = [
        (later - earlier) / 1e6
        for record in good
        for earlier, later in zip(record.token_times_ns, record.token_times_ns[1:], strict=False)
    ]
    within = [record for record in good if ttft_ms(record) <= 250 and tpot_ms(record) <= 40]
    failed = len(records) - len(good)
    return {
        "concurrency": concurrency,
        "requests": len(records),
        "errors": failed,
        "errors_by_kind": {"throttled": failed} if failed else {},
        "unfinished": 0,
        "duration_s": duration_s,
        "ttft_ms": _spread([ttft_ms(record) for record in good]),
        "itl_ms": _spread(gaps),
        "tpot_ms": _spread([tpot_ms(record) for record in good]),
        "e2e_ms": _spread([e2e_ms(record) for record in good]),
        "output_tokens_per_s": tokens_per_s,
        "input_tokens_per_s": len(good) * 256 / duration_s,
        "requests_per_s": len(good) / duration_s,
        "goodput_per_s": len(within) / duration_s,
        "cost_per_million_output_tokens_usd": USD_PER_HOUR / 3600 / tokens_per_s * 1e6,
        "lag_ms": _spread([(record.sent_ns - record.intended_ns) / 1e6 for record in records]),
        "phases": {
            "baseline": "1 in flight",
            "queue_ms": _spread([max(0.0, ttft_ms(record) - 75) for record in good]),
            "prefill_ms": _spread([min(75.0, ttft_ms(record)) for record in good]),
            "decode_ms": _spread([e2e_ms(record) - ttft_ms(record) for record in good]),
        },
        "histograms": {
            f"{name}_ms": dataclasses.asdict(histogram_of(np.asarray(values)).to_row())
            for name, values in (
                ("ttft", [ttft_ms(record) for record in good]),
                ("itl", gaps),
                ("tpot", [tpot_ms(record) for record in good]),
                ("e2e", [e2e_ms(record) for record in good]),
            )
        },
        "valid": True,
        "invalid_reasons": [],
        "token_source": "server",
    }


def ttft_ms(record: RequestRecord) -> float:
    return ((record.first_token_ns or 0) - record.intended_ns) / 1e6


def e2e_ms(record: RequestRecord) -> float:
    return (record.end_ns - record.intended_ns) / 1e6


def tpot_ms(record: RequestRecord) -> float:
    return (e2e_ms(record) - ttft_ms(record)) / (OUTPUT_TOKENS - 1)


def _spread(values: list[Any]) -> dict[str, float | None]:
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return dict.fromkeys(("p50", "p90", "p95", "p99", "mean", "max"))
    ranks = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
    spread = {name: ordered[int(share * (len(ordered) - 1))] for name, share in ranks.items()}
    return spread | {"mean": sum(ordered) / len(ordered), "max": ordered[-1]}


def _summary(levels: list[dict[str, Any]]) -> dict[str, Any]:
    judged = levels[3]
    observed = judged["ttft_ms"]["p95"]
    return {
        "schema_version": 1,
        "run_id": "20261121-101500-sample",
        "created_utc": "2026-11-21T10:15:00Z",
        "loadproof_version": "0.1.0",
        "target": {
            "kind": "sagemaker",
            "endpoint": "loadproof-dev-sample",
            "component": "loadproof-dev-sample-main",
            "endpoint_url": "http://127.0.0.1:4599",
            "region": "eu-central-1",
            "protocol": "tgi",
            "streaming": True,
        },
        "profile": {
            "name": "sample-llama-3-1-8b",
            "file": "deploy_profiles/dev/sample.yaml",
            "sha256": "ab" * 32,
            "environment": "dev",
        },
        "workload": {"input_tokens": 256, "output_tokens": OUTPUT_TOKENS, "seed": 0},
        "conditions": {"python": "3.11.9", "platform": "Linux x86_64", "cpu_count": 2, "local_cloud": True},
        "levels": levels,
        "knee": {
            "concurrency": 16,
            "rule": "marginal gain",
            "reason": "from 16 to 32 in flight throughput grows by less than half of what latency grows",
        },
        "predicted": {
            "grade": "C",
            "levels": [
                {
                    "concurrency": n,
                    "ttft_ms": 58 + 6.0 * n,
                    "tpot_ms": 20 + 0.66 * n,
                    "e2e_ms": 58 + 6.0 * n + 63 * (20 + 0.66 * n),
                    "output_tokens_per_s": n * 64 / ((58 + 6.0 * n + 63 * (20 + 0.66 * n)) / 1000),
                    "ttft_range_ms": [(58 + 6.0 * n) / 1.3, (58 + 6.0 * n) * 1.3],
                    "tpot_range_ms": [(20 + 0.66 * n) / 1.2, (20 + 0.66 * n) * 1.2],
                    "requests_per_s": n / ((58 + 6.0 * n + 63 * (20 + 0.66 * n)) / 1000),
                }
                for n in CONCURRENCIES
            ],
        },
        "objectives": [
            {
                "name": "ttft_p95_ms",
                "comparison": "<=",
                "bound": 250.0,
                "observed": observed,
                "low": observed * 0.93,
                "high": observed * 1.06,
                "margin": (250.0 - observed) / 250.0,
                "verdict": "PASS",
            },
            _objective("tpot_p95_ms", 40.0, judged["tpot_ms"]["p95"]),
            _objective("e2e_p99_ms", 2000.0, judged["e2e_ms"]["p99"]),
            _objective("error_rate_max", 0.01, 0.0),
            _objective("output_tokens_per_s_min", 200.0, judged["output_tokens_per_s"], ">="),
        ],
        "scaling": {
            "copies": [
                {"at_s": 0.0, "current": 1, "desired": 1},
                {"at_s": 150.0, "current": 1, "desired": 2},
                {"at_s": 172.0, "current": 2, "desired": 2},
            ],
            "scale_outs": [{"before": 1, "after": 2, "started_s": 150.0, "seconds": 22.0, "by": "observed"}],
            "resolution_s": 2.0,
        },
        "verdict": {"outcome": "PASS", "at_concurrency": 8, "reasons": []},
    }


def _objective(name: str, bound: float, observed: float, comparison: str = "<=") -> dict[str, Any]:
    margin = (bound - observed) / bound if comparison == "<=" else (observed - bound) / bound
    return {
        "name": name,
        "comparison": comparison,
        "bound": bound,
        "observed": observed,
        "low": observed * 0.97,
        "high": observed * 1.03,
        "margin": margin,
        "verdict": "PASS" if margin >= 0 else "FAIL",
    }


if __name__ == "__main__":
    print(write_sample(Path(sys.argv[1])))
