"""A calibration on requests that were all alike knows that they met: a real vLLM's levels are the witness."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.capacity import deployment_of
from loadproof.capacity.calibration import Fit, fit
from loadproof.capacity.observations import Figures, Observation
from loadproof.capacity.workload import PlannedWorkload
from loadproof.profiles import load_profile
from loadproof.sessions import equal_requests
from loadproof.simulation.replay import ttft_factor

PROFILE = Path(__file__).resolve().parents[2] / "scripts" / "real_server" / "sessions.yaml"
# vLLM 0.32.0 (CPU build) on one core, 2026-11-26, median of three runs: in flight, prompt, tokens/s and means in ms of
# TTFT, TPOT and E2E; answers of 48 tokens, clients that begin together.
MEASURED = (
    (1, 219, 152.0, 41.17, 5.83, 315.7),
    (2, 219, 236.1, 66.88, 7.16, 405.45),
    (4, 219, 385.9, 121.18, 8.0, 496.6),
    (1, 1019, 91.9, 199.66, 6.95, 522.32),
    (4, 1019, 150.9, 501.57, 16.35, 1270.18),
)


def calibrated(tmp_path: Path, *, played: bool) -> Fit:
    file = tmp_path / "sessions.yaml"
    file.write_text(PROFILE.read_text(encoding="utf-8").replace("calibration: calibration.yaml\n", ""), "utf-8")
    deployment = deployment_of(load_profile(file))
    cells = []
    for in_flight, prompt, tokens_per_s, ttft_ms, tpot_ms, e2e_ms in MEASURED:
        load = PlannedWorkload(prompt, 48, mixture=equal_requests(prompt, 48))
        figures = Figures(tokens_per_s, ttft_ms, tpot_ms, e2e_ms)
        cells.append(Observation(f"{in_flight}", deployment, prompt, 48, in_flight, figures, workload=load))
    return fit(cells, hardware="one CPU core", played=ttft_factor if played else None)


def worst_ttft(found: Fit) -> float:
    """Of all levels, |after / measured - 1|."""
    pairs = [(one.after.ttft_ms, one.observation.measured.ttft_ms) for one in found.levels]
    return max(abs(after / measured - 1) for after, measured in pairs if after and measured)


def test_first_tokens_of_alike_requests_are_met_at_every_level(tmp_path: Path) -> None:
    """Four clients keep step: the first is prefilled alone and the three others wait for it."""
    assert worst_ttft(calibrated(tmp_path, played=True)) < 0.12


def test_the_formula_alone_cannot(tmp_path: Path) -> None:
    assert worst_ttft(calibrated(tmp_path, played=False)) > 0.20


def test_its_range_of_ttft_is_narrow(tmp_path: Path) -> None:
    """Levels left out in turn are met, so the band need not be wide."""
    assert calibrated(tmp_path, played=True).ttft_band == pytest.approx(0.12, abs=0.05)
