"""How far a prediction may be trusted: a grade with an honest meaning, and the bands that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loadproof.capacity.deployment import Deployment
from loadproof.capacity.servers import ServerRow

Grade = Literal["A", "B", "C", "D"]

GENERATION = {
    "T4": "Turing",
    "A10G": "Ampere",
    "A100-40": "Ampere",
    "A100-80": "Ampere",
    "L4": "Ada",
    "L40S": "Ada",
    "H100": "Hopper",
    "H200": "Hopper",
    "RTX PRO 6000 Server": "Blackwell",
    "B200": "Blackwell",
    "B300": "Blackwell",
}
MEANING: dict[Grade, str] = {
    "A": "server and accelerator calibrated against published measurements",
    "B": "calibrated on the same accelerator architecture or another version of the server",
    "C": "accelerator known from its datasheet only",
    "D": "server never seen on such an accelerator: a rough guess",
}
# Width of the band around throughput and decode latency, in percent of the figure. A holds for about nine in ten cells
# of the founding tables in sample (a test keeps it so) and eight in ten with one model, degree or payload held out
# (docs/accuracy.md); B and C are near the 90th percentile of a prototype of this model; D is a factor of two.
BANDS: dict[Grade, float] = {"A": 0.15, "B": 0.25, "C": 0.45, "D": 1.0}
# TTFT is the least certain figure at any grade: routing, tokenization and prefix hits are not in the model.
_TTFT_BAND = 0.5


@dataclass(frozen=True, slots=True)
class Confidence:
    """Grade and bands. A value v lies in v / (1 + band) .. v · (1 + band)."""

    grade: Grade
    meaning: str
    band: float
    ttft_band: float

    def interval(self, value: float, *, ttft: bool = False) -> tuple[float, float]:
        """(low, high) around a predicted value."""
        band = self.ttft_band if ttft else self.band
        return value / (1 + band), value * (1 + band)


def confidence_of(deployment: Deployment) -> Confidence:
    """The grade of a deployment, from what its server's row was calibrated on."""
    server = deployment.server
    if server.measured_band is not None:
        return Confidence("A", server.source, server.measured_band, server.measured_ttft_band or _TTFT_BAND)
    grade = _grade(deployment)
    return Confidence(grade, MEANING[grade], BANDS[grade], max(BANDS[grade], _TTFT_BAND))


def _grade(deployment: Deployment) -> Grade:
    server, chip = deployment.server, deployment.accelerator.name
    if deployment.family in ("custom", "sglang") or chip not in GENERATION:
        return "D"
    if chip in server.calibrated_on:
        return "A" if _same_version(server, deployment.version) else "B"
    seen = {GENERATION[name] for name in server.calibrated_on}
    return "B" if GENERATION[chip] in seen else "C"


def _same_version(server: ServerRow, version: str) -> bool:
    return not server.version or version.split(".")[0] == server.version.split(".")[0]
