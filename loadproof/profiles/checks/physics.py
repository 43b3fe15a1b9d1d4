"""What no machine can do: weights read faster than memory, settings past 32 bits, shapes of other weights."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, sqrt
from statistics import median
from typing import Final

from loadproof.catalog.start_up import SERVER_START_S, WEIGHTS_GIB_PER_S
from loadproof.families import FAMILIES
from loadproof.profiles.checks.facts import (
    GIB,
    architecture_of,
    least_step_ms,
    mean_tokens,
    speculates,
    weight_bytes,
)
from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.schema import Profile, TokenDistribution

MOST_COUNT: Final = 2**31 - 1
MOST_REQUESTS: Final = 1_000_000  # of a level: three hours at a hundred a second
MANY_REQUESTS: Final = 100_000
MOST_SPREAD: Final = 5.0  # a standard deviation, of the mean: beyond, nearly every draw is cut to min or max
MOST_NGRAM_TOKENS: Final = 64  # no prompt repeats more by chance, and servers look for three to ten
CLEARLY: Final = 2.0  # times the bound on the whole: less may differ by the lengths of answers
LEAST_PREFILL_TOKENS: Final = 32
AT_BEST: Final = 10.0  # times the rate at which weights are estimated to come
MOST_PROPOSED_TOKENS: Final = 16
LEAST_SETTINGS: Final = {"payload_limit_bytes": 1024, "model_loading_timeout_s": 30}  # one prompt; Python starting


@rule(
    "LP275",
    "Faster than the weights can be read",
    reason="Before a first token the accelerators read every weight that a token uses once, whatever the server: "
    "bytes of them, without the table of embeddings, / (bandwidth of an accelerator · accelerators a copy).",
    mend="Write milliseconds, above what reading the weights takes; `loadproof plan` predicts what is reached.",
    severity="warning",  # a bound that must fail is how a team tries its gate
)
def faster_than_memory(subject: Subject) -> Iterator[Found]:
    for placed in subject.components[:1]:
        steps_ms = least_step_ms(placed)
        if not steps_ms:
            return
        yield from _past_physics(subject.profile, min(steps_ms), guesses=speculates(placed))


def _past_physics(profile: Profile, least_ms: float, *, guesses: bool) -> Iterator[Found]:
    """`least_ms`: one step, which every token needs where none is guessed, and every request needs once."""
    objectives, answer = profile.objectives, profile.workload.output_tokens
    steps = answer if isinstance(answer, int) and profile.workload.answer_length == "asked" and not guesses else 1
    steps_of = {"ttft": 1, "e2e": steps, **({} if guesses else {"tpot": 1})}
    for name, bound in objectives.bounds.items():
        needed_ms = steps_of.get(name.partition("_")[0], 0) * least_ms
        if bound < needed_ms:
            found = f"{bound:g} ms is less than the {needed_ms:.1f} ms in which the weights are read"
            yield Found(("objectives", name), found, f"write milliseconds, above {needed_ms:.0f}")
    most_per_s = objectives.at_concurrency / least_ms * 1000 if least_ms else inf
    rates = ("requests_per_s_min",) if guesses else ("requests_per_s_min", "output_tokens_per_s_min")
    for name in rates:
        asked = getattr(objectives, name)
        if asked is not None and asked > most_per_s:
            found = (
                f"{asked:g} is more than the {most_per_s:.0f} that {objectives.at_concurrency} in flight can be given"
            )
            yield Found(("objectives", name), found, f"lower it below {most_per_s:.0f}, or raise at_concurrency")


@component_rule(
    "LP374",
    "Given up before it can have started",
    reason="A server imports, loads, compiles and captures for a minute before its first health check passes, and the "
    "weights have to come before: a copy that is given up earlier never serves, and the deployment fails after hours.",
    mend="Leave the time-out out (1,800 s), or write several times what a start takes.",
    severity="warning",
)
def given_up_at_start(placed: Placed) -> Iterator[Found]:
    shape = architecture_of(placed.component.model)
    if shape is None or not shape.parameters_b:
        return
    gib_per_s = AT_BEST * WEIGHTS_GIB_PER_S
    weights_s = weight_bytes(placed.component.model, shape) / GIB / gib_per_s
    least_s = {"model_download_timeout_s": weights_s, "container_startup_timeout_s": SERVER_START_S + weights_s}
    for name, seconds in least_s.items():
        written = getattr(placed.endpoint, name)
        if written < seconds:
            found = f"{written} s: a start takes {seconds:.0f} s where weights come at {gib_per_s:g} GiB/s"
            yield Found(("endpoint", name), found, "leave it out, or write minutes")


@component_rule(
    "LP276",
    "Setting that no server can use",
    reason="Servers keep counts of tokens, requests and bytes in 32 bits, and a prefill of a few tokens a step takes "
    "about as many steps as the prompt has tokens.",
    mend="Write what was meant, or leave the setting out.",
)
def unusable_setting(placed: Placed) -> Iterator[Found]:
    container = placed.component.container
    step = FAMILIES[container.family].step_tokens_setting
    for name, value in container.settings:
        path = placed.at("container", "settings", name)
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        if value > MOST_COUNT:
            yield Found(path, f"{value} does not fit 32 bits", f"write at most {MOST_COUNT}, or delete it")
        elif value < LEAST_SETTINGS.get(name, 0):
            yield Found(path, f"{value} is too little to start or to be asked", f"at least {LEAST_SETTINGS[name]}")
        elif name == step and value < LEAST_PREFILL_TOKENS:
            yield Found(path, f"a step would read {value} tokens", f"write tokens, at least {LEAST_PREFILL_TOKENS}")


@component_rule(
    "LP277",
    "Architecture whose shape holds other weights",
    reason="Attention and feed-forward of its layers already make up most parameters: layers · hidden · (2 · "
    "head_dim · (heads + kv_heads) + 2 or 3 · intermediate). Far above what is written, or with two tables of "
    "embeddings less than half of it, one of the numbers is another model's.",
    mend="Copy them from the model's config.json, or name it in model.config_json.",
)
def shape_of_other_weights(placed: Placed) -> Iterator[Found]:
    own = placed.component.model.architecture
    if own is None or own.num_experts or own.kv_latent_dim or own.linear_attention_layers:
        return
    attention = 2 * own.head_dim * (own.num_attention_heads + own.num_key_value_heads)
    least_b = own.num_hidden_layers * own.hidden_size * (attention + 2 * own.intermediate_size) / 1e9
    if least_b > 1.1 * own.parameters_b:
        found = f"layers of this shape hold {least_b:.3g} billion parameters at least, not {own.parameters_b:g}"
        yield Found(placed.at("model", "architecture"), found, "copy them from config.json")
    most = own.num_hidden_layers * (attention + 3 * own.intermediate_size) + 2 * own.vocab_size
    most_b = own.hidden_size * most / 1e9
    if most_b < 0.5 * own.parameters_b:
        found = f"a model of this shape holds {most_b:.3g} billion parameters at most, not {own.parameters_b:g}"
        yield Found(placed.at("model", "architecture"), found, "copy them from config.json")


@rule(
    "LP278",
    "Bound on a part above the bound on the whole",
    reason="Time to first token and time per output token are parts of the end-to-end latency: a bound above that of "
    "the whole can never be what fails, and one of the two is a slip.",
    mend="Lower the part's bound, or raise that of the whole.",
    severity="warning",
)
def part_above_whole(subject: Subject) -> Iterator[Found]:
    objectives, answer = subject.profile.objectives, max(2.0, _median_tokens(subject.profile.workload.output_tokens))
    for percentile in ("p50", "p90", "p95", "p99"):
        whole = getattr(objectives, f"e2e_{percentile}_ms")
        # Of the gaps between tokens so many are above the percentile's bound, if it is missed.
        above = 1 - int(percentile.removeprefix("p")) / 100
        for part, share in (("ttft", 1.0), ("tpot", 1.0), ("itl", above)):
            bound = getattr(objectives, f"{part}_{percentile}_ms")
            if whole is not None and bound is not None and bound > whole:
                found = f"{bound:g} ms for a part of the {whole:g} ms that the whole may take"
                yield Found(("objectives", f"{part}_{percentile}_ms"), found, f"lower it below {whole:g}")
                continue
            if part == "ttft" or whole is None or bound is None:
                continue
            least_ms = share * bound * (answer - 1)
            if least_ms > CLEARLY * whole:
                found = f"{bound:g} ms make {least_ms:,.0f} of an answer, where the whole may take {whole:g}"
                mend = f"lower it: {whole / share / (answer - 1):.3g} ms take as long as the whole"
                yield Found(("objectives", f"{part}_{percentile}_ms"), found, mend)


def _median_tokens(tokens: int | TokenDistribution) -> float:
    """Half of the answers are no longer: of a long tail that is far below the mean (mean / √(1 + stddev²/mean²))."""
    mean = mean_tokens(tokens)
    if isinstance(tokens, int):
        return mean
    if tokens.distribution == "empirical":
        return median(tokens.values)
    return mean / sqrt(1 + ((tokens.stddev or 0.0) / mean) ** 2) if tokens.distribution == "lognormal" else mean


@rule(
    "LP248",
    "Number that nobody means",
    reason="A million requests take three hours at a hundred a second; a standard deviation of many means leaves "
    "little but the ends of the range; a host without a request to send costs all the same.",
    mend="Write what was meant: most such numbers have a slipped unit or a zero too many.",
)
def number_nobody_means(subject: Subject) -> Iterator[Found]:
    benchmark, workload = subject.profile.benchmark, subject.profile.workload
    for name in ("requests_per_level", "requests_at_objectives", "warmup_requests"):
        count = getattr(benchmark, name)
        if count is not None and count > MOST_REQUESTS:
            found = f"{count:,} requests at one level"
            yield Found(("benchmark", name), found, f"write at most {MOST_REQUESTS:,}")
        elif count is not None and count > MANY_REQUESTS and name != "warmup_requests":
            found = f"{count:,} requests at one level, of which thousands settle any percentile"
            yield Found(("benchmark", name), found, f"write thousands, at most {MANY_REQUESTS:,}", "warning")
    for name in ("input_tokens", "output_tokens"):
        tokens = getattr(workload, name)
        mean, spread = getattr(tokens, "mean", None), getattr(tokens, "stddev", None)
        if mean and spread and spread > MOST_SPREAD * mean:
            found = f"a spread of {spread:g} tokens around a mean of {mean:g}"
            yield Found(("workload", name, "stddev"), found, f"write at most {MOST_SPREAD * mean:g}")
    mean_s, spread_s = workload.think_time_s, workload.think_time_stddev_s
    if mean_s and spread_s and spread_s > MOST_SPREAD * mean_s:
        found = f"a spread of {spread_s:,.6g} s around a mean of {mean_s:g}"
        yield Found(("workload", "think_time_stddev_s"), found, f"write at most {MOST_SPREAD * mean_s:g}")
    if benchmark.concurrency and benchmark.hosts > max(benchmark.concurrency):
        found = f"{benchmark.hosts} hosts for {max(benchmark.concurrency)} requests in flight"
        yield Found(("benchmark", "hosts"), found, f"write at most {max(benchmark.concurrency)}")


@component_rule(
    "LP249",
    "Setting that costs and gives nothing",
    reason="An n-gram of a whole prompt is never found again. A proposed token counts only where all before it were "
    "taken: of those after the sixteenth, at 0.8 a token, one in 35.",
    mend="Write what was meant, or leave it out.",
)
def costs_for_nothing(placed: Placed) -> Iterator[Found]:
    speculative = getattr(placed.component.container, "speculative", None)
    longest = getattr(speculative, "longest_ngram_tokens", None)
    if longest is not None and longest > MOST_NGRAM_TOKENS:
        place = placed.at("container", "speculative", "longest_ngram_tokens")
        yield Found(place, f"{longest} tokens in a row", f"write at most {MOST_NGRAM_TOKENS}")
    proposed = getattr(speculative, "tokens", None)
    if proposed is not None and proposed > MOST_PROPOSED_TOKENS:
        found = f"{proposed} tokens proposed a step, of which the last are never taken"
        yield Found(placed.at("container", "speculative", "tokens"), found, "write 2 to 8", "warning")
