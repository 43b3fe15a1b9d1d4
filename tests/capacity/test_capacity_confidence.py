"""Ranges: how wide they are for what is in doubt, by hand from the stated half-widths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, hypot, log1p, sqrt

import pytest
from capacity_seed import SeedRow

from loadproof.capacity import PlannedDeployment, deployment_from_container
from loadproof.capacity.confidence import confidence_of, near_limit
from loadproof.capacity.servers import OwnMeasurement, fitted_prompts


def tgi(instance_type: str, degree: int) -> PlannedDeployment:
    return SeedRow("Llama 2 7B", instance_type, 1, degree, 256, 256, 1, None, None).deployment()


def vllm(instance_type: str, degree: int, model_id: str = "Qwen/Qwen3-32B") -> PlannedDeployment:
    return deployment_from_container(
        family="vllm",
        version="",
        variables={},
        model_id=model_id,
        architecture=None,
        instance_type=instance_type,
        accelerators_per_copy=degree,
        copies=1,
    )


def test_what_was_measured_leaves_only_the_model_in_doubt() -> None:
    """e^0.11 is 1.116: a factor of 1.116 either way."""
    low, high = confidence_of(tgi("ml.g5.2xlarge", 1)).interval(100.0)
    assert (low, high) == (pytest.approx(89.58, rel=1e-3), pytest.approx(111.63, rel=1e-3))


def test_a_degree_nobody_measured_widens_the_range() -> None:
    """Two A10G under TGI: sqrt(0.11² + 0.07²) = 0.1304; four were measured."""
    assert confidence_of(tgi("ml.g5.12xlarge", 2)).band == pytest.approx(exp(0.13038) - 1, rel=1e-3)
    assert confidence_of(tgi("ml.g5.12xlarge", 4)).band == pytest.approx(exp(0.11) - 1, rel=1e-3)


def test_a_fabric_never_measured_under_the_server_is_no_narrow_range() -> None:
    """NVSwitch under vLLM without a row measured: sqrt(0.11² + 0.35²) = 0.367. With one, of other accelerators than
    these A100: sqrt(0.11² + 0.13² + 0.07²) = 0.1841; of these H100: 0.11."""
    measured = vllm("ml.p5.48xlarge", 8)
    never = replace(measured, fabric=replace(measured.fabric, calibrated_degrees=()))
    assert confidence_of(never).band == pytest.approx(exp(sqrt(0.11**2 + 0.35**2)) - 1)
    assert confidence_of(measured).band == pytest.approx(exp(0.11) - 1)
    assert confidence_of(vllm("ml.p4d.24xlarge", 8)).band == pytest.approx(exp(0.18412) - 1, rel=1e-3)


def test_near_the_limit_latencies_are_wider_and_throughput_is_not() -> None:
    """sqrt(0.11² + 0.40²) = 0.4148, a factor of 1.514."""
    confidence = confidence_of(tgi("ml.g5.2xlarge", 1))
    assert confidence.interval(100.0, near_limit=True)[1] == pytest.approx(151.4, rel=1e-3)
    assert confidence.interval(100.0)[1] < 112


def test_near_the_limit_is_within_a_quarter_of_what_fits() -> None:
    """Room for 40: from 32 to 50 in flight."""
    assert [near_limit(in_flight, 40) for in_flight in (31, 32, 40, 50, 51)] == [False, True, True, True, False]


def test_a_ttft_may_always_be_later_by_the_way_to_the_server() -> None:
    """Of TGI none was published: sqrt(0.11² + 0.40²) = 0.4148, a factor of 1.514; 60 ms on top of the upper end."""
    low, high = confidence_of(tgi("ml.g5.2xlarge", 1)).interval(20.0, ttft=True)
    assert (low, high) == (pytest.approx(13.21, rel=1e-3), pytest.approx(90.28, rel=1e-3))


def test_a_ttft_is_surer_of_a_model_whose_first_tokens_were_measured() -> None:
    """On eight H100 under vLLM, the posterior 0.086 wide, of which 0.65 counts: Qwen3 32B sqrt(0.11² + 0.10² + 0.18² +
    0.0559²) = 0.2400, were it measured 0.1588."""
    deployment = vllm("ml.p5.48xlarge", 8)
    known = replace(deployment, server=replace(deployment.server, ttft_models=(deployment.model_id,)))
    bands = [confidence_of(one).ttft_band for one in (deployment, known)]
    assert bands == [pytest.approx(exp(0.2400) - 1, rel=1e-3), pytest.approx(exp(0.1588) - 1, rel=1e-3)]


@dataclass(frozen=True)
class Load:
    """What decides how wide a level's ranges are."""

    prompt_share: float
    near_limit: bool = False


def test_the_more_of_a_load_is_prompts_the_wider_its_range() -> None:
    """On H100 a third of prompts' time is in doubt: all prompts sqrt(0.11² + 0.30² + 0.0559²) = 0.3244, none 0.11."""
    confidence = confidence_of(vllm("ml.p5.48xlarge", 8))
    ends = [confidence.range_of("output_tokens_per_s", 100.0, Load(share))[1] for share in (0.0, 1.0)]
    assert ends == [pytest.approx(111.63, rel=1e-3), pytest.approx(138.32, rel=1e-3)]


def test_prompts_of_a_generation_nobody_measured_are_the_more_in_doubt() -> None:
    """L40S (Ada) has no row of prompts, H100 has TensorRT-LLM's: the posterior is 0.32 and 0.086 wide, of which 0.65
    counts: sqrt(0.30² + 0.208²) = 0.3651 and 0.3052."""
    wide, narrow = (
        confidence_of(vllm(name, degree)) for name, degree in (("ml.g6e.12xlarge", 4), ("ml.p5.48xlarge", 8))
    )
    assert wide.prompt_doubt == pytest.approx(0.3651, rel=1e-3)
    assert narrow.prompt_doubt == pytest.approx(0.3052, rel=1e-3)


def test_prompts_of_a_mixture_in_16_bits_are_the_more_in_doubt() -> None:
    """No row is of one: sqrt(0.30² + 0.65² · 0.02² + 0.36²) = 0.4688, where gpt-oss in MXFP4 has 0.3003."""
    wide, packed = (vllm("ml.p5.4xlarge", 1, name) for name in ("Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b"))
    assert confidence_of(wide).prompt_doubt == pytest.approx(0.4688, abs=2e-4)
    assert confidence_of(packed).prompt_doubt == pytest.approx(0.3003, abs=2e-4)


def test_a_first_token_is_in_doubt_by_how_far_its_prompt_is_from_any_fitted() -> None:
    """vLLM on H100 was fitted on prompts of 7,373 and 32,000 tokens, not between: 16,000 are one doubling short of the
    nearest and add 0.07 to a TTFT as squares; other figures hold as well with a prompt length out as within."""
    deployment = vllm("ml.p5.48xlarge", 8)
    near, far = (confidence_of(deployment, prompt_tokens=tokens) for tokens in (32_000, 16_000))
    assert log1p(far.ttft_band) == pytest.approx(hypot(log1p(near.ttft_band), 0.07))
    assert far.band == near.band


@pytest.mark.parametrize(
    ("instance_type", "prompt_tokens", "grade", "words"),
    [
        ("ml.p5.48xlarge", 16_000, "A", "published measurements"),
        ("ml.p5.48xlarge", 64_001, "B", "but prompts of 64,001 tokens, and the longest that was fitted had 32,000"),
        ("ml.p5.48xlarge", 460, "B", "but prompts of 460 tokens, and the shortest that was fitted had 922"),
        ("ml.p4de.24xlarge", 11_000, "D", "11,000 tokens, and none was fitted between 3,998 and 32,000"),
    ],
)
def test_a_grade_falls_more_than_a_doubling_from_any_prompt_fitted(
    instance_type: str, prompt_tokens: int, grade: str, words: str
) -> None:
    """Twice 32,000 and half of 922 are the ends on H100; A100 was fitted on 3,998 and 32,000 and on shorter, and is
    grade C without."""
    found = confidence_of(vllm(instance_type, 8), prompt_tokens=prompt_tokens)
    assert found.grade == grade
    assert found.meaning.endswith(words)


def test_prompts_are_asked_of_the_same_generation_first() -> None:
    """L40S (Ada) under vLLM was fitted on cached prompts alone, so what any generation computed counts; A100 has its
    own; a server that nobody fitted has none."""
    assert fitted_prompts("vllm", "A100-80")[0] == 1996
    assert fitted_prompts("vllm", "L40S")[0] == 922
    assert fitted_prompts("accelerate", "A10G") == ()


def test_a_high_percentile_is_in_more_doubt_than_the_mean() -> None:
    """sqrt(0.11² + 0.04²) = 0.1170 for p90 of whole requests, 0.11 for their mean."""
    confidence = confidence_of(tgi("ml.g5.2xlarge", 1))
    ends = [confidence.range_of(name, 100.0, Load(0.0))[1] for name in ("e2e_p90_ms", "e2e_p50_ms", "e2e_ms")]
    assert ends == [pytest.approx(100 * exp(0.1170), rel=1e-3), *[pytest.approx(100 * exp(0.11))] * 2]


def test_packed_weights_nobody_measured_widen_the_range() -> None:
    """sqrt(0.11² + 0.35²) = 0.3669 on a single L40S under vLLM; NeuronX was measured with int8."""
    plain = vllm("ml.g6e.xlarge", 1)
    assert confidence_of(plain).band == pytest.approx(exp(0.11) - 1, rel=1e-3)
    assert confidence_of(replace(plain, quantization="fp8")).band == pytest.approx(exp(0.36688) - 1, rel=1e-3)


@pytest.mark.parametrize(
    ("family", "version", "grade", "wider"),
    [
        ("vllm", "", "A", False),
        ("vllm", "0.11.2", "A", False),
        ("vllm", "0.15.1", "A", False),
        ("vllm", "0.12.0", "B", False),
        ("vllm", "0.30.0", "B", False),
        ("vllm", "1.0.0", "B", False),
        ("vllm", "0.6.3", "B", True),
        ("lmi", "20.0.0", "A", False),
        ("lmi", "0.36.0", "B", False),
        ("lmi", "0.29.0", "B", True),
        ("lmi", "15", "B", False),
        ("lmi", "10.0.0", "B", True),
    ],
)
def test_a_release_line_without_a_row_is_grade_b_at_best(family: str, version: str, grade: str, wider: bool) -> None:
    """Rows are of vLLM 0.11 and 0.15 and of LMI v20. Others with vLLM's second engine (0.8 and later; LMI since v15,
    0.33) are as wide; of the first engine nothing was measured."""
    deployment = replace(vllm("ml.g6e.xlarge", 1), family=family, version=version)  # type: ignore[arg-type]
    found = confidence_of(deployment)
    assert found.grade == grade
    assert (found.band > confidence_of(vllm("ml.g6e.xlarge", 1)).band) is wider
    assert ("no published row" in found.meaning) is (grade == "B")


@pytest.mark.parametrize("version", ["1.0.3", "1.4.0", "3.3.6"])
def test_each_line_of_tgi_is_its_own(version: str) -> None:
    """The founding tables are TGI 1.1's: sqrt(0.11² + 0.15²) = 0.1860."""
    found = confidence_of(replace(tgi("ml.g5.2xlarge", 1), version=version))
    line = ".".join(version.split(".")[:2])
    assert found.grade == "B" and found.band == pytest.approx(exp(0.1860) - 1, rel=1e-3)
    assert found.meaning.endswith(f"; no published row is of TGI {line}, those fitted are of 1.1")


@pytest.mark.parametrize(
    ("name", "widened"), [("ttft_ms", True), ("e2e_p95_ms", True), ("e2e_ms", False), ("output_tokens_per_s", False)]
)
def test_a_queue_in_doubt_widens_what_waits(name: str, widened: bool) -> None:
    """TTFT and percentiles of whole requests hang on the queue; means and rates hardly do."""
    confidence = confidence_of(vllm("ml.p5.48xlarge", 8))
    queued, free = (confidence.range_of(name, 100.0, Load(0.0, near)) for near in (True, False))
    assert (queued != free) is widened


def test_own_measurements_replace_the_sources_of_doubt() -> None:
    """A calibration that left 5% of error says 5%, on whatever fabric."""
    deployment = vllm("ml.p5.48xlarge", 8)
    measured = OwnMeasurement(0.05, 0.2, "", 8, ("Qwen/Qwen3-32B",))
    confidence = confidence_of(replace(deployment, server=replace(deployment.server, own=measured)))
    assert confidence.grade == "A"
    assert (confidence.band, confidence.ttft_band) == (pytest.approx(0.05), pytest.approx(0.2))
