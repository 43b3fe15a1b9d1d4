"""Single requests from other load generators' files, as the records a run of our own has.

Of AIPerf: `profile_export.jsonl`, a line a request, beside its summary. Of `vllm bench serve --save-detailed`: lists in
the result itself. Of guidellm: `requests` of each level, where none were sampled away. Times are put on one clock that
begins with the level; a gap between two tokens that a file does not hold is not made up: such a record has its first
and last token only, and no ITL comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from loadproof.bench.imports.guidellm import guidellm_strategy, is_guidellm
from loadproof.bench.imports.levels import mapping, number, text, whole
from loadproof.bench.measure.records import RequestRecord, bare_record
from loadproof.bench.plain import MOST_LOG_BYTES, is_plain, read_plain

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
AIPERF_RECORDS = "profile_export.jsonl"
Request = Mapping[str, object]


def requests_of(file: Path) -> list[list[RequestRecord] | None]:
    """The requests behind each level in `file`; None where its program left none, or not all that is needed."""
    beside = [path for path in sorted(file.parent.iterdir()) if path.name.endswith(AIPERF_RECORDS) and is_plain(path)]
    if file.name.endswith("profile_export_aiperf.json") and beside:
        return [_aiperf(read_plain(beside[0], MOST_LOG_BYTES).splitlines())]
    try:
        document = orjson.loads(read_plain(file, MOST_LOG_BYTES, may_be_link=True))
    except orjson.JSONDecodeError:
        return [None]
    if isinstance(document, Mapping) and {"ttfts", "itls", "start_times", "output_lens"} <= document.keys():
        return [_vllm(document)]
    if is_guidellm(document):
        return [_guidellm(entry) for entry in document["benchmarks"] if isinstance(entry, Mapping)]
    return [None]


def _aiperf(lines: Sequence[bytes]) -> list[RequestRecord] | None:
    rows = []
    for line in lines:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # torn by a run that was killed
        if mapping(row, "metadata").get("benchmark_phase", "profiling") == "profiling":
            rows.append(row)
    starts = [whole(mapping(row, "metadata").get("request_start_ns")) for row in rows]
    known = [start for start in starts if start is not None]
    if not known or len(known) != len(starts):
        return None
    return [_aiperf_record(index, row, min(known)) for index, row in enumerate(rows)]


def _aiperf_record(index: int, row: Request, zero_ns: int) -> RequestRecord:
    metadata, error = mapping(row, "metadata"), mapping(row, "error")
    start_ns = (whole(metadata.get("request_start_ns")) or 0) - zero_ns
    latency_ms, first_ms = _metric(row, "request_latency"), _metric(row, "time_to_first_token")
    end_ns = (whole(metadata.get("request_end_ns")) or 0) - zero_ns
    if latency_ms is not None:
        end_ns = start_ns + round(latency_ms * NS_PER_MS)
    canceled = metadata.get("was_cancelled") is True
    failed = bool(row.get("error")) or latency_ms is None
    outcome = "unfinished" if canceled else "model_error" if failed else "ok"
    input_tokens = whole(_metric(row, "input_sequence_length"))
    return replace(
        _record(index, start_ns, end_ns, outcome, input_tokens, whole(_metric(row, "output_sequence_length"))),
        first_token_ns=None if first_ms is None or failed else start_ns + round(first_ms * NS_PER_MS),
        error_message=text(error.get("message")) or text(row.get("error")),
        turn=whole(metadata.get("turn_index")) or 0,
    )


def _metric(row: Request, name: str) -> float | None:
    """In the unit AIPerf exports per request: ms or tokens."""
    return number(mapping(row, "metrics", name).get("value"))


def _vllm(document: Mapping[str, Any]) -> list[RequestRecord] | None:
    columns = [document[name] for name in ("start_times", "ttfts", "itls", "output_lens")]
    inputs = document.get("input_lens") or [None] * len(columns[0])
    errors = document.get("errors") or [""] * len(columns[0])
    if len({len(column) for column in (*columns, inputs, errors)}) != 1 or not columns[0]:
        return None
    zero_s = min(columns[0])
    return [
        _vllm_record(index, start_s - zero_s, ttft_s, gaps_s, tokens, given, error)
        for index, (start_s, ttft_s, gaps_s, tokens, given, error) in enumerate(
            zip(*columns, inputs, errors, strict=True)
        )
    ]


def _vllm_record(
    index: int, start_s: float, ttft_s: float, gaps_s: Sequence[float], tokens: int, given: int | None, error: str
) -> RequestRecord:
    """Every gap is in the file: E2E is TTFT and all of them."""
    start_ns = round(start_s * NS_PER_S)
    times_ns = [start_ns + round(ttft_s * NS_PER_S)]
    for gap_s in gaps_s:
        times_ns.append(times_ns[-1] + round(gap_s * NS_PER_S))
    if error or not tokens:
        record = _record(index, start_ns, times_ns[-1], "model_error", given, None)
        return replace(record, error_message=error or "no token came")
    return replace(
        _record(index, start_ns, times_ns[-1], "ok", given, tokens),
        first_token_ns=times_ns[0],
        last_token_ns=times_ns[-1],
        token_times_ns=tuple(times_ns),
        tokens_at=(1,) * len(times_ns),
    )


def _guidellm(entry: Request) -> list[RequestRecord] | None:
    """At a rate a request was due at its `targeted_start`; other strategies send as soon as they can."""
    totals, requests = mapping(entry, "metrics", "request_totals"), mapping(entry, "requests")
    found = [(row, kind) for kind in ("successful", "errored") for row in _rows(requests.get(kind)) if _timings(row)]
    if not found or len(found) != sum(whole(totals.get(kind)) or 0 for kind in ("successful", "errored")):
        return None
    at_a_rate = guidellm_strategy(entry).get("type_") in ("constant", "poisson", "trace")
    starts = [(_due_s(row, at_a_rate), row, kind) for row, kind in found]
    zero_s = min(due_s for due_s, _, _ in starts)
    starts.sort(key=lambda one: one[0])
    return [_guidellm_record(index, due_s, zero_s, row, kind) for index, (due_s, row, kind) in enumerate(starts)]


def _rows(value: object) -> list[Request]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _timings(row: Request) -> Request | None:
    """Its instants (Unix seconds), where it has the two that are needed."""
    timings = mapping(row, "info", "timings")
    known = number(timings.get("request_start")) is not None and number(timings.get("request_end")) is not None
    return timings if known else None


def _due_s(row: Request, at_a_rate: bool) -> float:
    timings = mapping(row, "info", "timings")
    targeted = number(timings.get("targeted_start")) if at_a_rate else None
    return targeted if targeted is not None else number(timings.get("request_start")) or 0.0


def _guidellm_record(index: int, due_s: float, zero_s: float, row: Request, kind: str) -> RequestRecord:
    timings, ok = mapping(row, "info", "timings"), kind == "successful"

    def since_zero_ns(name: str) -> int | None:
        at_s = number(timings.get(name))
        return None if at_s is None else round((at_s - zero_s) * NS_PER_S)

    start_ns, end_ns = round((due_s - zero_s) * NS_PER_S), since_zero_ns("request_end") or 0
    output_tokens, sent_ns = whole(row.get("output_tokens")) if ok else None, since_zero_ns("request_start")
    outcome = "ok" if ok else "model_error"
    return replace(
        _record(index, start_ns, end_ns, outcome, whole(row.get("prompt_tokens")), output_tokens),
        dispatched_ns=sent_ns or 0,
        sent_ns=sent_ns,
        first_token_ns=since_zero_ns("first_token_iteration") if ok else None,
        error_message=text(mapping(row, "info").get("error")),
        turn=whole(mapping(row, "info").get("turn_index")) or 0,
    )


def _record(
    index: int, start_ns: int, end_ns: int, outcome: str, input_tokens: int | None, output_tokens: int | None
) -> RequestRecord:
    """`intended` is when it was sent, unless its file says when it was due."""
    return replace(
        bare_record(index, start_ns, end_ns, outcome),
        sent_ns=start_ns,
        planned_input_tokens=input_tokens or 0,
        planned_output_tokens=output_tokens or 0,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        token_source="none" if output_tokens is None else "server",
    )
