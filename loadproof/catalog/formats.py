"""How accelerators run weights of fewer bits: in units of their own, unpacked to 16 bits, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from loadproof.catalog.architecture import Architecture
from loadproof.catalog.readers import DATA, table

# Checkpoints whose FP8 weights have one scale for each block of 128 x 128 (weight_block_size of their config.json), and
# what shares the experts out whole. Sources: github.com/vllm-project/vllm/issues/17569, sgl-project/sglang/issues/10852
# (Qwen) and 3345 (DeepSeek), vllm-project/recipes/pull/96 and kvcache-ai/ktransformers/issues/2036 (MiniMax); the same
# check in vllm 0.28 to 0.30 (layers/quantization/fp8.py, utils/fp8_utils.py).
_BLOCK: Final = 128
_BLOCK_FP8: Final = re.compile(r"Qwen/Qwen3.*-FP8|MiniMaxAI/MiniMax-M2.*|deepseek-ai/DeepSeek-(V3|R1)(-\d+)?")
_WHOLE_EXPERTS: Final = {
    "vllm": ("SM_VLLM_ENABLE_EXPERT_PARALLEL",),
    "lmi": ("OPTION_ENABLE_EXPERT_PARALLEL",),
    "sglang": ("SM_SGLANG_EP_SIZE", "SM_SGLANG_EXPERT_PARALLEL_SIZE", "SM_SGLANG_EP"),
}


@dataclass(frozen=True, slots=True)
class FormatRow:
    """`runs` is `native` (products in the format), `unpacked` (to 16 bits before each product: what is read and kept is
    small, what is computed is not) or `never` (no kernel)."""

    format: str
    accelerators: tuple[str, ...]
    runs: str
    source: str


def format_on(quantization: str, accelerator: str) -> FormatRow | None:
    """The row of a format on an accelerator, both by name; None where nobody said."""
    return _by_pair().get((quantization, accelerator))


def torn_blocks(
    family: str, model_id: str, shape: Architecture, degree: int, variables: Mapping[str, str]
) -> Iterator[str]:
    """What a server stops with where tensor parallelism cuts through an expert's blocks of FP8 weights."""
    whole = _WHOLE_EXPERTS.get(family)
    part = shape.moe_intermediate // degree
    if whole is None or not part % _BLOCK or not _BLOCK_FP8.fullmatch(model_id):
        return
    if not any(variables.get(name, "false").lower() not in ("false", "1") for name in whole):
        yield (
            f"The output_size of gate's and up's weight = {part} is not divisible by weight quantization "
            f"block_n = {_BLOCK}"
        )


@cache
def _by_pair() -> Mapping[tuple[str, str], FormatRow]:
    rows = table(FormatRow, DATA / "formats.csv", between=";")
    return {(row.format, name): row for row in rows for name in row.accelerators}
