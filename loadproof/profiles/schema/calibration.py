"""A calibration: the planner's parameters as one's own runs gave them. `loadproof calibrate` writes it."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from loadproof.families import SpeculationMethod
from loadproof.profiles.schema.container import Family
from loadproof.vocabulary import Form, Fraction, Part, PositiveInt, PositiveNumber

Count = Annotated[int, Field(ge=0)]
Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Sha256 = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), Form("a SHA-256 of 64 hexadecimal digits", "0" * 64)
]
Day = Annotated[
    str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$"), Form("a quoted day, year first", '"2026-11-21"')
]


class CalibratedServer(Part):
    """The server that was measured."""

    family: Family
    version: str = Field(description="as measured; empty where nobody said")


class ServerParameters(Part):
    """Time of one step beside the hardware's work, and shares of the hardware's figures that are reached."""

    step_ms: Duration
    step_ms_per_layer: Duration
    step_ms_per_doubling: Duration = Field(description="for each doubling of accelerators, in milliseconds")
    step_ms_per_sequence: Duration
    bandwidth_efficiency: Fraction
    compute_efficiency: Fraction
    ttft_ms: Duration | None = Field(
        default=None, description="what a first token takes besides its step: network, HTTP; absent: as shipped"
    )


class FabricParameters(Part):
    """What an all-reduce over `accelerators` of one instance reaches."""

    accelerators: PositiveInt
    effective_gb_per_s: PositiveNumber
    latency_us: Duration


class OwnHardware(Part):
    """What served instead of the instance type's accelerator: effective figures, fitted."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    bandwidth_gb_per_s: PositiveNumber
    bf16_tflops: PositiveNumber


class CalibratedSpeculation(Part):
    """How many of the proposed tokens are kept under speculative decoding."""

    method: SpeculationMethod
    accepted: Annotated[tuple[Fraction, ...], Field(min_length=1, max_length=64)] = Field(
        description="share of the rounds that keep the token proposed there, by position, as vLLM's log has it"
    )


class CalibrationError(Part):
    """Median absolute error of one figure, as a share: 0.1 is 10%."""

    figure: Literal["output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms", "e2e_p90_ms"]
    levels: PositiveInt
    before: Duration
    after: Duration


class CalibrationSource(Part):
    """One measured file."""

    file: Annotated[str, StringConstraints(max_length=1000)]
    sha256: Sha256
    levels: PositiveInt


class Calibration(Part):
    """Server and fabric parameters fitted to one's own runs, with what they were fitted on and how well."""

    schema_version: Literal[1]
    server: CalibratedServer
    accelerator: str = Field(description="of the instance type that was measured or planned, as in the catalog")
    accelerators: PositiveInt | None = Field(default=None, description="of one copy, as measured")
    models: Annotated[tuple[str, ...], Field(max_length=1000)] = Field(default=(), description="that were measured")
    hardware: OwnHardware | None = None
    parameters: ServerParameters
    fabric: FabricParameters | None = Field(default=None, description="where a copy has several accelerators")
    speculation: CalibratedSpeculation | None = Field(default=None, description="where some of it speculated")
    simulated: bool = Field(default=False, description="some of it on a local cloud's twin: no measurement of hardware")
    date: Day | None = None
    levels: PositiveInt
    outliers: Count = 0
    prior_weight: Duration
    band: PositiveNumber = Field(description="around throughput and latency: a value v lies in v/(1+band)..v*(1+band)")
    ttft_band: PositiveNumber
    errors: Annotated[tuple[CalibrationError, ...], Field(max_length=5)]
    sources: Annotated[tuple[CalibrationSource, ...], Field(min_length=1, max_length=1000)]
