"""Bounds that no endpoint meets, or every one, and what gives up within them (LP284, LP341, LP345, LP346)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.errors import Severity
from loadproof.profiles.checks.facts import mean_tokens, most_tokens
from loadproof.profiles.checks.proving import answer_time_s
from loadproof.profiles.checks.rule import Found, Subject, rule
from loadproof.profiles.schema import Profile

LEAST_MS: Final = {"ttft": 1.0, "e2e": 1.0, "itl": 0.1, "tpot": 0.1}
LIKELY_LEAST_MS: Final = 10.0  # to the front of a cloud's service and back, with one step of a model
LIKELY_LEAST_ON_BEDROCK_MS: Final = 50.0  # its smallest models are seen to take 100 and more
LIKELY_MS_A_TOKEN: Final = 1.0  # 1,000 tokens a second for one answer: twice the fastest that is offered there
MOST_FIRST_TOKEN_MS: Final = 30_000.0
MOST_TOKENS_PER_S: Final = 1000 / LEAST_MS["tpot"]  # of one answer
MOST_REQUESTS_PER_S: Final = 1000 / LEAST_MS["e2e"]  # one after another
MOST_MS_A_TOKEN: Final = 60_000.0  # a token a minute
SLOW_MS_A_TOKEN: Final = 1_000.0  # people read some five tokens a second
MOST_ERRORS, MANY_ERRORS = 0.5, 0.1


@rule(
    "LP284",
    "Latency bound that no endpoint meets",
    reason="A request's way to SageMaker and back takes a millisecond by itself, and no accelerator makes 10,000 "
    "tokens a second for one answer; on Bedrock the fastest models take 50 ms and more, and a millisecond a token. The "
    "benchmark would run, be paid for, and miss.",
    mend="Write milliseconds: at least 1 for TTFT, 0.1 for ITL and TPOT, for E2E 1 and 0.1 for every further token.",
)
def impossible_latency(subject: Subject) -> Iterator[Found]:
    answer = mean_tokens(subject.profile.workload.output_tokens)
    likely = dict.fromkeys(("ttft", "e2e"), LIKELY_LEAST_MS)
    if subject.profile.backend == "bedrock":
        likely = dict.fromkeys(likely, LIKELY_LEAST_ON_BEDROCK_MS)
        asked = subject.profile.workload.answer_length == "asked"
        likely["e2e"] += LIKELY_MS_A_TOKEN * (answer - 1) if asked else 0
    for name, bound in subject.profile.objectives.bounds.items():
        metric = name.partition("_")[0]
        least = LEAST_MS.get(metric)
        if metric == "e2e" and least is not None:
            least += LEAST_MS["tpot"] * (answer - 1)
        if least is not None and name.endswith("_ms") and bound < least:
            found = f"{bound:g} ms is less than any endpoint takes"
            yield Found(("objectives", name), found, f"write milliseconds, at least {least:g}")
        elif bound < likely.get(metric, 0):
            found = f"{bound:g} ms to a service, through one step of a model, and back"
            if likely[metric] > LIKELY_LEAST_ON_BEDROCK_MS:
                found = f"{bound:g} ms for {answer:,.0f} tokens of an answer on Bedrock"
            yield Found(("objectives", name), found, f"write milliseconds, above {likely[metric]:g}", "warning")


@rule(
    "LP341",
    "Rate that no answer reaches",
    reason="As many answers at once as the objectives name, each at the 10,000 tokens a second, or the request a "
    "millisecond, that nothing exceeds, make less. The benchmark would run, be paid for, and miss.",
    mend="Write what the endpoint makes at objectives.at_concurrency, all copies together.",
)
def impossible_rate(subject: Subject) -> Iterator[Found]:
    objectives = subject.profile.objectives
    for name, most_each in (
        ("output_tokens_per_s_min", MOST_TOKENS_PER_S),
        ("requests_per_s_min", MOST_REQUESTS_PER_S),
    ):
        bound, most = getattr(objectives, name), most_each * objectives.at_concurrency
        if bound is not None and bound > most:
            found = f"{bound:,.6g} is above {most:,.6g}, which {objectives.at_concurrency} answers at once cannot reach"
            yield Found(("objectives", name), found, "write what the endpoint makes at at_concurrency")


@rule(
    "LP345",
    "Objective that promises nothing",
    reason="With more requests failing than answered, or a minute a token, nobody is served, and the benchmark would "
    "say PASS; a token a second is slower than anybody reads. Where nothing but a share of errors is bound, a server "
    "passes that answers everything after minutes, or at once with a word. As many in flight as at_concurrency, "
    "each answered just before its time-out, make at_concurrency / request_timeout_s requests a second (Little's law): "
    "a lower bound holds of every answer.",
    mend="Write the share that may fail (0.01 is 1%), milliseconds a token, and a bound on latency or throughput.",
)
def no_promise(subject: Subject) -> Iterator[Found]:
    share = subject.profile.objectives.error_rate_max
    if share is not None and share > MANY_ERRORS:
        found = f"{share:.0%} of all requests may fail"
        nearly: Severity = "error" if share > MOST_ERRORS else "warning"
        yield Found(("objectives", "error_rate_max"), found, "write a share: 0.01 is 1%", nearly)
    of_classes = {name for one in subject.profile.workload.classes for name in one.objectives}
    if of_classes.union(subject.profile.objectives.bounds) == {"error_rate_max"}:
        found = "errors alone are bound, and neither latency nor throughput"
        yield Found(("objectives",), found, "add a bound, such as `e2e_p95_ms`", "warning")
    yield from _rates_of_nothing(subject.profile)
    endpoint, buffer = subject.profile.endpoint, subject.profile.buffer
    queued = (endpoint is not None and endpoint.async_inference is not None) or (buffer is not None and buffer.enabled)
    one_token = most_tokens(subject.profile.workload.output_tokens) == 1 and not subject.profile.workload.classes
    for name, bound in subject.profile.objectives.bounds.items():
        if name.startswith(("itl_", "tpot_")) and one_token:
            found = "answers of one token have no time between two"
            yield Found(("objectives", name), found, "leave it out, or write ttft_p95_ms", "warning")
        elif name.startswith(("itl_", "tpot_")) and bound > MOST_MS_A_TOKEN:
            yield Found(("objectives", name), f"{bound:,.6g} ms is more than a minute a token", "write milliseconds")
        elif name.startswith(("itl_p50", "tpot_")) and bound > SLOW_MS_A_TOKEN:  # a rare gap may be long
            found = f"{bound:,.6g} ms a token is slower than anybody reads"
            yield Found(("objectives", name), found, f"write at most {SLOW_MS_A_TOKEN:g}", "warning")
        elif name.startswith("ttft_") and bound > MOST_FIRST_TOKEN_MS and not queued:
            found = f"{bound / 1000:,.6g} s to the first token: nobody waits for that"
            yield Found(("objectives", name), found, "write milliseconds", "warning")


def _rates_of_nothing(profile: Profile) -> Iterator[Found]:
    objectives, workload, timeout_s = profile.objectives, profile.workload, profile.benchmark.request_timeout_s
    asked = workload.answer_length == "asked" and not workload.classes
    tokens = mean_tokens(workload.output_tokens) if asked else 1
    for name, each in (("requests_per_s_min", 1.0), ("output_tokens_per_s_min", tokens)):
        bound, least = getattr(objectives, name), each * objectives.at_concurrency / timeout_s
        if bound is not None and bound < least:
            found = f"{bound:g}: answers that take all of {timeout_s:g} s make {least:.3g}"
            yield Found(("objectives", name), found, "write what the endpoint makes at at_concurrency", "warning")


@rule(
    "LP346",
    "Messages are given up before the objective",
    reason="The consumer gives an answer up while it is still within its bound, or before its first token, whose "
    "waiting is a silence like any other: slow answers are asked for again and again, each time paid for, and end in "
    "the dead-letter queue. So it does before whole answers, by bounds on their tokens or by the weights that each "
    "token reads.",
    mend="Raise buffer.invocation_timeout_s, or buffer.idle_timeout_s, above the bound.",
)
def given_up_before_objective(subject: Subject) -> Iterator[Found]:
    buffer, late = subject.buffer, dict[str, str]()  # by the field that ends it
    for name, bound_ms in subject.profile.objectives.bounds.items():
        if name.startswith(("ttft_", "e2e_")) and bound_ms >= buffer.invocation_timeout_s * 1000:
            found = f"{buffer.invocation_timeout_s} s ends before {name}, {bound_ms:g} ms"
            late.setdefault("invocation_timeout_s", found)
        elif name.startswith("ttft_") and bound_ms >= buffer.idle_timeout_s * 1000:
            found = f"a silence of {buffer.idle_timeout_s} s ends before {name}, {bound_ms:g} ms"
            late.setdefault("idle_timeout_s", found)
    needed_s = answer_time_s(subject)
    if not late and needed_s is not None and buffer.invocation_timeout_s < needed_s:
        found = f"{buffer.invocation_timeout_s} s end before an answer, which takes {needed_s:.3g} s"
        yield Found(("buffer", "invocation_timeout_s"), found, "write minutes, or leave it out", "warning")
    for field, found in late.items():
        severity: Severity = "warning" if field == "idle_timeout_s" else "error"
        yield Found(("buffer", field), found, "raise it above the bound", severity)
