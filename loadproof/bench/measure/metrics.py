"""What one load level measured. Every metric: its name, unit and formula, from records alone.

All latencies are of successful requests and count from the *intended* send time, so that a client that sends late
cannot hide it. A failed request is in the error figures and in no latency.

- **TTFT** (ms) = first token − intended send. Streaming only.
- **ITL** (ms) = gap between two instants at which tokens came, one sample a gap, pooled over requests. Tokens that come
  together (a chunk of several, or chunks in one read) end one gap: it is neither divided among them, which would hide
  a stall behind a large chunk, nor followed by gaps of 0, which would dilute the percentiles.
- **TPOT** (ms) = (E2E − TTFT) / (output tokens − 1), one sample a request; needs two tokens or more.
- **E2E** (ms) = end of the answer − intended send.
- **duration** (s) = first intended send to last end; over the sessions of a resumed level, their sum.
- **output (input) tokens/s** = Σ tokens of successful requests / duration.
- **requests/s** = successful requests / duration.
- **goodput** (requests/s) = successful requests that met every latency objective, their class's own among them, each
  bound taken as a bound on
  the request's own value (for ITL: on the same percentile of its own gaps) / duration.
- **loop lag** (ms) = how late the client's event loop was, at ticks of 5 ms while requests were under way
  (`loop_probe`): the delay that a read or a send at a random moment met.
- **lag** (ms) = dispatched − intended send, of every request: what the generator itself added. Opening a connection
  is the network's time: it is in the latencies, not in the lag.
- **client's share** (ms) = a latency's statistic as counted − the same without what the client itself may have added to
  each request (`client_share`).
- **offered** (share) = the load that was really there over the load asked for (`client_share.offered`).
- **mean in flight** = Σ (end − intended send) / duration: below the level's concurrency by its ramp and its tail.
- **asked, answered tokens** = mean output tokens asked for and given, of successful requests whose count is known.
- **error rate** (share) = failed / finished requests.
- **cost per million output tokens** (USD) = USD per hour / 3600 / output tokens per second · 10⁶; **per million
  tokens** the same over output and input tokens; **per 1,000 requests** = USD per hour / 3600 / requests/s · 1,000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np

from loadproof.bench.measure.client_share import (
    NS_PER_MS,
    ClientShare,
    may_be_the_clients,
    offered,
    widths,
)
from loadproof.bench.measure.latencies import (
    NS_PER_S,
    PER_REQUEST,
    itl_gaps_ns,
    lag_ms,
    pooled,
    same_at_both_ends,
)
from loadproof.bench.measure.loop_probe import TICK_NS
from loadproof.bench.measure.records import MISSING, RequestRecord
from loadproof.bench.measure.statistics import Spread, percentile, spread, spread_above_zeros
from loadproof.bench.objectives import LATENCY_METRICS, Objective
from loadproof.invocation.outcomes import OutcomeKind
from loadproof.usd import usd_per_million_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMetrics:
    """One level of the sweep. `requests` finished (well or badly); `unfinished` were cut off when the run stopped."""

    concurrency: int
    """requests in flight; of an open loop the measured mean, rounded"""
    requests: int | None
    """measured ones"""
    errors: int
    """that failed"""
    errors_by_kind: Mapping[str, int]
    """how many of each kind"""
    error_examples: Mapping[str, str] = field(default_factory=dict)
    """of each kind, what the endpoint said the first time"""
    unfinished: int
    """no answer when the drain was over"""
    duration_s: float | None
    """from the first intended send to the last end"""
    ttft_ms: Spread
    """time to first token: a [distribution](#a-distribution)"""
    itl_ms: Spread
    """gaps between tokens: a [distribution](#a-distribution)"""
    tpot_ms: Spread
    """time per output token after the first: a [distribution](#a-distribution)"""
    e2e_ms: Spread
    """whole requests: a [distribution](#a-distribution)"""
    lag_ms: Spread
    """how late requests left: a [distribution](#a-distribution)"""
    loop_lag_ms: Spread = field(default_factory=Spread)
    """how late the event loop was: a [distribution](#a-distribution)"""
    output_tokens_per_s: float | None
    """of successful requests"""
    input_tokens_per_s: float | None
    """of successful requests"""
    requests_per_s: float | None
    """successful ones"""
    goodput_per_s: float | None
    """successful ones inside every latency bound"""
    cost_per_million_output_tokens_usd: float | None
    """from the instances' hourly price"""
    mean_in_flight: float | None = None
    """over the level"""
    tokens_per_arrival: float | None = None
    """how many tokens came at once, on average"""
    token_source: Literal["server", "chunks", "none"]
    """who counted output tokens"""
    input_token_source: Literal["server", "tokenizer", "estimate", "none"] = "none"
    """who counted input tokens"""
    missing: int = 0
    """of the unfinished: of lost workers or hosts"""
    error_rate: float | None = None
    """share that failed"""
    cost_per_million_tokens_usd: float | None = None
    """input and output"""
    cost_per_thousand_requests_usd: float | None = None
    """of successful requests"""
    merged_first_tokens: int | None = 0
    """requests whose TTFT may be too long: read together with later tokens"""
    asked_output_tokens: float | None = None
    """mean"""
    answered_output_tokens: float | None = None
    """mean of the same requests"""
    wrong_counts: int | None = 0
    """answers whose server counted tokens that cannot be"""
    load: str | None = None
    """an open loop's, in words"""
    offered: float | None = None
    """share of the load asked for that was really there; null: not known"""
    client_share: ClientShare = field(default_factory=ClientShare)
    """what the client itself may have added to each latency"""
    errors_while_away: int = 0
    """time-outs and broken connections while the client itself stood still: they may be its own"""

    @property
    def place(self) -> str:
        """Where on the curve: `8 in flight`, `poisson 2 requests/s`."""
        return self.load or f"{self.concurrency} in flight"


_NO_CLASSES: Mapping[str, Sequence[Objective]] = MappingProxyType({})
_MAYBE_OURS = (OutcomeKind.TIMEOUT, OutcomeKind.CONNECTION)


def duration_s(records: Sequence[RequestRecord]) -> float | None:
    """First intended send to last end, summed over sessions: the pause before a resume is nobody's latency."""
    total_ns = 0
    for session in {record.session for record in records}:
        ours = [record for record in records if record.session == session]
        total_ns += max(record.end_ns for record in ours) - min(record.intended_ns for record in ours)
    return total_ns / NS_PER_S if total_ns > 0 else None


def is_good(
    record: RequestRecord, objectives: Sequence[Objective], of_classes: Mapping[str, Sequence[Objective]] = _NO_CLASSES
) -> bool:
    """The request succeeded and its own latencies are inside every latency bound, its class's too."""
    if not record.ok:
        return False
    for objective in (*objectives, *of_classes.get(record.part, ())):
        if objective.latency is None:
            continue
        metric, rank_percent = objective.latency
        if metric == "itl":
            value = percentile(itl_gaps_ns(record), rank_percent, NS_PER_MS)
        else:
            value = PER_REQUEST[metric](record)
        if value is None and metric in ("itl", "tpot") and record.output_tokens == 1:
            continue  # one token has no gap that could be too long
        if value is None or not objective.met_by(value):
            return False
    return True


def measure_level(
    concurrency: int,
    records: Sequence[RequestRecord],
    objectives: Sequence[Objective] = (),
    usd_per_hour: float | None = None,
    load: str | None = None,
    of_classes: Mapping[str, Sequence[Objective]] = _NO_CLASSES,
) -> LevelMetrics:
    """Every metric of one level. `records`: its measured ones, each planned request once, in any order.

    `load` names an open loop, which has no fixed concurrency: its mean in flight stands there, rounded, at least 1.
    `of_classes`: objectives that hold for a class's requests beside all others'.
    """
    finished = [record for record in records if record.finished]
    succeeded = [record for record in finished if record.ok]
    failed = [record for record in finished if not record.ok]
    seconds = duration_s(finished)
    output_per_s = _rate(_total_output(succeeded), seconds)
    input_per_s = _rate(_total_input(succeeded), seconds)
    requests_per_s = _rate(len(succeeded), seconds)
    tokens_per_s = None if output_per_s is None or input_per_s is None else output_per_s + input_per_s
    per_million_requests = usd_per_million_tokens(usd_per_hour, requests_per_s)
    known = [record for record in succeeded if record.output_tokens is not None]
    in_flight = _rate(sum(record.end_ns - record.intended_ns for record in finished) / NS_PER_S, seconds)
    latencies = {f"{metric}_ms": pooled(metric, succeeded).spread_ms() for metric in LATENCY_METRICS}
    return LevelMetrics(
        concurrency=concurrency if load is None else max(1, round(in_flight or 0)),
        requests=len(finished),
        errors=len(failed),
        errors_by_kind=dict(sorted(Counter(record.outcome for record in failed).items())),
        error_examples=_first_messages(failed),
        unfinished=len(records) - len(finished),
        missing=sum(record.outcome == MISSING for record in records),
        duration_s=seconds,
        **latencies,
        lag_ms=spread(np.asarray([lag_ms(record) for record in finished], dtype=np.float64)),
        loop_lag_ms=_loop_lag_ms(finished),
        output_tokens_per_s=output_per_s,
        input_tokens_per_s=input_per_s,
        requests_per_s=requests_per_s,
        goodput_per_s=_rate(sum(is_good(record, objectives, of_classes) for record in succeeded), seconds),
        error_rate=len(failed) / len(finished) if finished else None,
        cost_per_million_output_tokens_usd=usd_per_million_tokens(usd_per_hour, output_per_s),
        cost_per_million_tokens_usd=usd_per_million_tokens(usd_per_hour, tokens_per_s),
        cost_per_thousand_requests_usd=None if per_million_requests is None else per_million_requests / 1000,
        mean_in_flight=in_flight,
        tokens_per_arrival=_tokens_per_arrival(succeeded),
        merged_first_tokens=sum(record.first_token_early_max_ns is not None for record in succeeded),
        asked_output_tokens=_rate(sum(record.planned_output_tokens for record in known), len(known) or None),
        answered_output_tokens=_rate(_total_output(known), len(known) or None),
        wrong_counts=sum(record.disbelieved_output_tokens is not None for record in succeeded),
        token_source=_output_source(succeeded),
        input_token_source=_input_source(succeeded),
        load=load,
        offered=offered(finished, is_open=load is not None),
        client_share=ClientShare(
            **{f"{metric}_ms": _share_of(metric, latencies[f"{metric}_ms"], succeeded) for metric in LATENCY_METRICS}
        ),
        errors_while_away=sum(record.outcome in _MAYBE_OURS and may_be_the_clients(record) for record in failed),
    )


def _share_of(metric: str, counted: Spread, succeeded: Sequence[RequestRecord]) -> Spread:
    """Between the shortest that its values may have been and the longest."""
    if same_at_both_ends(metric, succeeded):
        return widths(counted, counted)
    longest = pooled(metric, succeeded, "longest").spread_ms() if metric in ("itl", "tpot") else counted
    return widths(longest, pooled(metric, succeeded, "shortest").spread_ms())


def _first_messages(failed: Sequence[RequestRecord]) -> dict[str, str]:
    messages: dict[str, str] = {}
    for record in sorted(failed, key=lambda record: record.end_ns):
        said = ": ".join(part for part in (record.error_code, record.error_message) if part)
        messages.setdefault(record.outcome, said)
    return dict(sorted(messages.items()))


def _loop_lag_ms(finished: Sequence[RequestRecord]) -> Spread:
    """One sample for each tick due during each request; a tick that was on time (within a timer's slack) is 0."""
    late_ns = [np.asarray(record.stalls_ns, dtype=np.float64) for record in finished]
    late_ms = np.concatenate([np.empty(0), *late_ns]) / NS_PER_MS
    ticks = sum((record.end_ns - record.intended_ns) // TICK_NS for record in finished)
    return spread_above_zeros(max(0, ticks - late_ms.size), late_ms)


def _rate(amount: float | None, seconds: float | None) -> float | None:
    return None if amount is None or seconds is None else round(amount / seconds, 9)


def _total_output(succeeded: Sequence[RequestRecord]) -> int | None:
    """Σ output tokens; None when some answer's count is unknown, since a part is not the total."""
    counts = [record.output_tokens for record in succeeded]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _total_input(succeeded: Sequence[RequestRecord]) -> int:
    """Σ input tokens: the server's count where it gives one, else the workload's estimate."""
    return sum(
        record.planned_input_tokens if record.input_tokens is None else record.input_tokens for record in succeeded
    )


def _output_source(succeeded: Sequence[RequestRecord]) -> Literal["server", "chunks", "none"]:
    """The weakest source used: one answer counted by chunks makes the level's count a count of chunks."""
    sources = {record.token_source for record in succeeded}
    if not sources or "none" in sources:
        return "none"
    return "chunks" if "chunks" in sources else "server"


def _input_source(succeeded: Sequence[RequestRecord]) -> Literal["server", "tokenizer", "estimate", "none"]:
    if not succeeded:
        return "none"
    if all(record.input_tokens is not None for record in succeeded):
        return "server"
    return "tokenizer" if all(record.counted_by == "tokenizer" for record in succeeded) else "estimate"


def _tokens_per_arrival(succeeded: Sequence[RequestRecord]) -> float | None:
    arrivals = sum(itl_gaps_ns(record).size + 1 for record in succeeded if record.token_times_ns)
    tokens = sum(sum(record.tokens_at) for record in succeeded)
    return round(tokens / arrivals, 6) if arrivals else None
