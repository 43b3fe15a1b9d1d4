"""A plan's brief: does the profile keep its promise, what does it cost, how sure is that, what next; *predicted*."""

from __future__ import annotations

from loadproof.advice.alternatives import Alternative, Alternatives
from loadproof.advice.page import wording
from loadproof.capacity import Plan
from loadproof.capacity.cost import price_place
from loadproof.pages.brief import Brief, in_a_command
from loadproof.pages.wording import counted, usd
from loadproof.usd import usd_per_month


def brief_of(plan: Plan, alternatives: Alternatives | None = None, profile: str = "") -> Brief:
    """`profile`: as the command line takes it, for the commands that are named; default: the plan's own name."""
    named = in_a_command(profile or plan.profile_name)
    _, word, _ = wording.MARKS[wording.outcome(plan)]
    return Brief(
        promise=f"{word}: {wording.sentence(plan)}",
        cost=_cost(plan),
        sure=_sure(plan),
        next=_next(plan, alternatives, named),
    )


def _cost(plan: Plan) -> str:
    """`4,096 USD at the expected load (2 instances); 16,367 USD at the most (8)`, then whose prices."""
    cost, machine = plan.cost, plan.deployment.instance
    fewest, expected, most = map(
        usd_per_month, (cost.usd_per_hour_min, cost.usd_per_hour_expected, cost.usd_per_hour_max)
    )
    if fewest is None or most is None:
        asked = "`loadproof catalog audit` has the command that asks AWS for it"
        return f"not known: the catalog has no on-demand price of {machine.instance_type}; {asked}"
    parts = []
    if expected is not None and cost.instances_expected is not None:
        parts.append(f"{usd(expected)} at the expected load ({counted(cost.instances_expected, 'instance')})")
    if cost.instances_min != cost.instances_expected:
        parts.append(f"{usd(fewest)} at the least ({cost.instances_min:,})")
    if cost.instances_max != (cost.instances_expected or cost.instances_min):
        parts.append(f"{usd(most)} at the most ({cost.instances_max:,})")
    note = f"; {cost.expected_note}" if cost.expected_note else ""
    return f"{'; '.join(parts)}{note}. {price_note(plan)}"


def price_note(plan: Plan) -> str:
    """`On-demand price of us-west-2, seen 2026-08-17 (`loadproof catalog show ml.g5.2xlarge`).`"""
    machine = plan.deployment.instance
    source = f"`loadproof catalog show {machine.instance_type}`"
    derived = ", derived" if machine.price_derived else ""
    return f"On-demand price of {price_place(machine)}{derived} ({source})."


def _sure(plan: Plan) -> str:
    """The grade, what it means and how far figures may be off."""
    confidence, level = plan.confidence, plan.at_objectives
    later_ms = confidence.ttft_on_top_ms
    on_top = f" and up to {later_ms:,.0f} ms later, between client and server" if later_ms else ""
    if level is not None and level.near_limit:
        factor = 1 + max(confidence.near_limit_band, confidence.ttft_band)
        on_top += (
            f"; at {level.concurrency:,} in flight a little memory decides whether requests wait, so there E2E "
            f"percentiles are within {1 + confidence.near_limit_band:.2f} and TTFT within {factor:.2f}"
        )
    return (
        f"grade {plan.grade}, {confidence.meaning}; throughput and latency within a factor of "
        f"{1 + confidence.band:.2f}, TTFT within {1 + confidence.ttft_band:.2f}{on_top}. Predicted, not measured."
    )


def _next(plan: Plan, alternatives: Alternatives | None, named: str) -> str:
    prove = f"deploy it, then prove it: `loadproof bench {named}`"
    found = _recommended(alternatives)
    if found is None:
        kept = wording.outcome(plan) in ("meets", "fits", "near", "unknown")
        return prove if kept else "raise the tensor parallel degree, take a larger accelerator, or quantize the weights"
    if found.is_own:
        return f"nothing better was found; {prove}"
    change = f"`loadproof plan {named} --write --dry-run`"
    return f"look at {_of(found)}{_saving(plan, found)}: {change}"


def _recommended(alternatives: Alternatives | None) -> Alternative | None:
    if alternatives is None:
        return None
    goal = alternatives.goal
    return next((one.alternative for one in alternatives.recommendations if one.goal == goal), None)


def _of(found: Alternative) -> str:
    words = {"meets": "which meets the objectives", "near": "whose objectives are in doubt"}
    does = words.get(found.objectives, f"whose outlook is {found.objectives}")
    return f"{found.instances} × {found.instance_type} with {found.family}, {does}"


def _saving(plan: Plan, found: Alternative) -> str:
    own, other = usd_per_month(plan.cost.usd_per_hour_min), usd_per_month(found.usd_per_hour)
    if own is None or other is None or round(own - other) == 0:
        return ""
    word = "less" if other < own else "more"
    return f" and costs {usd(abs(own - other))} a month {word}"
