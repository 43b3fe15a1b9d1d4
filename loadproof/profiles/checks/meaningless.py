"""What is written and changes nothing, or nothing that anybody sees (LP396-LP399)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.facts import mean_tokens
from loadproof.profiles.checks.nonsense import FAR_TOO_MANY
from loadproof.profiles.checks.proving import sent_where_judged
from loadproof.profiles.checks.rule import Found, Subject, rule
from loadproof.profiles.judging import requests_to_judge
from loadproof.profiles.mixture import merged, mixture_of
from loadproof.profiles.schema import Arrivals, Phase
from loadproof.profiles.secrets import shown_path
from loadproof.profiles.tree import Path

TOKEN_BYTES: Final = 4
LEAST_BURSTINESS: Final = 0.01
MOST_BURSTINESS: Final = 10_000


@rule(
    "LP396",
    "The same twice",
    reason="A result is told twice to one queue; one file of an adapter takes its place in memory twice; a class that "
    "asks as another does, or as the rest, is no class of its own unless it has objectives of its own.",
    mend="Leave the second out, or write what it differs in.",
    severity="warning",
)
def same_twice(subject: Subject) -> Iterator[Found]:
    buffer, workload = subject.profile.buffer, subject.profile.workload
    named: list[tuple[Path, object]] = [
        (("buffer", "callbacks", at), one) for at, one in enumerate(buffer.callbacks if buffer else ())
    ]
    for placed in subject.components:
        adapters = enumerate(placed.component.adapters)
        named += [(placed.at("adapters", at, "s3_uri"), (placed.path, one.s3_uri)) for at, one in adapters]
    classes: list[tuple[Path, object, bool]] = [((), workload.model_copy(update={"classes": ()}), False)]
    classes += [
        (("workload", "classes", at), merged(workload, one), bool(one.objectives))
        for at, one in enumerate(workload.classes)
    ]
    named += [(place, asks) for place, asks, is_judged in classes if not is_judged]
    for at, (place, what) in enumerate(named):
        first = next((earlier for earlier, other in named[:at] if other == what), None)
        if first is not None:
            yield Found(place, f"the same as {shown_path(first) or 'the rest of the workload'}", "leave one out")


@rule(
    "LP397",
    "Share that no benchmark sees",
    reason="A level sends as many requests as settle its objectives: of a class, or of conversations that go on, whose "
    "share of them is less than one, most runs send none, and what is proven is proven without.",
    mend="Write a larger share, send more requests (benchmark.requests_at_objectives), or leave it out.",
    severity="warning",
)
def share_unseen(subject: Subject) -> Iterator[Found]:
    profile, workload = subject.profile, subject.profile.workload
    _, sent = sent_where_judged(profile)
    sent = sent or max(profile.benchmark.requests_per_level, requests_to_judge(profile) or 0)
    shares = mixture_of(workload).request_shares if workload.classes else {}
    places: dict[str, Path] = {
        one.name: ("workload", "classes", at, "share") for at, one in enumerate(workload.classes)
    }
    told: list[tuple[Path, float]] = [
        (places.get(name, ("workload", "classes")), share) for name, share in shares.items()
    ]
    if workload.turns > 1:
        told.append((("workload", "continues"), workload.continues))
    for place, share in told:
        if 0 < share * sent < 1:
            what = "the rest of the workload is" if place[-1] == "classes" else "it is"
            yield Found(place, f"{what} {share:.2g} of {sent:,.0f} requests: less than one", "write a larger share")


@rule(
    "LP398",
    "Arrivals that are another process",
    reason="A ramp that begins where it ends is none. Gaps of a gamma process spread by 1/sqrt(burstiness) of their "
    "mean: below 0.01, ten times and more, nearly all requests come at one moment and then none for hours; above "
    "10,000, less than a hundredth, they come at a constant rate.",
    mend="Write another rate to start from, a burstiness of 0.1 to 10, or process: constant.",
    severity="warning",
)
def other_process(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    loads: list[tuple[Path, Arrivals | Phase]] = [(("workload", "arrivals"), profile.workload.arrivals)]
    loads += [(("benchmark", "phases", at), one) for at, one in enumerate(profile.benchmark.phases)]
    for place, load in loads:
        if load.from_requests_per_s is not None and load.from_requests_per_s == load.requests_per_s:
            found = f"from {load.from_requests_per_s:g} to {load.requests_per_s:g} requests a second"
            yield Found((*place, "from_requests_per_s"), found, "leave it out, or write another rate")
        if load.burstiness is not None and not LEAST_BURSTINESS <= load.burstiness <= MOST_BURSTINESS:
            found = f"{load.burstiness:g}: gaps that spread by {load.burstiness**-0.5:.2g} times their mean"
            yield Found((*place, "burstiness"), found, "write 0.1 to 10")


@rule(
    "LP399",
    "Prefix longer than any prompt",
    reason="Requests go to the same copy where so many bytes of them are equal. Ten times as many as a prompt of mean "
    "length has, all its turns included, are a whole request: no two are alike, and the routing is random.",
    mend="Write the bytes of what prompts share: about four a token of shared_prefix_tokens.",
    severity="warning",
)
def prefix_beyond_prompts(subject: Subject) -> Iterator[Found]:
    workload, routing = subject.profile.workload, subject.endpoint.routing
    length = getattr(routing, "prefix_length_bytes", None)
    if length is None or workload.steps or workload.classes or workload.dataset is not None:
        return
    tokens = workload.turns * (mean_tokens(workload.first_prompts) + mean_tokens(workload.output_tokens))
    if length > FAR_TOO_MANY * TOKEN_BYTES * tokens:
        found = f"{length:,} bytes, of requests of some {TOKEN_BYTES * tokens:,.0f}"
        yield Found(("endpoint", "routing", "prefix_length_bytes"), found, "write the bytes of what prompts share")
