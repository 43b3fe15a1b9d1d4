"""The planner's few fitted parameters: rows per server version and per fabric, none per model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from loadproof.catalog.readers import table

DATA = Path(__file__).parent / "data"
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


@dataclass(frozen=True, slots=True)
class OwnMeasurement:
    """Of one's own calibration: the errors it left, in place of its grade's bands, and what it was measured on.

    `accelerators` of a copy and `models` are empty where an older file does not say. `saw_ttft`: first tokens were
    measured, and the network before them with it.
    """

    band: float
    ttft_band: float
    version: str
    accelerators: int | None
    models: tuple[str, ...]
    saw_ttft: bool = True


@dataclass(frozen=True, slots=True)
class FittedRow:
    """Which prompts a server's row was fitted on, in tokens, on a generation of accelerators: those that were computed,
    not found in a cache. Written by scripts/fit_servers.py."""

    server: str
    generation: str
    prompt_tokens: tuple[int, ...]
    source: str


@dataclass(frozen=True, slots=True)
class ServerRow:
    """What a server adds to the hardware's time, and how it divides memory.

    One step costs `step_ms + step_ms_per_layer · layers + step_ms_per_doubling · log2(accelerators) +
    step_ms_per_sequence · sequences` beside the hardware's work, and each prompt token
    `prefill_us_per_token_per_doubling · log2(accelerators)`, beyond what all-reduce explains: its cause is not known.
    Layers of many small kernels cost more: those of a mixture of experts `step_ms_per_expert_layer` (routing, sorting),
    those of linear attention `step_ms_per_linear_layer`, both where a layer has both. A first token comes `ttft_ms`
    later than its step ends (HTTP, tokenization, scheduling).
    Efficiencies are shares of the datasheet's bandwidth and dense compute; a step of a single token, matrix times
    vector, reads weights `single_token_gain` times as fast, and KV caches are read at `kv_read_share` of the weights'
    rate. `split_kv` says that attention spreads one
    sequence's KV cache over many multiprocessors; servers without it need many sequences. `all_experts` says that every
    step reads all experts of a mixture, however few its tokens chose. `layers_in_turn` says that each accelerator holds
    whole layers and waits for the one before it, as Hugging Face Accelerate's `device_map="auto"` does: a copy is as
    fast as one accelerator. `calibrated_on` are accelerators, `ttft_models` the models whose first tokens were among
    what was fitted.
    """

    family: str
    version: str
    step_ms: float
    step_ms_per_layer: float
    step_ms_per_expert_layer: float
    step_ms_per_linear_layer: float
    step_ms_per_doubling: float
    step_ms_per_sequence: float
    prefill_us_per_token_per_doubling: float
    bandwidth_efficiency: float
    compute_efficiency: float
    single_token_gain: float
    kv_read_share: float
    ttft_ms: float
    split_kv: bool
    all_experts: bool
    layers_in_turn: bool
    memory_fraction: float
    reserve_gib: float
    calibrated_on: tuple[str, ...]
    ttft_models: tuple[str, ...]
    source: str
    own: OwnMeasurement | None = None
    prompt_doubt: float = 0.0  # of the compute efficiency (`EfficiencyRow.doubt`)
    fitted_prompts: tuple[int, ...] = ()  # in tokens, in order


@dataclass(frozen=True, slots=True)
class FabricRow:
    """What an all-reduce over `accelerators` of one instance gets: effective GB/s (1e9) and start-up time.

    `server` names the family the row was fitted under; empty means any other. `calibrated_degrees` are the tensor
    parallel degrees it was measured with: empty for a row nobody measured.
    """

    fabric: str
    accelerators: int
    server: str
    effective_gb_per_s: float
    latency_us: float
    calibrated_degrees: tuple[int, ...]
    source: str


@dataclass(frozen=True, slots=True)
class EfficiencyRow:
    """The share of the datasheet's dense compute that prompts reach under a server: by generation of accelerators
    (empty for any other), for dense models and for a mixture, whose tokens are dealt out over many small products, for
    products of 16 and of 8 bits. `doubt` is the width of the fit's posterior, as |log|, to hold eight in ten."""

    server: str
    generation: str
    mixture: bool
    fp8: bool
    compute_efficiency: float
    doubt: float
    source: str


def efficiency_row(family: str, accelerator: str, *, mixture: bool, fp8: bool) -> EfficiencyRow | None:
    """Of a server row's family on this accelerator, by name; None for servers whose own row speaks of it."""
    generation = GENERATION.get(accelerator, "")
    rows = {(row.server, row.generation, row.mixture, row.fp8): row for row in _efficiencies()}
    return rows.get((family, generation, mixture, fp8)) or rows.get((family, "", mixture, fp8))


def fitted_prompts(family: str, accelerator: str, rows: Sequence[FittedRow] | None = None) -> tuple[int, ...]:
    """Lengths of the prompts that a server row's family was fitted on, on this accelerator's generation or, where there
    were none, on any. Empty where nothing is known of it. `rows` in place of the shipped ones."""
    of_family = [row for row in (_fitted() if rows is None else rows) if row.server == family]
    here = [row for row in of_family if row.generation == GENERATION.get(accelerator)]
    return tuple(sorted({tokens for row in here or of_family for tokens in row.prompt_tokens}))


def server_row(family: str, version: str) -> ServerRow:
    """The row of a server whose version is the longest prefix of `version`, else its newest row."""
    of_family = [row for row in _servers() if row.family == family]
    fitting = [row for row in of_family if _is_prefix(row.version, version)]
    return max(fitting, key=lambda row: len(row.version)) if fitting else of_family[-1]


def fabric_row(fabric: str, accelerators: int, family: str) -> FabricRow:
    """The row of the smallest measured group that holds `accelerators`, else of the largest one measured; rows
    fitted under this server family come first."""
    if accelerators == 1:
        return FabricRow("none", 1, "", 1.0, 0.0, (1,), "one accelerator: nothing to reduce")
    of_fabric = sorted((row for row in _fabrics() if row.fabric == fabric), key=lambda row: row.accelerators)
    fitted = [row for row in of_fabric if row.server == family] or [row for row in of_fabric if not row.server]
    return next((row for row in fitted if row.accelerators >= accelerators), fitted[-1])


def _is_prefix(short: str, full: str) -> bool:
    parts = short.split(".") if short else []
    return full.split(".")[: len(parts)] == parts


@cache
def _servers() -> tuple[ServerRow, ...]:
    return tuple(table(ServerRow, DATA / "servers.csv", between=";"))


@cache
def _fitted() -> tuple[FittedRow, ...]:
    return tuple(table(FittedRow, DATA / "fitted.csv", between=";"))


@cache
def _efficiencies() -> tuple[EfficiencyRow, ...]:
    return tuple(table(EfficiencyRow, DATA / "efficiencies.csv"))


@cache
def _fabrics() -> tuple[FabricRow, ...]:
    return tuple(table(FabricRow, DATA / "fabrics.csv", between=";"))
