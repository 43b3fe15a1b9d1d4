"""A calibration in use: one's own measurements in the place of the shipped rows."""

from __future__ import annotations

from dataclasses import replace

from loadproof.capacity.servers import FabricRow, OwnMeasurement, ServerRow
from loadproof.capacity.speculation import Speculation, fitted_to
from loadproof.catalog import Accelerator
from loadproof.profiles.schema import Calibration


def calibrated_rows(
    calibration: Calibration, server: ServerRow, fabric: FabricRow, accelerator: Accelerator
) -> tuple[ServerRow, FabricRow, Accelerator]:
    """The rows with one's own measurements in their place.

    The fabric's stays where the calibration measured another number of accelerators, the accelerator's unless the
    calibration brings hardware of its own.
    """
    levels = "1 level" if calibration.levels == 1 else f"{calibration.levels} levels"
    runs = "1 file" if len(calibration.sources) == 1 else f"{len(calibration.sources)} files"
    when = f" of {calibration.date}" if calibration.date else ""
    whose = "a local cloud's twin, simulated" if calibration.simulated else "your own measurements"
    source = f"calibrated on {levels} in {runs}{when} of {whose}"
    found = calibration.fabric
    if found is not None and found.accelerators == fabric.accelerators:
        fabric = replace(
            fabric,
            effective_gb_per_s=found.effective_gb_per_s,
            latency_us=found.latency_us,
            calibrated_degrees=fabric.calibrated_degrees
            if calibration.simulated
            else (calibration.accelerators or found.accelerators,),
            source=source,
        )
    if own := calibration.hardware:
        server, accelerator = own_hardware(
            server, accelerator, own.name, bandwidth_gb_per_s=own.bandwidth_gb_per_s, bf16_tflops=own.bf16_tflops
        )
        accelerator = replace(accelerator, source=source)
    server = replace(server, **calibration.parameters.model_dump(exclude_none=True), source=source)
    if calibration.simulated:  # a prediction fitted to predictions: no surer than it was
        return server, fabric, accelerator
    row = replace(
        server,
        calibrated_on=(accelerator.name,),
        own=OwnMeasurement(
            band=calibration.band,
            ttft_band=calibration.ttft_band,
            version=calibration.server.version,
            accelerators=calibration.accelerators,
            models=calibration.models,
            saw_ttft=any(error.figure == "ttft_ms" for error in calibration.errors),
        ),
    )
    return row, fabric, accelerator


def calibrated_speculation(calibration: Calibration, planned: Speculation | None) -> Speculation | None:
    """With one's own shares of kept tokens, where they are of the same method."""
    own = calibration.speculation
    if planned is None or own is None or own.method != planned.method:
        return planned
    return replace(planned, accepted=fitted_to(own.accepted, planned.tokens), measured=not calibration.simulated)


def own_hardware(
    server: ServerRow, accelerator: Accelerator, name: str, *, bandwidth_gb_per_s: float, bf16_tflops: float
) -> tuple[ServerRow, Accelerator]:
    """Both rows for hardware whose effective figures were fitted: no share of them is lost, and nothing is left of what
    the shipped rows know of GPUs and their hosts (a single token's faster read, multiprocessors to keep busy, HTTP)."""
    bare = replace(server, bandwidth_efficiency=1.0, compute_efficiency=1.0, single_token_gain=1.0, ttft_ms=0.0)
    chip = replace(
        accelerator,
        name=name,
        bandwidth_gb_per_s=bandwidth_gb_per_s,
        bf16_tflops=bf16_tflops,
        fp8_tflops=None,
        multiprocessors=None,
    )
    return bare, chip
