"""Summaries with what every version wrote: of what is said here the rest is no data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadproof.bench.document import Summary, summary_of

NO_SPREAD: dict[str, Any] = dict.fromkeys(("p50", "p90", "p95", "p99", "mean", "max"))
LEVEL: dict[str, Any] = {
    "requests": 0, "errors": 0, "errors_by_kind": {}, "unfinished": 0, "duration_s": None, "ttft_ms": NO_SPREAD,
    "itl_ms": NO_SPREAD, "tpot_ms": NO_SPREAD, "e2e_ms": NO_SPREAD, "lag_ms": NO_SPREAD, "output_tokens_per_s": None,
    "input_tokens_per_s": None, "requests_per_s": None, "goodput_per_s": None,
    "cost_per_million_output_tokens_usd": None, "token_source": "none", "valid": True, "invalid_reasons": [],
}  # fmt: skip
OBJECTIVE: dict[str, Any] = {
    "comparison": "<=", "observed": None, "low": None, "high": None, "margin": None, "verdict": "INCONCLUSIVE",
}  # fmt: skip
POINT: dict[str, Any] = dict.fromkeys(("ttft_ms", "tpot_ms", "e2e_ms", "output_tokens_per_s", "requests_per_s"))
TARGET: dict[str, Any] = {
    "kind": "sagemaker", "endpoint": "demo", "component": None, "endpoint_url": None, "region": None,
    "protocol": "tgi", "streaming": True,
}  # fmt: skip
PROFILE = {"name": "chat", "file": "chat.yaml", "sha256": "0" * 64, "environment": "dev"}
SUMMARY: dict[str, Any] = {
    "schema_version": 1, "run_id": "r", "created_utc": "2026-11-21T10:15:00Z", "loadproof_version": "0.1.0",
    "target": {}, "profile": None, "workload": {}, "conditions": {}, "levels": [], "knee": None, "predicted": None,
    "objectives": [], "verdict": {},
}  # fmt: skip


def whole(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with every key that the first version wrote."""
    said = SUMMARY | dict(document)
    predicted, knee = said["predicted"], said["knee"]
    return said | {
        "target": TARGET | said["target"],
        "profile": PROFILE | said["profile"] if said["profile"] else None,
        "workload": {"input_tokens": 9, "output_tokens": 9, "seed": 0} | said["workload"],
        "levels": [LEVEL | level for level in said["levels"]],
        "knee": {"rule": "marginal gain", "reason": "of a test"} | knee if knee else None,
        "predicted": {"grade": "C"} | predicted | {"levels": [POINT | one for one in predicted["levels"]]}
        if predicted
        else None,
        "objectives": [OBJECTIVE | one for one in said["objectives"]],
        "verdict": {"outcome": "PASS", "at_concurrency": 1, "reasons": []} | said["verdict"],
    }


def a_summary(**said: Any) -> Summary:
    return summary_of(whole(said), "summary.json")
