"""Speculative decoding as planned: a round by hand, a gain that hangs on the load, variables and back, calibration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_capacity_curve import bare, vllm

from loadproof.capacity import PlannedDeployment, StepTimes, deployment_from_container, make_plan, predict_run
from loadproof.capacity.calibration import fit, fit_document
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.deployment import speculating, with_calibration
from loadproof.capacity.observations import Figures, Observation, predicted_figures
from loadproof.capacity.speculation import accepted_by_position, fitted_to, speculation_row
from loadproof.families import FAMILIES, Speculative
from loadproof.families.sglang import SglangSpeculative
from loadproof.families.vllm import VllmSpeculative
from loadproof.profiles import load_profile
from loadproof.profiles.schema import CalibrationSource, Profile
from loadproof.simulation.rows import predict_row

EAGLE = VllmSpeculative(method="eagle3", tokens=3, draft_model="/opt/ml/model/draft")


def on_l40s(model_id: str, accelerators: int) -> PlannedDeployment:
    return deployment_from_container(
        family="vllm",
        version="0.15.1",
        variables={},
        model_id=model_id,
        architecture=None,
        instance_type="ml.g6e.12xlarge",
        accelerators_per_copy=accelerators,
        copies=1,
    )


def gain(deployment: PlannedDeployment, concurrency: int, wanted: Speculative = EAGLE) -> float:
    """Mean latency without, over that with."""
    sides = [predict_run(each, 512, 512, concurrency) for each in (deployment, speculating(deployment, wanted))]
    plain, speculated = (side.latency_mean_ms for side in sides if side is not None)
    return plain / speculated


def profile(tmp_path: Path, speculative: str) -> Profile:
    (tmp_path / "chat.yaml").write_text(f"""\
name: chat
model:
  id: Qwen/Qwen3-32B
  source: {{type: s3, s3_uri: "s3://models/qwen3-32b/"}}
container:
  family: vllm
  version: 0.30.0
  settings: {{tensor_parallel_degree: 4, max_model_len: 4096}}
{speculative}endpoint: {{instance_type: ml.g6e.12xlarge}}
objectives: {{at_concurrency: 2, e2e_p95_ms: 30000}}
workload: {{input_tokens: 512, output_tokens: 512}}
""")
    return load_profile(tmp_path / "chat.yaml")


def test_a_round_checks_all_in_one_step_and_is_shared_by_its_tokens() -> None:
    """Llama 3.1 8B on an H100 of 3,350 GB/s: weights 15.01 GB in 4.4806 ms; a head of 449.8 million parameters in
    0.2686 ms, and 1.03 ms a pass, three times; 1 + 0.456 + 0.2079 + 0.0948 = 1.7587 tokens a round."""
    steps = StepTimes(speculating(bare(vllm(accelerators=1)), EAGLE))
    assert steps.decode_ms(1, 0) == pytest.approx((4.4806 + 3 * (0.2686 + 1.03)) / 1.7587, rel=1e-3)


def test_a_prompt_beside_a_round_costs_its_own_time_whole() -> None:
    """What a prompt adds to a step is not divided by the tokens that the round gives."""
    plain, speculated = (StepTimes(each) for each in (vllm(accelerators=1), speculating(vllm(accelerators=1), EAGLE)))
    with_prompt, without = (
        speculated.step_ms(decodes=1, context_tokens=100, prefill_tokens=tokens, prefill_requests=min(tokens, 1))
        for tokens in (4000, 0)
    )
    assert with_prompt - without == pytest.approx(plain.prefill_ms(4000), rel=0.25)
    assert speculated.prefill_ms(4000) == plain.prefill_ms(4000)


def test_a_dense_models_gain_falls_with_the_load_and_ends_as_a_loss() -> None:
    """Published: 1.37 to 1.45 at 2 in flight, 0.81 at 32 (Qwen3 32B on four L40S, EAGLE3)."""
    gains = [gain(on_l40s("Qwen/Qwen3-32B", 4), concurrency) for concurrency in (2, 8, 32)]
    assert 1.25 < gains[0] < 1.5 and gains[0] > gains[1] > gains[2] and gains[2] < 0.9


def test_a_mixtures_gain_grows_as_its_experts_are_read_anyway() -> None:
    """Published: 0.92 alone, 1.27 at 32 (gpt-oss-20b on an L40S, EAGLE3)."""
    alone, many = (gain(on_l40s("openai/gpt-oss-20b", 1), concurrency) for concurrency in (1, 32))
    assert alone < 1 < many


def test_the_shares_of_a_round_sum_to_it() -> None:
    steps = StepTimes(speculating(on_l40s("Qwen/Qwen3-32B", 4), EAGLE))
    assert sum(steps.decode_shares(16, 9000).values()) == pytest.approx(steps.decode_ms(16, 9000))


@pytest.mark.parametrize(
    ("family", "wanted"),
    [
        ("vllm", EAGLE),
        ("vllm", VllmSpeculative(method="ngram", tokens=5, longest_ngram_tokens=4)),
        ("lmi", VllmSpeculative(method="mtp", tokens=1)),
        ("sglang", SglangSpeculative(method="eagle", tokens=3, draft_model="/opt/ml/model/draft")),
        ("sglang", SglangSpeculative(method="mtp", tokens=2, branches=4, checked_tokens=8)),
        ("sglang", SglangSpeculative(method="ngram", tokens=6)),
    ],
)
def test_a_containers_variables_are_read_back(family: str, wanted: Speculative) -> None:
    """What is deployed is planned as its profile is."""
    speculation = FAMILIES[family].speculation
    assert speculation is not None
    found = speculation.read(speculation.write(wanted))
    shape = on_l40s("Qwen/Qwen3-32B", 4)
    assert speculating(shape, found).speculation == speculating(shape, wanted).speculation is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"method": "medusa"}', '{"model": "x", "quantization": "awq"}'])
def test_a_config_that_no_profile_says_is_not_planned(text: str) -> None:
    speculation = FAMILIES["vllm"].speculation
    assert speculation is not None and speculation.read({"SM_VLLM_SPECULATIVE_CONFIG": text}) is None


def test_a_plan_says_what_it_is_worth_and_how_sure_it_is(tmp_path: Path) -> None:
    """A grade lower than plain decoding's (B: the newest vLLM is in no row), a wider range, and the gain at the
    objectives' load."""
    plain = make_plan(profile(tmp_path, ""))
    drafting = "  speculative: {method: eagle3, tokens: 3, draft_model: /opt/ml/model/draft}\n"
    plan = make_plan(profile(tmp_path, drafting))
    assert (plain.grade, plan.grade) == ("B", "C") and plan.confidence.band > plain.confidence.band
    assert plan.memory.weights_gib > plain.memory.weights_gib
    assert plan.at_objectives is not None and plain.at_objectives is not None
    worth = plain.at_objectives.e2e_ms / plan.at_objectives.e2e_ms
    assert any(f"at 2 in flight predicted {worth:.2f} times as fast as without it" in note for note in plan.notes)


def test_a_draft_model_nobody_knows_is_said_not_to_be_planned(tmp_path: Path) -> None:
    drafting = "  speculative: {method: draft_model, tokens: 3, draft_model: /opt/ml/model/draft}\n"
    found = make_plan(profile(tmp_path, drafting))
    assert found.deployment.speculation is None and any("is not planned" in note for note in found.notes)


def test_a_calibration_finds_how_many_are_kept() -> None:
    """A text whose tokens are right 7 times in 10, measured at four loads beside plain decoding."""
    shipped = on_l40s("Qwen/Qwen3-32B", 4)
    planned = speculating(shipped, EAGLE)
    assert planned.speculation is not None
    truth = replace(planned, speculation=replace(planned.speculation, accepted=accepted_by_position(0.7, 3)))
    blanks = [
        (Observation(f"{at}", deployment, 512, 256, at, Figures()), real)
        for at in (1, 4, 16)
        for deployment, real in ((shipped, shipped), (planned, truth))
    ]
    found = fit([replace(blank, measured=predicted_figures(blank, real)) for blank, real in blanks])
    source = CalibrationSource(file="runs/a/summary.json", sha256="0" * 64, levels=6)
    document = fit_document(found, [source], date="2026-11-24", simulated=False)
    assert document.speculation is not None
    assert document.speculation.accepted == pytest.approx((0.7, 0.49, 0.343), rel=0.02)
    calibrated = with_calibration(planned, document)
    assert calibrated.speculation is not None and calibrated.speculation.measured
    assert confidence_of(calibrated).grade == "A" and confidence_of(calibrated).band < confidence_of(planned).band


def test_rates_of_other_numbers_of_tokens_go_on_in_the_last_ones_ratio() -> None:
    assert fitted_to((0.8, 0.6, 0.3), 2) == (0.8, 0.6)
    assert fitted_to((0.8, 0.4), 4) == pytest.approx((0.8, 0.4, 0.2, 0.1))


def test_a_table_names_the_method_in_a_column() -> None:
    """`predict` over rows: EAGLE3's latency differs, and a word that is no method is refused."""
    row = {
        "model": "Qwen3 32B",
        "instance_type": "ml.g6e.12xlarge",
        "instance_count": "1",
        "tp_degree": "4",
        "input_tokens": "518",
        "output_tokens": "600",
        "concurrency": "2",
        "server": "vllm 0.15.1",
        "cached_input_tokens": "502",
    }
    plain, speculated = predict_row(row), predict_row({**row, "speculative_method": "eagle3"})
    name = "predicted_latency_mean_ms_per_token"
    assert float(plain[name]) / float(speculated[name]) == pytest.approx(1.36, abs=0.03)
    assert "expected one of none, eagle" in predict_row({**row, "speculative_method": "medusa"})["reason"]


def test_every_method_has_a_row_with_its_source() -> None:
    for method in ("draft_model", "eagle", "eagle3", "mtp", "ngram"):
        assert speculation_row(method).source and speculation_row(method).fitted == (method == "eagle3")
