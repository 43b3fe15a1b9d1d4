"""What a calibration asks: which parameters may move, from which priors, and how far off they leave each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TypeVar

from loadproof.capacity.calibrated import own_hardware
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.fitting import BOUNDS, Parameters, approach, search
from loadproof.capacity.memory import weight_bytes
from loadproof.capacity.observations import FIGURES, FigureName, Observation, predicted_figures
from loadproof.capacity.speculation import accepted_by_position
from loadproof.errors import InputError

# TTFT holds the client's place in a prefill, which no parameter knows.
WEIGHTS: Mapping[FigureName, float] = {"ttft_ms": 0.5}
# Being off its prior by a factor e costs a parameter as much as 0.5% on one figure: what the levels do not speak of
# stays, what they say at all they may say. A server's time per step differs tenfold between versions and hosts.
PRIOR_WEIGHT = 0.005
ROUNDS = 25
# Server and own hardware: what a few levels of one model on one machine can speak of. `step_ms_per_layer` and
# `step_ms_per_doubling` need several models or degrees, and stay as shipped.
SERVER = ("step_ms", "step_ms_per_sequence", "bandwidth_efficiency", "compute_efficiency")
ACCEPTANCE = "acceptance"  # of a proposed token, where some of the levels speculated
OUTSIDE = "ttft_ms"  # what lies between client and step
FABRIC = ("effective_gb_per_s", "latency_us")
HARDWARE = ("bandwidth_gb_per_s", "bf16_tflops")
PARAMETER_BOUNDS = {
    **BOUNDS,
    "step_ms": (0.05, 1000.0),
    "step_ms_per_sequence": (1e-4, 100.0),
    ACCEPTANCE: (0.02, 0.98),
    OUTSIDE: (0.1, 10_000.0),
}
_SMALLEST_PRIOR = 1e-3  # of a parameter whose shipped value is 0: its logarithm must exist
_NEXT_DOOR_MS = 1.0  # the like of OUTSIDE: a client in the endpoint's own network
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Problem:
    """The parameters to fit with their priors. `hardware` names what served instead of the accelerator, if anything."""

    priors: Parameters
    hardware: str | None

    def applied(self, deployment: PlannedDeployment, parameters: Parameters) -> PlannedDeployment:
        """The deployment with a candidate's parameters."""
        server = _with(deployment.server, {name: parameters[name] for name in (*SERVER, OUTSIDE) if name in parameters})
        chip, fabric = deployment.accelerator, deployment.fabric
        if self.hardware is not None:
            server, chip = own_hardware(server, chip, self.hardware, **{name: parameters[name] for name in HARDWARE})
            server = replace(server, ttft_ms=parameters[OUTSIDE])
        if deployment.accelerators > 1:
            fabric = _with(fabric, {name: parameters[name] for name in FABRIC})
        speculation = deployment.speculation
        if speculation is not None:
            accepted = accepted_by_position(parameters[ACCEPTANCE], speculation.tokens)
            speculation = replace(speculation, accepted=accepted)
        return replace(deployment, server=server, accelerator=chip, fabric=fabric, speculation=speculation)

    def solved(self, observations: Sequence[Observation]) -> Parameters:
        """The parameters that suit these levels best."""

        def errors(parameters: Parameters) -> list[float]:
            return [
                error for cell in observations for error in _errors(cell, self.applied(cell.deployment, parameters))
            ]

        # The way there is the figures' alone, but for what they do not speak of; the priors' say comes after.
        start = approach(errors, self.priors, 2 * ROUNDS, bounds=PARAMETER_BOUNDS, prior_weight=PRIOR_WEIGHT / 1000)
        return search(errors, self.priors, ROUNDS, bounds=PARAMETER_BOUNDS, prior_weight=PRIOR_WEIGHT, start=start)


def problem_of(observations: Sequence[Observation], hardware: str | None) -> Problem:
    """The shipped rows are the priors; of own hardware, what its lowest level suggests.

    Raises InputError where own hardware has neither a latency nor a throughput there.
    """
    first = observations[0].deployment
    if hardware is None:
        priors = {name: max(getattr(first.server, name), _SMALLEST_PRIOR) for name in SERVER}
        priors[OUTSIDE] = max(first.server.ttft_ms, _NEXT_DOOR_MS)
    else:
        priors = _hardware_start(observations)
    if first.accelerators > 1:
        priors |= {name: max(getattr(first.fabric, name), _SMALLEST_PRIOR) for name in FABRIC}
    drafts = [cell.deployment.speculation for cell in observations if cell.deployment.speculation is not None]
    if drafts:
        priors[ACCEPTANCE] = drafts[0].accepted[0]
    return Problem(priors, hardware)


def _hardware_start(observations: Sequence[Observation]) -> Parameters:
    """Orders of magnitude for hardware nobody has a datasheet of, from the level with the fewest in flight.

    Its TTFT is one prefill: 2 · parameters · prompt / TTFT FLOP/s. Half its TPOT is taken for reading the weights,
    half for the server. The search moves all of them by a factor of up to 20.
    """
    cell = min(observations, key=lambda candidate: candidate.concurrency)
    measured, shape = cell.measured, cell.deployment.architecture
    e2e_ms = measured.e2e_ms
    if e2e_ms is None and measured.output_tokens_per_s is not None:
        e2e_ms = cell.concurrency * cell.output_tokens / measured.output_tokens_per_s * 1e3
    if measured.tpot_ms is None and e2e_ms is None:
        raise InputError(f"{cell.label}: own hardware needs TPOT, latency or throughput at the lowest level")
    tpot_ms = measured.tpot_ms or (e2e_ms or 0.0) / cell.output_tokens
    ttft_ms = measured.ttft_ms or tpot_ms
    flops = 2 * shape.active_parameters_b * 1e9 * cell.input_tokens / (ttft_ms * 1e-3) / cell.deployment.accelerators
    bytes_per_ms = weight_bytes(cell.deployment) / cell.deployment.accelerators / (tpot_ms / 2)
    return {
        "step_ms": tpot_ms / 2,
        "step_ms_per_sequence": tpot_ms / 50,
        "bandwidth_gb_per_s": bytes_per_ms / 1e6,
        "bf16_tflops": flops / 1e12,
        OUTSIDE: _NEXT_DOOR_MS,
    }


def _errors(cell: Observation, deployment: PlannedDeployment) -> list[float]:
    """Weighted log(predicted / measured) of each measured figure; 1 where the level is said to be impossible."""
    predicted = predicted_figures(cell, deployment)
    errors = []
    for name in FIGURES:
        measured, value = getattr(cell.measured, name), getattr(predicted, name)
        if measured is not None:
            errors.append(WEIGHTS.get(name, 1.0) * log(value / measured) if value else 1.0)
    return errors


def _with(row: _Row, values: Mapping[str, float]) -> _Row:
    """`replace` for float fields named at run time."""
    changes: dict[str, object] = dict(values)
    return replace(row, **changes)  # type: ignore[type-var]
