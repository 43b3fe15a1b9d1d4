"""AWS/Bedrock, by ModelId: the id, cross-region profile or application profile that the caller named.

Units are CloudWatch's. Invocations are requests that were answered; throttled ones are neither those nor errors.
TimeToFirstToken is of streams. EstimatedTPMQuotaUsage is each request's own quota tokens: their Sum over a minute
stands against the quota. Source: Bedrock user guide, monitoring-runtime-metrics.
"""

from __future__ import annotations

from collections.abc import Callable

from loadproof.localcloud.bedrock.payloads.parsed import ParsedRequest, Timing
from loadproof.localcloud.wire import Caller

Record = Callable[[Caller, str, str, float, str], None]


class Metrics:
    """`record(caller, name, model_id, value, unit)` puts one datum, now."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def answered(self, caller: Caller, model_id: str, parsed: ParsedRequest, timing: Timing, *, streamed: bool) -> None:
        rows = [
            ("Invocations", 1.0, "Count"),
            ("InvocationLatency", timing.last_token_ms, "Milliseconds"),
            ("InputTokenCount", float(parsed.input_tokens), "Count"),
            ("OutputTokenCount", float(parsed.output_tokens), "Count"),
        ]
        if streamed:
            rows.append(("TimeToFirstToken", timing.first_token_ms, "Milliseconds"))
        for name, value, unit in rows:
            self._record(caller, name, model_id, value, unit)

    def failed(self, caller: Caller, model_id: str, metric: str) -> None:
        self._record(caller, metric, model_id, 1.0, "Count")

    def quota_used(self, caller: Caller, model_id: str, tokens: float) -> None:
        self._record(caller, "EstimatedTPMQuotaUsage", model_id, tokens, "Count")
