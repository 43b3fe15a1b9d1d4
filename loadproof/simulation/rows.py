"""Rows of a CSV file, each with what is predicted for it or the reason why nothing is."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

from loadproof.capacity import memory_fit
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.deployment import with_calibration
from loadproof.capacity.rows import GIVEN, row_deployment, whole
from loadproof.errors import InputError
from loadproof.simulation.table_runs import first_sent_ms, play_run

if TYPE_CHECKING:
    from loadproof.profiles.schema import Calibration

# May be there: tokens of each prompt that the server finds in its prefix cache.
CACHED = "cached_input_tokens"
# May be there: tokens that the server sends at once, 1 where it streams each (SGLang's --stream-interval).
INTERVAL = "stream_interval"
# Between a client and a container behind SageMaker's endpoint: the median of what 14 TTFTs of cached prompts took
# beyond the server's own (Qwen3 14B on ml.g7e.2xlarge, 2026-03), from 28 to 141 ms. For rows whose server names it.
FRONT_MS = 60.0
FIGURES = (
    "predicted_throughput_tok_s",
    "predicted_latency_mean_ms_per_token",
    "predicted_latency_p90_ms_per_token",
    "predicted_ttft_ms",
)
# Answers that were counted, and are not all alike: of how much they differ a row has only the mean, and lengths of a
# known mean are at most about exponential (of all, the least is known of those), of which nine in ten stay below this.
_UNEVEN_P90 = log(10)
_RANGED = dict(zip(FIGURES, ("output_tokens_per_s", "e2e_ms", "e2e_p90_ms", "ttft_ms"), strict=True))
ADDED = (*(f"{name}{end}" for name in FIGURES for end in ("", "_low", "_high")), "grade", "fits", "timeout", "reason")


def predict_file(source: Path, target: Path, calibration: Calibration | None = None) -> tuple[int, int]:
    """Write `source`'s rows with the added columns to `target`; (rows predicted, rows with a reason instead).

    `calibration` counts for the rows of its server and accelerator.
    Raises InputError where the file cannot be read, lacks a column, or cannot be written.
    """
    try:
        with source.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle)
            columns = list(reader.fieldnames or ())
            if missing := [name for name in GIVEN if name not in columns]:
                raise InputError(f"{source}:1: no column {', '.join(missing)}; expected at least {', '.join(GIVEN)}")
            if twice := sorted({name for name in GIVEN if columns.count(name) > 1}):
                raise InputError(f"{source}:1: column {', '.join(twice)} is there twice; keep the one that is meant")
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{source}: cannot be read as CSV: {error}; give a UTF-8 file with a header line") from None
    answers = [predict_row(row, calibration) for row in rows]
    try:
        with target.open("w", encoding="utf-8", newline="") as handle:
            kept = [name for name in columns if name not in ADDED]
            writer = csv.DictWriter(handle, [*kept, *ADDED], restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows({**row, **answer} for row, answer in zip(rows, answers, strict=True))
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None
    without = sum(bool(answer["reason"]) for answer in answers)
    return len(answers) - without, without


def predict_row(row: Mapping[str, str | None], calibration: Calibration | None = None) -> dict[str, str]:
    """The added columns of one row. Where a figure cannot be given all are empty and `reason` says why."""
    answer = dict.fromkeys(ADDED, "")
    try:
        answer.update(_predicted(row, calibration))
    except InputError as error:
        answer["reason"] = str(error)
    return answer


def _predicted(row: Mapping[str, str | None], calibration: Calibration | None) -> dict[str, str]:
    input_tokens, output_tokens = whole(row, "input_tokens"), whole(row, "output_tokens")
    concurrency = whole(row, "concurrency")
    deployment = row_deployment(row, input_tokens + output_tokens)
    if calibration is not None:
        deployment = with_calibration(deployment, calibration)
    memory = memory_fit(deployment)
    # A table says where its clients were.
    confidence = replace(confidence_of(deployment, prompt_tokens=input_tokens), ttft_on_top_ms=0.0)
    answer: dict[str, str] = {"fits": memory.fits, "grade": confidence.grade}
    cached = whole(row, CACHED, least=0) if (row.get(CACHED) or "").strip() else 0
    interval = whole(row, INTERVAL) if (row.get(INTERVAL) or "").strip() else 1
    run = play_run(deployment, input_tokens, output_tokens, concurrency, cached_tokens=cached)
    if run is None:
        limit = min(memory.kv_token_capacity, deployment.limits.max_request_tokens or memory.kv_token_capacity)
        answer["reason"] = (
            f"cannot be served: a request of {input_tokens + output_tokens} tokens, room for {limit} "
            f"(weights {memory.weights_gib:.1f} of {memory.usable_gib:.1f} GiB an accelerator)"
        )
        return answer
    front_ms = FRONT_MS if "sagemaker" in (row["server"] or "").casefold() else 0.0
    figures = (
        run.output_tokens_per_s,
        (front_ms + run.latency_mean_ms) / output_tokens,
        (front_ms + run.latency_p90_ms) / output_tokens,
        front_ms + first_sent_ms(run, output_tokens, interval),
    )
    for name, value in zip(FIGURES, figures, strict=True):
        low, high = confidence.range_of(_RANGED[name], value, run)
        if _RANGED[name] == "e2e_p90_ms" and _are_uneven(row):
            high = max(high, _UNEVEN_P90 * confidence.range_of("e2e_ms", figures[1], run)[1])
        answer |= {name: f"{value:.4g}", f"{name}_low": f"{low:.4g}", f"{name}_high": f"{high:.4g}"}
    answer["timeout"] = "yes" if run.timeout else "no"
    if run.refused:
        answer["reason"] = f"{run.refused} of {concurrency} requests in flight are refused; the figures are the others'"
    return answer


def _are_uneven(row: Mapping[str, str | None]) -> bool:
    """A mean number of output tokens with a fraction is one of answers of several lengths."""
    return not float(row["output_tokens"] or 0).is_integer()
