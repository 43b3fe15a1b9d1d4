"""A profile's simulation as plain data: what `loadproof simulate --format json` prints. All of it is predicted."""

from __future__ import annotations

from typing import Any

from loadproof.simulation.profile import ProfileSimulation
from loadproof.simulation.results import Latencies

PERCENTILES = (50, 90, 95, 99)


def simulation_document(made: ProfileSimulation) -> dict[str, Any]:
    """Versioned by `schema_version`; None where nothing was served. Times count from the start."""
    summary = made.summary
    return {
        "schema_version": 1,
        "predicted": True,
        "profile": made.profile_name,
        "traffic": made.traffic,
        "minutes": made.minutes,
        "requests": {
            "served": summary.requests,
            "refused": summary.refused,
            "timed_out": summary.timed_out,
            "met_objectives": summary.good,
        },
        "ttft_ms": latencies(summary.ttft),
        "tpot_ms": latencies(summary.tpot),
        "e2e_ms": latencies(summary.e2e),
        "sessions": list(made.sessions),
        "classes": {
            part.name: {
                "requests": part.ttft.count,
                "ttft_ms": latencies(part.ttft),
                "tpot_ms": latencies(part.tpot),
                "e2e_ms": latencies(part.e2e),
                "bounds": [{"name": name, "bound": bound, "predicted": part.at(name)} for name, bound in part.bounds],
            }
            for part in made.parts
        },
        "requests_per_s": summary.requests_per_s,
        "goodput_per_s": summary.goodput_per_s,
        "output_tokens_per_s": summary.output_tokens_per_s,
        "routing": made.routing,
        "found_in_caches": made.routed.found_share if made.routed.prompt_tokens else None,
        "busiest_copy": made.routed.busiest_share if made.routed.prompt_tokens else None,
        "clients_give_up_after_s": made.limit_s,
        "start_up": {"instance_s": made.start_up.instance_s, "copy_s": made.start_up.copy_s},
        "instance_hours": made.instance_hours,
        "cost_usd": made.cost_usd,
        "price": made.price,
        "copies": [row._asdict() for row in made.history],
        "windows": [
            {
                "start_ms": row.start_ms,
                "end_ms": row.end_ms,
                "sent": row.sent,
                "served": row.served,
                "refused": row.refused,
                "timed_out": row.timed_out,
                "ttft_p50_ms": row.ttft.percentile_ms(50),
                "ttft_p95_ms": row.ttft.percentile_ms(95),
                "copies": row.copies,
                "instances": row.instances,
            }
            for row in made.windows
        ],
        "notes": list(made.notes),
    }


def latencies(found: Latencies) -> dict[str, float | None]:
    """Mean, percentiles and the largest."""
    return {
        "mean": found.mean_ms,
        **{f"p{percent}": found.percentile_ms(percent) for percent in PERCENTILES},
        "max": found.max_ms,
    }
