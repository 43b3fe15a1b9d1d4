"""How far a prediction may be trusted: a grade with an honest meaning, and the bands that go with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import exp, hypot, log1p, log2
from typing import Literal, Protocol

from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.servers import GENERATION, OwnMeasurement
from loadproof.capacity.speculation import Speculation
from loadproof.families import FAMILIES

Grade = Literal["A", "B", "C", "D"]

MEANING: dict[Grade, str] = {
    "A": "server and accelerator calibrated against published measurements",
    "B": "calibrated on the same accelerator architecture",
    "C": "accelerator known from its datasheet only",
    "D": "server never seen on such an accelerator or such a model: a rough guess",
}
# Half-widths of the ranges that shall hold eight in ten, as |log(measured / predicted)|, by source of doubt;
# independent sources add as squares. Fitted on held-out cells (docs/accuracy.md, "Ranges") where that is said.
_MODEL = 0.11  # fitted: all rows measured, a model that was not among them; no less of one that was, on others' tables
_MODEL_UNDER = {"neuron": 0.16}  # fitted: where one server's models differ more
_DEGREE = 0.07  # fitted: the fabric was measured under this server, but not with so many accelerators or not with these
_FABRIC = 0.35  # fitted: this server was never measured on such a fabric
_NEAR_LIMIT = 0.40  # fitted: a p90 where a little memory decides whether some requests wait for a whole round
_PERCENTILE = 0.04  # fitted: what a high percentile of whole requests is in doubt beside their mean
# Accelerators: fitted on accelerators, generations and servers held out, and no narrower than rows never fitted allow.
_CHIP: dict[Grade, float] = {"A": 0.0, "B": 0.07, "C": 0.13, "D": 0.45}
# Not fitted: another engine than that of the rows. A release line that no row is of, but alike, is B at best and no
# wider: SageMaker's groups held out, 0.15 among 0.11, lie inside without.
_VERSION = 0.15
_CONVERSATION = 0.25  # not fitted: how much of a history is still in the cache
_AFAR = 0.07  # fitted on a prompt length out: a TTFT's, for each doubling between a prompt and the nearest fitted
_FAR_DOUBLINGS = 1.0  # beyond which a grade is lost
_LOWER: dict[Grade, Grade] = {"A": "B", "B": "C", "C": "D", "D": "D"}
_PACKED = 0.35  # not fitted: weights of fewer than 16 bits, whose kernels differ by format and chip
# Of those fitted, with which weights of fewer bits: server, format, generation.
_PACKED_MEASURED = {("vllm", "mxfp4", "Hopper"), ("vllm", "mxfp4", "Ampere"), ("sglang", "fp8", "Hopper")}
# Fitted: how long prompts take to compute, under servers that have a posterior; of its own width this share.
_PROMPTS, _POSTERIOR = 0.30, 0.65
# What mixtures in 16 bits have besides, of which no row is: NVIDIA's measured products of experts (aiconfigurator-core
# 0.12.0, `moe_perf` of vLLM 0.24 on H100 and H200, 8,192 tokens of skewed routing) reach 0.16 to 0.66 of the datasheet
# by their shape, 0.28 to 0.30 apart as standard deviations of logs, and are the most of such a model's prompts.
_EXPERTS = 0.36
# TTFT is the least certain figure at any grade: routing, tokenization and prefix hits are not in the model. What lies
# between client and server is only ever on top: measured TTFTs of cached prompts were 60 to 130 ms above the step's.
_TTFT = 0.10  # fitted: a model whose first tokens were among the rows
_TTFT_MODEL = 0.18  # fitted: what any other model has besides
_TTFT_NEVER = 0.40  # not fitted: a server of whose first tokens, and whose relatives', nobody published any
_TTFT_ON_TOP_MS = 60.0
# Requests in flight over what one copy can run at once, between which the wait hangs on a little memory.
_NEAR = (0.8, 1.25)


class InDoubt(Protocol):
    """What of a load decides how wide its ranges are."""

    @property
    def near_limit(self) -> bool: ...

    @property
    def prompt_share(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Confidence:
    """Grade and bands that shall hold eight in ten. A value v lies in v / (1 + band) .. v · (1 + band); a TTFT up to
    `ttft_on_top_ms` later still. `near_limit_band` is the one of latencies where a queue may or may not form.
    `prompt_doubt` is the half-width, as |log|, of how long prompts take to compute: it widens a figure by their share;
    `percentile_doubt` is what high percentiles of whole requests have beside `band`.
    """

    grade: Grade
    meaning: str
    band: float
    ttft_band: float
    near_limit_band: float
    ttft_on_top_ms: float = 0.0
    prompt_doubt: float = 0.0
    percentile_doubt: float = 0.0

    def interval(
        self,
        value: float,
        *,
        ttft: bool = False,
        near_limit: bool = False,
        prompt_share: float = 0.0,
        percentile: bool = False,
    ) -> tuple[float, float]:
        """(low, high) around a predicted value; `near_limit` is for latencies (see `near_limit`), `prompt_share` what
        of it is prompts' compute; `percentile` of whole requests."""
        own = self.percentile_doubt if percentile else 0.0
        band = _factor(log1p(self.ttft_band if ttft else self.band), prompt_share * self.prompt_doubt, own)
        band = max(band, self.near_limit_band if near_limit else 0.0)
        return value / (1 + band), value * (1 + band) + (self.ttft_on_top_ms if ttft else 0.0)

    def range_of(self, name: str, value: float, load: InDoubt | None) -> tuple[float, float]:
        """`interval` of a figure by its name (`ttft_ms`, `e2e_p95_ms`) at a load: where the queue is in doubt TTFT and
        the percentiles of whole requests are, while means, TPOT and rates hardly feel it. How long prompts
        take is in a first token's band already; other figures are in doubt by the share of time that they take."""
        ttft = name.startswith("ttft")
        queued = load is not None and load.near_limit and name.startswith(("ttft", "e2e_p"))
        share = load.prompt_share if load is not None and not ttft else 0.0
        high = name in ("e2e_p90_ms", "e2e_p95_ms", "e2e_p99_ms")
        return self.interval(value, ttft=ttft, near_limit=queued, prompt_share=share, percentile=high)


def near_limit(in_flight: float, capacity: int) -> bool:
    """Whether a little memory more or less decides if some of a copy's `in_flight` requests wait for a whole round."""
    return _NEAR[0] * capacity <= in_flight <= _NEAR[1] * capacity


def confidence_of(deployment: PlannedDeployment, turns: int = 1, prompt_tokens: float | None = None) -> Confidence:
    """The grade of a deployment from what its server's row was calibrated on, and bands from all sources of doubt.

    `turns` of a conversation: no such measurement was ever fitted, so a grade is lost. So it is where `prompt_tokens`
    are far from any prompt that was fitted; None: of the nearest one.
    """
    found = _of_requests(deployment, prompt_tokens)
    if turns == 1:
        return found
    return less_sure(found, "conversations, whose caches are reckoned")


def less_sure(found: Confidence, never_with: str) -> Confidence:
    """A grade less, and wider: nothing was ever fitted with these."""
    band, ttft_band = (_factor(log1p(band), _CONVERSATION) for band in (found.band, found.ttft_band))
    meaning = f"{found.meaning}; but never with {never_with}"
    return replace(found, grade=_LOWER[found.grade], meaning=meaning, band=band, ttft_band=ttft_band)


def _of_requests(deployment: PlannedDeployment, prompt_tokens: float | None) -> Confidence:
    server, speculation = deployment.server, deployment.speculation
    if server.own is not None:
        return _measured(deployment, server.own)
    grade = _grade(deployment)
    meaning = MEANING[grade]
    doubts = [_MODEL_UNDER.get(server.family, _MODEL), _CHIP[grade], _fabric_doubt(deployment)]
    if grade != "D" and not _line_measured(deployment):
        grade, meaning = max(grade, "B"), f"{meaning}; {_lines(deployment)}"
        if not _line_alike(deployment):
            doubts.append(_VERSION)
    packed = (server.family, deployment.quantization, GENERATION.get(deployment.accelerator.name))
    if deployment.quantization != "none" and server.family != "neuron" and packed not in _PACKED_MEASURED:
        doubts.append(_PACKED)
    if speculation is not None:
        doubts.append(speculation.doubt)
        grade, drafts = _of_drafts(grade, speculation)
        meaning = f"{meaning}; but {drafts}"
    afar = doublings_afar(deployment, prompt_tokens)
    if prompt_tokens is not None and afar > _FAR_DOUBLINGS:
        grade, meaning = _LOWER[grade], f"{meaning}; but {_nearest_prompt(deployment, prompt_tokens)}"
    posterior = hypot(_POSTERIOR * server.prompt_doubt, _EXPERTS if _is_wide_mixture(deployment) else 0.0)
    return Confidence(
        grade,
        meaning,
        _factor(*doubts),
        _factor(*doubts, *_first_tokens(deployment), posterior, _AFAR * afar),
        _factor(*doubts, _NEAR_LIMIT),
        _TTFT_ON_TOP_MS,
        hypot(_PROMPTS, posterior) if server.prompt_doubt else 0.0,
        _PERCENTILE,
    )


def doublings_afar(deployment: PlannedDeployment, prompt_tokens: float | None) -> float:
    """How often a prompt's length doubles or halves on the way to the nearest that was fitted; 0 where none was."""
    lengths = deployment.server.fitted_prompts
    if prompt_tokens is None or not lengths:
        return 0.0
    return min(abs(log2(max(1.0, prompt_tokens) / tokens)) for tokens in lengths)


def _nearest_prompt(deployment: PlannedDeployment, prompt_tokens: float) -> str:
    lengths = deployment.server.fitted_prompts
    said = f"prompts of {prompt_tokens:,.0f} tokens, and"
    if prompt_tokens > lengths[-1]:
        return f"{said} the longest that was fitted had {lengths[-1]:,}"
    if prompt_tokens < lengths[0]:
        return f"{said} the shortest that was fitted had {lengths[0]:,}"
    below = max(tokens for tokens in lengths if tokens <= prompt_tokens)
    above = min(tokens for tokens in lengths if tokens >= prompt_tokens)
    return f"{said} none was fitted between {below:,} and {above:,}"


def _first_tokens(deployment: PlannedDeployment) -> tuple[float, ...]:
    """A server whose own first tokens nobody published takes `ttft_ms` from a relative's, where it has one."""
    server = deployment.server
    if not server.ttft_models and not server.ttft_ms:
        return (_TTFT_NEVER,)
    return (_TTFT,) if deployment.model_id in server.ttft_models else (_TTFT, _TTFT_MODEL)


def _is_wide_mixture(deployment: PlannedDeployment) -> bool:
    fitted_prompts = bool(deployment.server.prompt_doubt)
    return fitted_prompts and bool(deployment.architecture.experts) and deployment.quantization == "none"


def _measured(deployment: PlannedDeployment, own: OwnMeasurement) -> Confidence:
    """Of one's own calibration: its bands, wider by what is planned and was not measured; the words say what."""
    grade: Grade = "A"
    doubts: list[float] = []
    others: list[str] = []
    if own.models and deployment.model_id not in own.models:
        doubts.append(_MODEL_UNDER.get(deployment.server.family, _MODEL))
        others.append(f"on {', '.join(own.models[:3])}")
    if own.accelerators not in (None, deployment.accelerators):
        doubts.append(max(_DEGREE, _fabric_doubt(deployment)))
        plural = "" if own.accelerators == 1 else "s"
        others.append(f"with {own.accelerators} accelerator{plural} a copy, not {deployment.accelerators}")
    if own.version and deployment.version and own.version != deployment.version:
        grade = "B"
        doubts.append(_VERSION)
        others.append(f"with version {own.version}, not {deployment.version}")
    speculation = deployment.speculation
    if speculation is not None and not speculation.measured:
        grade = "B"
        doubts.append(speculation.doubt)
        others.append("without speculative decoding")
    said = deployment.server.source + (f", but {' and '.join(others)}" if others else "")
    band, ttft_band = (_factor(log1p(measured), *doubts) for measured in (own.band, own.ttft_band))
    on_top_ms = 0.0 if own.saw_ttft else _TTFT_ON_TOP_MS
    return Confidence(grade, said, band, ttft_band, max(band, _factor(_NEAR_LIMIT)), on_top_ms)


def _of_drafts(grade: Grade, speculation: Speculation) -> tuple[Grade, str]:
    """(grade, why it fell): how often a draft is right hangs on the text, and only EAGLE3's was ever fitted."""
    if speculation.fitted:
        return _LOWER[grade], f"how often {speculation.method} is right hangs on the text"
    return _LOWER[_LOWER[grade]], f"nobody measured how often {speculation.method} is right here"


def unverified_rows(deployment: PlannedDeployment) -> list[tuple[str, str]]:
    """(name, source) of the catalog's rows under a prediction whose own source says that nobody verified them."""
    chip, machine, shape = deployment.accelerator, deployment.instance, deployment.architecture
    rows = ((chip.name, chip), (machine.instance_type, machine), (shape.name, shape))
    return [(name, row.source) for name, row in rows if row.unverified]


def _factor(*doubts: float) -> float:
    return exp(hypot(*doubts)) - 1


def _fabric_doubt(deployment: PlannedDeployment) -> float:
    degrees = deployment.fabric.calibrated_degrees
    if not degrees:
        return _FABRIC
    known = deployment.accelerators == 1 or deployment.accelerator.name in deployment.server.calibrated_on
    return 0.0 if known and deployment.accelerators in degrees else _DEGREE


def _grade(deployment: PlannedDeployment) -> Grade:
    server, chip = deployment.server, deployment.accelerator.name
    if FAMILIES[deployment.family].alike_since is None:
        return "D"
    # SGLang's row was fitted on latent attention alone, whose vectors are expanded again in every step; no other was.
    latent = bool(deployment.architecture.kv_latent_dim)
    if (latent and server.family != "sglang") or not server.calibrated_on:
        return "D"
    if chip in server.calibrated_on and server.family == "sglang" and not latent:
        return "B"
    if chip in server.calibrated_on:
        return "A"
    if chip not in GENERATION:
        return "D"
    seen = {GENERATION.get(name) for name in server.calibrated_on}
    return "B" if GENERATION[chip] in seen else "C"


def _line_measured(deployment: PlannedDeployment) -> bool:
    """Whether rows of the version's release line were fitted; without a version one of those is meant."""
    numbers = _numbers(deployment)
    lines = FAMILIES[deployment.family].measured_lines
    return not numbers or any(numbers[: len(line)] == line for line in lines)


def _line_alike(deployment: PlannedDeployment) -> bool:
    """Whether it has the engine of those measured; TGI's lines are each their own."""
    numbers, since = _numbers(deployment), FAMILIES[deployment.family].alike_since
    return bool(since) and not any((first[0] == 0) == (numbers[0] == 0) and numbers < first for first in since or ())


def _lines(deployment: PlannedDeployment) -> str:
    family = FAMILIES[deployment.family]
    line, *measured = (".".join(map(str, numbers)) for numbers in (_numbers(deployment), *family.measured_lines))
    return f"no published row is of {family.called} {line}, those fitted are of {' and '.join(measured)}"


def _numbers(deployment: PlannedDeployment) -> tuple[int, ...]:
    """The first two numbers of the version: its release line."""
    return tuple(int(part) for part in re.findall(r"\d+", deployment.version)[:2])
