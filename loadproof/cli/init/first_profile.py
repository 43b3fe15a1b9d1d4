"""The first profile of a new repository: from a handful of answers, and what the planner makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from loadproof import catalog
from loadproof.advice.alternatives import DEFAULT_GOAL, Alternative
from loadproof.advice.comparison import Constraints, settle
from loadproof.capacity.cost import price_place, priced_elsewhere
from loadproof.cli.plan import write as plan_write
from loadproof.errors import InputError, Problem
from loadproof.loads import MOST_CONCURRENCY
from loadproof.profiles import check_file, load_environment, load_profile, yaml_edit
from loadproof.profiles.schema import Copies, CopiesUpdate
from loadproof.profiles.updates import batch_copies
from loadproof.sizing import requests_for

# Where the search begins, (machine, accelerators a copy): the first that `loadproof check` takes; what it ends
# with is the planner's.
_STARTS = (
    *(("ml.g6e.2xlarge", 1), ("ml.g6.2xlarge", 1), ("ml.g5.2xlarge", 1), ("ml.g6e.12xlarge", 4), ("ml.g5.12xlarge", 4)),
    *(("ml.p4d.24xlarge", 8), ("ml.p5.48xlarge", 8), ("ml.p5en.48xlarge", 8)),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model, and what it shall hold. `in_flight` is over all copies; no `usd_per_hour_max` is no limit."""

    model: str
    e2e_p95_ms: int
    in_flight: int
    usd_per_hour_max: float | None
    region: str


@dataclass(frozen=True, slots=True)
class Answers:
    """All that the first profile is made of. `runbook_url` is None where no hub is known to have its page."""

    wanted: Wanted
    input_tokens: int
    output_tokens: int
    environment: str
    account: str
    runbook_url: str | None
    accept_eula: bool

    @property
    def name(self) -> str:
        """`meta-llama/Llama-3.1-8B-Instruct` -> `llama-3-1-8b-instruct`, as stacks may be called."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.wanted.model.rpartition("/")[2].lower()).strip("-")
        return (plain if plain[:1].isalpha() else f"model-{plain}")[:40].rstrip("-")


def in_flight_of(traffic: str, e2e_p95_ms: int) -> int:
    """`8`: in flight. `2/s`: requests a second, each of which is there for `e2e_p95_ms` at most (Little's law)."""
    if not (given := re.fullmatch(r"(\d+(?:\.\d+)?)\s*(/s)?", traffic.strip())) or float(given[1]) <= 0:
        raise InputError(f"--traffic: expected requests a second (2/s) or in flight (8), found `{traffic}`")
    number = ceil(float(given[1]) * (e2e_p95_ms / 1000 if given[2] else 1))
    if number > MOST_CONCURRENCY:
        reckoned = f"`{traffic}` with answers of up to {e2e_p95_ms / 1000:g} s is " if given[2] else ""
        raise InputError(
            f"--traffic: {reckoned}{number:,} in flight, and a benchmark drives {MOST_CONCURRENCY:,} at most: give the "
            "share of one endpoint"
        )
    return max(1, number)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the profile now has; `alternative` is None where nothing in the catalog will do. `over_budget` says why
    nothing within the budget does; it is empty where the choice is within."""

    alternative: Alternative | None
    reason: str
    over_budget: str = ""

    @property
    def as_wanted(self) -> bool:
        return self.alternative is not None and not self.over_budget


def environment_text(answers: Answers) -> str:
    runbook = answers.runbook_url
    return (
        "# yaml-language-server: $schema=../environment.schema.json\n"
        f'account: "{answers.account}"\n'
        f"region: {answers.wanted.region}\n"
        + (f"runbook_url: {runbook}\n" if runbook else "# runbook_url: https://…/docs/runbook.md, for alarms to link\n")
        + f"tags:\n  environment: {answers.environment}\n"
    )


def begun(answers: Answers, folder: Path) -> tuple[Path, list[Problem]]:
    """Write the environment and the profile into `folder`, on the first machine that it takes; what `loadproof check`
    says against both."""
    place = folder / "environment.yaml"
    place.write_text(environment_text(answers), encoding="utf-8")
    problems = list(check_file(place).errors)
    file = folder / f"{answers.name}.yaml"
    for machine, degree in _STARTS:
        file.write_text(_profile_text(answers, machine, degree), encoding="utf-8")
        if check_file(file).profile is not None:
            return file, problems
    # What stands in the way of the smallest stands in the way of all.
    file.write_text(_profile_text(answers, *_STARTS[0]), encoding="utf-8")
    return file, [*problems, *check_file(file).errors]


def chosen_for(file: Path, wanted: Wanted) -> Chosen:
    """Write machine, copies and settings into the profile as the planner chooses them."""
    profile, environment = load_profile(file), load_environment(file.parent)
    settled = settle(profile, DEFAULT_GOAL, Constraints((), wanted.usd_per_hour_max), environment)
    over_budget = ""
    if settled.recommendation.alternative is None and wanted.usd_per_hour_max is not None:
        over_budget = settled.recommendation.reason
        settled = settle(profile, DEFAULT_GOAL, Constraints(), environment)
    chosen = settled.recommendation
    if chosen.alternative is not None:
        plan_write.write(plan_write.edit_of(file, profile, settled))
        if chosen.alternative.copies > 1:
            _give_room(file, chosen.alternative)
    return Chosen(chosen.alternative, chosen.reason, over_budget)


def _give_room(file: Path, chosen: Alternative) -> None:
    """An update starts a batch beside the copies that it replaces, and scaling has to have something to add: both fit
    into one batch more than the planner's copies, on machines that may come, and are paid for only then."""
    most = chosen.copies + batch_copies(Copies(min=chosen.copies, max=chosen.copies), CopiesUpdate())
    endpoint = load_profile(file).endpoint
    plain = endpoint is not None and endpoint.hosting == "plain_variant"  # a copy is a machine there
    a_machine = catalog.instance(chosen.instance_type).accelerator_count // chosen.tensor_parallel_degree
    machines = most if plain else ceil(most / a_machine)
    text = yaml_edit.set_value(file.read_text("utf-8"), ("copies", "max"), most)
    file.write_text(yaml_edit.set_value(text, ("endpoint", "max_instances"), machines), encoding="utf-8")


def known_model(model_id: str) -> catalog.Architecture:
    """Raises InputError with the names that are near."""
    shape = catalog.architecture(model_id)
    if shape is None:
        near = ", ".join(catalog.near_models(model_id))
        raise InputError(
            f"--model: the catalog does not know `{model_id}`; {f'did you mean {near}? Else ' if near else ''}take one "
            "of `loadproof catalog list models`, or begin with the one that yours was tuned from, and write `id:` "
            "yours and `base:` that one into the profile afterwards"
        )
    return shape


def _profile_text(answers: Answers, machine: str, degree: int) -> str:
    hosting = "plain_variant" if answers.wanted.region in catalog.regions_without("inference_components") else ""
    shape = known_model(answers.wanted.model)
    longest = min(shape.context, 2 * (answers.input_tokens + answers.output_tokens))
    packed = "" if shape.quantization == "none" else f"  quantization: {shape.quantization}\n"
    eula = ", accept_eula: true" if answers.accept_eula else ""
    placed = (
        f"endpoint: {{instance_type: {machine}, max_instances: 2, hosting: {hosting}}}\ncopies: {{max: 2}}\n"
        if hosting
        else f"endpoint: {{instance_type: {machine}, max_instances: 2}}\n"
        "copies: {min: 1, max: 2, memory_mib_per_copy: 16384}\n"
    )
    metric = "concurrent_requests_per_model" if hosting else "concurrent_requests_per_copy"
    in_flight = answers.wanted.in_flight
    levels = sorted({1, max(1, in_flight // 2), in_flight})
    requests, needed = max(32, 3 * in_flight), requests_for([95], 1) or 0
    more = (
        f"# At {in_flight} in flight, where the objectives are judged, {needed:,} go out: as many as settle a p95 that "
        "holds by 5%\n# in 4 of 5 runs. `requests_at_objectives: N` sends N there.\n"
        if needed > requests
        else ""
    )
    return f"""# yaml-language-server: $schema=../schema.json
name: {answers.name}
model:
  id: {answers.wanted.model}
{packed}  # Weights in a bucket of yours; `type: hub` with a commit has the deployment stage them.
  source: {{type: s3, s3_uri: "s3://models-{answers.account}/{answers.name}/"{eula}}}
container:
  family: vllm
  settings: {{tensor_parallel_degree: {degree}, max_model_len: {longest}}}
{placed}scaling:
  policies:
    - {{type: target_tracking, metric: {metric}, target: auto}}
objectives: {{at_concurrency: {in_flight}, e2e_p95_ms: {answers.wanted.e2e_p95_ms}, error_rate_max: 0.01}}
workload: {{input_tokens: {answers.input_tokens}, output_tokens: {answers.output_tokens}}}
{more}benchmark: {{concurrency: [{", ".join(map(str, levels))}], requests_per_level: {requests}}}
"""


def reasons(made: Chosen, wanted: Wanted) -> Iterator[str]:
    """Three lines: what was chosen, what it is predicted to do, why; before them, that it costs more than allowed."""
    chosen = made.alternative
    if chosen is None:
        yield f"nothing in the catalog is predicted to do: {made.reason}; the profile is where the search began"
        return
    if made.over_budget:
        yield (
            f"nothing within --budget {wanted.usd_per_hour_max:g} USD an hour is predicted to do; the profile has the "
            "least that is:"
        )
    yield _what(chosen)
    if elsewhere := priced_elsewhere(catalog.instance(chosen.instance_type), wanted.region):
        yield elsewhere + ("; --budget was held against them" if wanted.usd_per_hour_max is not None else "")
    if chosen.e2e_ms is not None and chosen.ttft_ms is not None and chosen.tpot_ms is not None:
        yield (
            f"predicted at {wanted.in_flight} in flight, mean: first token {chosen.ttft_ms.value:,.0f} ms, a token "
            f"{chosen.tpot_ms.value:,.1f} ms, answer {chosen.e2e_ms.value:,.0f} ms "
            f"({chosen.e2e_ms.low:,.0f} to {chosen.e2e_ms.high:,.0f}), grade {chosen.grade}"
        )
    caveat = made.reason.partition(";")[2].strip()
    yield (
        f"why: the least an hour among all that are predicted to keep e2e_p95_ms {wanted.e2e_p95_ms:,} "
        f"at {wanted.in_flight} in flight{'; ' + caveat if caveat else ''}"
    )


def _what(chosen: Alternative) -> str:
    each = "s" if chosen.tensor_parallel_degree > 1 else ""
    price = "price unknown"
    if chosen.usd_per_hour is not None:
        price = (
            f"{chosen.usd_per_hour:,.2f} USD an hour on demand in {price_place(catalog.instance(chosen.instance_type))}"
        )
    copies = f"{chosen.copies} copies" if chosen.copies > 1 else "1 copy"
    return (
        f"{chosen.instances} × {chosen.instance_type}, {copies} of {chosen.tensor_parallel_degree} "
        f"accelerator{each}, {chosen.family} {chosen.version}: {price}"
    )
