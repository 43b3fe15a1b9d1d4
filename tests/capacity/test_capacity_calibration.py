"""A calibration finds the server that was measured, says how sure it is, and plans with what it found."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.capacity import PlannedDeployment, deployment_from_container, deployment_of, predict_level
from loadproof.capacity.calibration import fit, fit_document
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.deployment import with_calibration
from loadproof.capacity.observations import Figures, Observation, predicted_figures
from loadproof.errors import InputError
from loadproof.profiles import load_profile
from loadproof.profiles.schema import CalibrationSource

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = [CalibrationSource(file="runs/a/summary.json", sha256="0" * 64, levels=3)]


def shipped(accelerators: int = 1, family: str = "vllm") -> PlannedDeployment:
    return deployment_from_container(
        family=family,  # type: ignore[arg-type]
        version="",
        variables={},
        model_id="meta-llama/Llama-3.1-8B-Instruct",
        architecture=None,
        instance_type="ml.g6e.2xlarge" if accelerators == 1 else "ml.g6e.12xlarge",
        accelerators_per_copy=accelerators,
        copies=1,
    )


def measured_by(truth: PlannedDeployment, concurrency: int, **spoiled: float) -> Observation:
    """What a server that really is `truth` measures, some figures spoiled by a factor, on the shipped deployment."""
    blank = Observation(f"at {concurrency}", shipped(truth.accelerators), 256, 128, concurrency, Figures())
    seen = predicted_figures(blank, truth)
    return replace(
        blank, measured=replace(seen, **{name: getattr(seen, name) * factor for name, factor in spoiled.items()})
    )


def slower(step_ms: float, per_sequence_ms: float, accelerators: int = 1) -> PlannedDeployment:
    base = shipped(accelerators)
    return replace(base, server=replace(base.server, step_ms=step_ms, step_ms_per_sequence=per_sequence_ms))


@settings(max_examples=6, deadline=None)
@given(st.floats(3.0, 25.0), st.floats(0.05, 0.5))
def test_levels_1_2_4_of_another_server_predict_its_32(step_ms: float, per_sequence_ms: float) -> None:
    """A server that takes up to twenty times the shipped row's time a step is extrapolated within 10%."""
    truth = slower(step_ms, per_sequence_ms)
    found = fit([measured_by(truth, concurrency) for concurrency in (1, 2, 4)])
    level, real = predict_level(found.deployment, 256, 128, 32), predict_level(truth, 256, 128, 32)
    assert level is not None and real is not None
    assert level.output_tokens_per_s == pytest.approx(real.output_tokens_per_s, rel=0.10)


def test_measurements_that_agree_with_the_shipped_rows_change_nothing() -> None:
    """No error to mend: every parameter stays at its prior."""
    found = fit([measured_by(shipped(), concurrency) for concurrency in (1, 4, 16)])
    assert found.parameters == pytest.approx(found.priors, rel=1e-6)
    assert 0.05 <= found.band < 0.065  # 5% of the form, and what three levels of such noise leave
    assert found.outliers == 0


def test_a_spoiled_figure_is_flagged_and_not_followed() -> None:
    """One throughput of five levels read at half: that one is the outlier, the others are reached within 2%."""
    truth = slower(8.0, 0.1)
    cells = [measured_by(truth, concurrency) for concurrency in (1, 2, 4, 16)]
    found = fit([*cells, measured_by(truth, 8, output_tokens_per_s=0.5)])
    flagged = [(level.observation.concurrency, level.outliers) for level in found.levels if level.outliers]
    assert flagged == [(8, ("output_tokens_per_s",))]
    for level in found.levels[:4]:
        assert level.after.e2e_ms == pytest.approx(level.observation.measured.e2e_ms, rel=0.02)


def test_the_fabric_is_fitted_where_a_copy_has_several_accelerators() -> None:
    """Four accelerators: bandwidth and latency of their all-reduce are among the parameters; with one they are not."""
    truth = slower(5.0, 0.05, accelerators=4)
    truth = replace(truth, fabric=replace(truth.fabric, latency_us=60.0))
    found = fit([measured_by(truth, concurrency) for concurrency in (1, 4, 16)])
    assert {"effective_gb_per_s", "latency_us"} <= found.parameters.keys()
    assert found.deployment.fabric.latency_us > shipped(4).fabric.latency_us
    assert not {"effective_gb_per_s", "latency_us"} & fit([measured_by(shipped(), 1)]).parameters.keys()


def test_own_hardware_is_found_from_far_away() -> None:
    """30 GB/s and 0.5 TFLOP/s in place of an L40S: its levels 1, 2, 4 give the throughput of 16 within 20%,
    for what of a step is read and what is constant shows late, and its TTFT within 15%."""
    base = slower(20.0, 1.0)
    truth = replace(
        base,
        accelerator=replace(base.accelerator, bandwidth_gb_per_s=30.0, bf16_tflops=0.5),
        server=replace(base.server, bandwidth_efficiency=1.0, compute_efficiency=1.0),
    )
    found = fit([measured_by(truth, concurrency) for concurrency in (1, 2, 4)], hardware="a workstation")
    level, real = predict_level(found.deployment, 256, 128, 16), predict_level(truth, 256, 128, 16)
    assert level is not None and real is not None
    assert level.output_tokens_per_s == pytest.approx(real.output_tokens_per_s, rel=0.20)
    assert level.ttft_ms == pytest.approx(real.ttft_ms, rel=0.15)
    assert found.deployment.accelerator.name == "a workstation"


def test_two_levels_say_what_lies_between_them_and_little_of_what_lies_beyond() -> None:
    """Levels 1 and 2: narrower at 1 and 2 than for a curve to 64, of which they know little; 1 and 64 hold all of it.
    Own hardware has no shipped row to start from: 25%."""
    cells = [measured_by(slower(8.0, 0.1), concurrency) for concurrency in (1, 2, 64)]
    curve = (1, 2, 4, 8, 16, 32, 64)
    between, beyond, across = fit(cells[:2]), fit(cells[:2], loads=curve), fit(cells[::2], loads=curve)
    assert not between.left_out
    assert between.band < 0.07 < beyond.band
    assert across.band < 0.07
    assert fit(cells[:2], hardware="a workstation").band == 0.25


def test_a_first_token_that_nobody_saw_is_as_unknown_as_before() -> None:
    """Without TTFT: 50%, and 60 ms on top as for a shipped row; with it none on top."""
    cells = [measured_by(slower(8.0, 0.1), concurrency) for concurrency in (1, 2)]
    unseen = fit([replace(cell, measured=replace(cell.measured, ttft_ms=None)) for cell in cells])
    sides = [
        confidence_of(with_calibration(shipped(), fit_document(one, SOURCES, None))) for one in (unseen, fit(cells))
    ]
    assert [side.ttft_on_top_ms for side in sides] == [60.0, 0.0]
    assert unseen.ttft_band == 0.5


def test_the_network_before_a_server_is_found() -> None:
    """120 ms before every first token, two levels: the fit finds them within 10 ms; a token takes as long, to 0.1%."""
    truth = replace(shipped(), server=replace(shipped().server, ttft_ms=120.0))
    found = fit([measured_by(truth, concurrency) for concurrency in (1, 16)])
    assert found.parameters["ttft_ms"] == pytest.approx(120.0, abs=10.0)
    for level in found.levels:
        assert level.after.tpot_ms == pytest.approx(level.observation.measured.tpot_ms, rel=0.001)


def test_levels_of_two_kinds_are_refused() -> None:
    """One calibration speaks of one server on one accelerator, as many of it a copy."""
    with pytest.raises(InputError, match="several numbers of accelerators a copy: 1, 4"):
        fit([measured_by(shipped(), 1), measured_by(shipped(4), 1)])
    tgi = replace(measured_by(shipped(), 1), deployment=replace(shipped(), family="tgi", version="3.3.6"))
    with pytest.raises(InputError, match=r"several servers: tgi 3\.3\.6, vllm"):
        fit([measured_by(shipped(), 1), tgi])


def test_without_a_figure_there_is_nothing_to_fit_to() -> None:
    """Levels that measured nothing are no calibration."""
    with pytest.raises(InputError, match="nothing to calibrate on"):
        fit([Observation("empty", shipped(), 256, 128, 1, Figures())])


def test_the_document_gives_the_fitted_deployment_back() -> None:
    """What is written plans like what was fitted, to the five digits written; grade A with its own bands."""
    found = fit([measured_by(slower(8.0, 0.1), concurrency) for concurrency in (1, 2, 4)])
    document = fit_document(found, SOURCES, "2026-11-21")
    applied = with_calibration(shipped(), document)
    assert predicted_figures(measured_by(shipped(), 16), applied).e2e_ms == pytest.approx(
        predicted_figures(measured_by(shipped(), 16), found.deployment).e2e_ms, rel=1e-4
    )
    confidence = confidence_of(applied)
    assert (confidence.grade, confidence.band) == ("A", pytest.approx(document.band))
    assert confidence.meaning == "calibrated on 3 levels in 1 file of 2026-11-21 of your own measurements"


def test_a_calibration_of_another_server_or_chip_changes_nothing() -> None:
    """Alternatives of a calibrated profile are planned with the shipped rows."""
    document = fit_document(fit([measured_by(slower(8.0, 0.1), 1)]), SOURCES, None)
    elsewhere = replace(shipped(), accelerator=replace(shipped().accelerator, name="H100"))
    assert with_calibration(elsewhere, document) is elsewhere
    assert with_calibration(replace(shipped(), family="lmi"), document).server == shipped().server


def test_a_fabric_measured_with_four_is_not_used_for_two() -> None:
    """Its row stays as shipped where the copy has another number of accelerators."""
    truth = slower(5.0, 0.05, accelerators=4)
    document = fit_document(fit([measured_by(truth, concurrency) for concurrency in (1, 4)]), SOURCES, None)
    assert document.fabric is not None and document.fabric.accelerators == 4
    two = shipped(2)
    assert with_calibration(two, document).fabric == two.fabric


def test_what_was_not_measured_widens_the_band_and_is_said() -> None:
    """Measured with one accelerator at a 5% band, planned with two: sqrt(ln 1.05² + 0.07²) at least; another model
    adds 0.11, another version 0.15 and grade B."""
    found = replace(fit([measured_by(shipped(), load) for load in (1, 4, 16)]), band=0.05)
    document = fit_document(found, SOURCES, None)
    two = confidence_of(with_calibration(shipped(2), document))
    assert two.band >= exp(sqrt(log(1.05) ** 2 + 0.07**2)) - 1
    assert two.meaning.endswith("of your own measurements, but with 1 accelerator a copy, not 2")
    other = confidence_of(with_calibration(replace(shipped(), model_id="example/other"), document))
    assert other.band == pytest.approx(exp(sqrt(log(1.05) ** 2 + 0.11**2)) - 1)
    assert other.meaning.endswith("but on meta-llama/Llama-3.1-8B-Instruct")
    server = document.server.model_copy(update={"version": "0.10.1"})
    older = document.model_copy(update={"server": server})
    newer = confidence_of(with_calibration(replace(shipped(), version="0.11.0"), older))
    assert (newer.grade, newer.band) == ("B", pytest.approx(exp(sqrt(log(1.05) ** 2 + 0.15**2)) - 1))


def test_the_twin_makes_no_plan_surer() -> None:
    """Levels of a local cloud are predictions: parameters are taken, grade and bands stay the shipped row's."""
    document = fit_document(fit([measured_by(slower(8.0, 0.1), load) for load in (1, 2, 4)]), SOURCES, None)
    simulated = with_calibration(shipped(), document.model_copy(update={"simulated": True}))
    assert simulated.server.step_ms == document.parameters.step_ms
    assert confidence_of(simulated) == confidence_of(shipped())
    assert simulated.server.source == "calibrated on 3 levels in 1 file of a local cloud's twin, simulated"


def test_own_hardware_keeps_nothing_of_gpu_kernels() -> None:
    """A single token reads weights at the fitted bandwidth: the gain of 1.07 was measured on GPUs."""
    cells = [replace(measured_by(shipped(), load), label=str(load)) for load in (1, 2, 4)]
    found = fit(cells, hardware="one core")
    for deployment in (found.deployment, with_calibration(shipped(), fit_document(found, SOURCES, None))):
        assert deployment.server.single_token_gain == 1.0
        assert deployment.accelerator.multiprocessors is None


def test_a_level_that_cannot_be_served_is_refused() -> None:
    """Ten million tokens of one request fit on no L40S, whatever a file says."""
    cell = replace(measured_by(shipped(), 1), output_tokens=10_000_000)
    with pytest.raises(InputError, match=r"at 1: 256 \+ 10000000 tokens do not fit on meta-llama"):
        fit([cell])


def test_the_profile_that_names_it_is_planned_with_it(tmp_path: Path) -> None:
    """`calibration:` reaches deployment_of, and a change of one figure in it changes the profile's hash."""
    from loadproof.cli.calibrate.files import calibration_text
    from loadproof.profiles import profile_hash

    profile = (REPOSITORY / "deploy_profiles/local-vllm/tiny-llama.yaml").read_text()
    chosen = tmp_path / "tiny-llama.yaml"
    chosen.write_text(profile + "calibration: calibration.yaml\n")
    base = deployment_of(load_profile(REPOSITORY / "deploy_profiles/local-vllm/tiny-llama.yaml"))
    cells = [
        Observation(f"at {load}", base, 48, 64, load, Figures(tpot_ms=9.0 + load / 4, ttft_ms=20.0 * load))
        for load in (1, 2, 4)
    ]
    document = fit_document(fit(cells, hardware="one core"), SOURCES, None)
    (tmp_path / "calibration.yaml").write_text(calibration_text(document))
    loaded = load_profile(chosen)
    assert loaded.calibration == document
    assert deployment_of(loaded).accelerator.name == "one core"
    before = profile_hash(loaded)
    (tmp_path / "calibration.yaml").write_text(calibration_text(document.model_copy(update={"band": 0.5})))
    assert profile_hash(load_profile(chosen)) != before
