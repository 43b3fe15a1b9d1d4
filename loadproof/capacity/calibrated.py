"""A calibration in use: one's own measurements in the place of the shipped rows."""

from __future__ import annotations

from dataclasses import replace

from loadproof.capacity.servers import FabricRow, ServerRow
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
    source = f"calibrated on {levels} in {runs}{when} of your own measurements"
    found = calibration.fabric
    if found is not None and found.accelerators == fabric.accelerators:
        fabric = replace(
            fabric, effective_gb_per_s=found.effective_gb_per_s, latency_us=found.latency_us, source=source
        )
    if own := calibration.hardware:
        accelerator = replace(
            accelerator,
            name=own.name,
            bandwidth_gb_per_s=own.bandwidth_gb_per_s,
            bf16_tflops=own.bf16_tflops,
            fp8_tflops=None,
            source=source,
        )
    row = replace(
        server,
        **calibration.parameters.model_dump(),
        calibrated_on=(accelerator.name,),
        source=source,
        measured_band=calibration.band,
        measured_ttft_band=calibration.ttft_band,
    )
    return row, fabric, accelerator
