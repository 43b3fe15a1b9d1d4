"""`vllm bench serve --save-result` (vLLM 0.32): one JSON file a level."""

from __future__ import annotations

from collections.abc import Mapping

from loadproof.bench.imports.levels import MeasuredLevel, day, number, spread_of, text, whole
from loadproof.bench.measure.statistics import Spread


def is_vllm_bench(document: object) -> bool:
    return isinstance(document, Mapping) and {"output_throughput", "total_input_tokens", "duration"} <= document.keys()


def read_vllm_bench(document: Mapping[str, object], source: str) -> list[MeasuredLevel]:
    """One level. Without `--max-concurrency` the loop was not closed and `concurrency` is None. It drives any server of
    the OpenAI API, so which one it was is not said.

    Percentiles beyond the mean, the median and p99 are there only where `--metric-percentiles` asked for them.
    """
    completed, failed = whole(document.get("completed")), whole(document.get("failed"))
    return [
        MeasuredLevel(
            source=source,
            concurrency=whole(document.get("max_concurrency")),
            input_tokens=_each(document.get("total_input_tokens"), completed),
            output_tokens=_each(document.get("total_output_tokens"), completed),
            requests=None if completed is None else completed + (failed or 0),
            errors=failed,
            output_tokens_per_s=number(document.get("output_throughput")),
            requests_per_s=number(document.get("request_throughput")),
            ttft_ms=_spread(document, "ttft"),
            itl_ms=_spread(document, "itl"),
            tpot_ms=_spread(document, "tpot"),
            e2e_ms=_spread(document, "e2el"),
            model=text(document.get("model_id")),
            date=day(document.get("date")),
        )
    ]


def _spread(document: Mapping[str, object], metric: str) -> Spread:
    names = {"mean": f"mean_{metric}_ms", "p50": f"median_{metric}_ms"}
    return spread_of(document, names | {f"p{q}": f"p{q}_{metric}_ms" for q in (90, 95, 99)})


def _each(total: object, completed: int | None) -> float | None:
    found = number(total)
    return found / completed if found is not None and completed else None
