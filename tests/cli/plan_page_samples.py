"""Plans whose pages the tests look at: one that does not fit, one without a price, alternatives made up, and others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from loadproof.advice.alternatives import GOALS, Alternative, Alternatives, Range, Recommendation
from loadproof.advice.changes import KeyChange, changed
from loadproof.capacity import Plan, make_plan
from loadproof.profiles import load_profile

PROFILES = Path(__file__).parents[2] / "deploy_profiles"
HOSTILE = ["</script><b>x", '"><img src=x onerror=alert(1)>', "\u202eexe", "W" * 10_000]


def plan_of(profile: str, *changes: KeyChange) -> Plan:
    """The plan of a repository's profile (`dev/llama-3-1-8b`), changed."""
    return make_plan(changed(load_profile(PROFILES / f"{profile}.yaml"), changes))


def on(instance_type: str) -> KeyChange:
    return KeyChange(("endpoint", "instance_type"), None, instance_type)


def not_fitting() -> Plan:
    """8B parameters in bf16 on a T4 of 15 GiB."""
    return plan_of("dev/llama-3-1-8b", on("ml.g4dn.xlarge"))


def unpriced() -> Plan:
    """The catalog knows no price of a g7."""
    return plan_of("dev/llama-3-1-8b", on("ml.g7.2xlarge"))


def many_levels() -> Plan:
    """Twenty levels up to thousands in flight: far more numbers than a picture has room for."""
    profile = load_profile(PROFILES / "local-vllm" / "tiny-llama.yaml")
    levels = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)
    return make_plan(
        profile.model_copy(update={"benchmark": profile.benchmark.model_copy(update={"concurrency": levels})})
    )


def hostile() -> Plan:
    plan = plan_of("dev/llama-3-1-8b")
    return replace(
        plan,
        profile_name=HOSTILE[0],
        deployment=replace(plan.deployment, model_id=HOSTILE[3], version=HOSTILE[1]),
        notes=tuple(HOSTILE),
    )


def alternative(instance_type: str, usd: float | None, objectives: str, *, own: bool = False) -> Alternative:
    """A made-up row; its cost per million tokens is half its price, so that a test can tell rows apart."""
    known = usd is not None
    return Alternative(
        instance_type=instance_type,
        accelerator="L40S",
        tensor_parallel_degree=1,
        copies_per_instance=1,
        instances=1,
        copies=1,
        family="tgi",
        version="3.3.6",
        is_own=own,
        fits="yes",
        grade="B",
        at_objectives=None,
        ttft_ms=Range(70.0, 47.0, 105.0),
        tpot_ms=Range(27.0, 21.6, 33.8),
        e2e_ms=Range(1340.0, 1072.0, 1675.0),
        knee_concurrency=32,
        knee_reached=True,
        knee_output_tokens_per_s=Range(640.0, 512.0, 800.0),
        usd_per_hour=usd,
        usd_per_million_tokens=Range(usd / 2, usd / 3, usd) if known else None,
        price_derived=False,
        objectives=objectives,  # type: ignore[arg-type]
        outlook=(),
        dominated=False,
        changes=(),
        notes=(),
    )


def alternatives() -> Alternatives:
    """Four rows: dearer that meets (the profile itself), cheaper that misses, one near, one of unknown price."""
    rows = (
        alternative("ml.g6e.2xlarge", 2.8, "meets", own=True),
        alternative("ml.g5.xlarge", 1.4, "misses"),
        alternative("ml.g6.xlarge", 2.1, "near"),
        alternative("ml.g7.2xlarge", None, "unknown"),
    )
    recommendations = tuple(Recommendation(goal, rows[0], "the cheapest of those that meet them") for goal in GOALS)
    return Alternatives(
        goal=GOALS[-1],
        ranked=rows,
        recommendations=recommendations,
        considered=87,
        do_not_fit=21,
        fit_marginally=3,
        cannot_serve=5,
        dominated=44,
        notes=("made up for a test",),
    )
