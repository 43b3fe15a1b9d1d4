"""How the page says things: the verdict in one word and one sentence, objectives, remarks on a level."""

from __future__ import annotations

from loadproof.advice.alternatives import Alternative, Alternatives
from loadproof.advice.page.levels import Row, knees_by_level
from loadproof.capacity import Knee, Plan
from loadproof.capacity.outlook import ObjectiveOutlook
from loadproof.pages.wording import NO_DATA, bound_text, number, objective_title, objective_value, on_a_bar

# Word and shape, so that no meaning hangs on colour; the classes are those of the benchmark report.
MARKS = {
    "meets": ("✓", "MEETS", "pass"),
    "near": ("≈", "NEAR", "inconclusive"),
    "misses": ("✗", "MISSES", "fail"),
    "unknown": ("?", "UNKNOWN", "inconclusive"),
    "fits": ("✓", "FITS", "pass"),
    "marginal": ("≈", "BARELY FITS", "inconclusive"),
    "no": ("✗", "DOES NOT FIT", "fail"),
    "unserved": ("✗", "CANNOT BE SERVED", "fail"),
}


def outcome(plan: Plan) -> str:
    """The key of MARKS for the whole plan: the worst of memory and objectives."""
    if plan.memory.fits == "no":
        return "no"
    if plan.at_objectives is None:
        return "unserved"
    expected = {row.expected for row in plan.outlook}
    if "misses" in expected:
        return "misses"
    if plan.memory.fits == "marginal":
        return "marginal"
    for key in ("near", "unknown"):
        if key in expected:
            return key
    return "meets" if expected else "fits"


def sentence(plan: Plan) -> str:
    """What the outcome means here, with the figure that decides."""
    key, memory, where = outcome(plan), plan.memory, f"at {plan.objectives_at:,} in flight"
    if key == "no":
        return (
            f"One request of {memory.longest_request_tokens:,} tokens is predicted to be "
            f"{number(-memory.margin_gib)} GiB short on each {plan.deployment.accelerator.name}."
        )
    if key == "unserved":
        return f"Fits, but no request of {plan.input_tokens:,} + {plan.output_tokens:,} tokens is admitted {where}."
    if key == "marginal":
        return (
            f"Predicted to fit with {number(memory.margin_gib)} GiB to spare on each accelerator, less than the "
            f"prediction itself is sure of."
        )
    deciding = [row for row in plan.outlook if row.expected == key]
    if not deciding:
        return f"Predicted to fit with {number(memory.margin_gib)} GiB to spare on each accelerator; no objectives set."
    worst = min(deciding, key=lambda row: (row.bound == 0, _margin(row)))
    return _about(worst, key, len(deciding), where)


def _about(worst: ObjectiveOutlook, key: str, count: int, where: str) -> str:
    title, limit = objective_title(worst.name, worst.part), bound(worst)
    value = f"{objective_value(worst.name, worst.predicted)} ({interval(worst)})"
    more = f"; {count - 1} more like it" if count > 1 else ""
    if key == "misses":
        return f"{title} is predicted at {value} {where}, outside {limit}{more}."
    if key == "near":
        return f"{title} is predicted at {value} {where}: {limit} lies within that range{more}."
    if key == "unknown":
        return f"Nothing is predicted for {title} {where}{more}."
    objectives = "The one objective is" if count == 1 else f"All {count} objectives are"
    return f"{objectives} predicted to be met {where}; the closest is {title} with {value}, bound {limit}."


def _margin(row: ObjectiveOutlook) -> float:
    """Room to the bound relative to it; what has no figure comes first."""
    if row.predicted is None:
        return float("-inf")
    room = row.predicted - row.bound if row.comparison == ">=" else row.bound - row.predicted
    return room / row.bound if row.bound else room


def bound(row: ObjectiveOutlook) -> str:
    """`≤ 500 ms`."""
    return bound_text(row.name, row.comparison, row.bound).replace(" ", "\N{NO-BREAK SPACE}", 1)


def interval(row: ObjectiveOutlook) -> str:
    """`210 to 474 ms`: the predicted range."""
    if row.low is None or row.high is None:
        return NO_DATA
    low, high = (objective_value(row.name, value) for value in (row.low, row.high))
    return f"{low.split(' ')[0]} to {high}"


def remarks(plan: Plan, row: Row) -> str:
    """What sets a level apart: judged, knee, refusals, the 60 s limit."""
    level = row.level
    said = ["objectives are set here"] if level.concurrency == plan.objectives_at else []
    said += [f"knee ({rule})" for rule in knees_by_level(plan).get(level.concurrency, [])]
    if level.refused:
        said.append(f"{level.refused:,} refused")
    if level.over_60_s:
        said.append("over 60 s" if plan.streaming else "over 60 s: SageMaker closes it; stream")
    if not row.listed and not said:
        said.append("not a level of the benchmark")
    return ", ".join(said)


def knee_place(knee: Knee) -> str:
    """Where a rule found the knee, or that it did not."""
    if not knee.reached:
        return f"not up to {knee.concurrency:,}"
    return f"{knee.concurrency:,}" if knee.concurrency else "none"


def invocation_limit(plan: Plan) -> str:
    """What SageMaker's 60 s limit means here, in a sentence; empty where nothing is known."""
    limit = plan.invocation_limit
    if limit is None:
        return ""
    many = f"up to {limit.concurrency:,} in flight, 19 in 20 answers end within SageMaker’s {limit.limit_s:,.0f} s"
    if limit.concurrency == 0:
        many = f"even a single request takes longer than SageMaker’s {limit.limit_s:,.0f} s"
    elif not limit.reached:
        many += ", as far as was tried"
    return f"{'Not streamed' if limit.applies else 'Were it not streamed'}: {many}."


def considered(alternatives: Alternatives) -> str:
    """How many ways to serve were predicted, and why most are not shown."""
    reasons = (
        (alternatives.do_not_fit, "not fit"),
        (alternatives.fit_marginally, "fit only within the prediction’s uncertainty"),
        (alternatives.cannot_serve, "not serve the objectives’ level"),
    )
    left_out = [f"{count:,} would {reason}" for count, reason in reasons if count]
    left_out += [f"{alternatives.dominated:,} are beaten in every figure"] if alternatives.dominated else []
    shown = f"{alternatives.considered:,} ways to serve were predicted"
    return f"{shown}: {', '.join(left_out)}." if left_out else f"{shown}."


def serving(alternative: Alternative) -> str:
    """`2 × ml.g6e.2xlarge · TP 1 × 2 · tgi`: instances, then degree × copies, then the server."""
    return (
        f"{alternative.instances} × {alternative.instance_type} · "
        f"TP {alternative.tensor_parallel_degree} × {alternative.copies} · {alternative.family}"
    )


def place(row: ObjectiveOutlook) -> dict[str, float] | None:
    """Where bound, prediction and range stand on a bar of 0..100; None without a figure."""
    if row.predicted is None or row.low is None or row.high is None:
        return None
    return on_a_bar(bound=row.bound, observed=row.predicted, low=row.low, high=row.high)
