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
# AWQ and GPTQ have one scale for each group of weights along a product's inputs, 128 where nobody says another; a part
# that ends within one is refused. Sources: github.com/vllm-project/vllm/issues/5675 and 2699, QwenLM/Qwen3/issues/698;
# the same check in vllm 0.2.2 to 0.30 (layers/quantization/awq.py, gptq.py, auto_awq.py) and sglang 0.5.20
# (schemes/awq_linear.py, gptq_linear.py). Qwen widened its own checkpoints of 72B so that 8 divide them (issue 698).
_GROUP: Final = 128
_GROUPED: Final = ("awq", "gptq")
_GROUPED_SERVERS: Final = ("vllm", "lmi", "sglang")
_WIDENED: Final = re.compile(
    r"Qwen/Qwen2(\.5)?(-VL|-Math)?-72B-Instruct-(AWQ|GPTQ-Int[48])(?<!2\.5-VL-72B-Instruct-AWQ)"
)
_OTHER_GROUP: Final = re.compile(r"(?i)[-_](g(32|64)|(32|64)g)([-_]|$)")
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
    """What a server stops with where tensor parallelism cuts through blocks of FP8 weights: of an expert, or of a dense
    model's second product."""
    whole = _WHOLE_EXPERTS.get(family)
    if whole is None or not _BLOCK_FP8.fullmatch(model_id):
        return
    dense = 0 if shape.experts else shape.intermediate // degree
    if dense % _BLOCK:
        yield f"Weight input_size_per_partition = {dense} is not divisible by weight quantization block_k = {_BLOCK}"
    part = shape.moe_intermediate // degree
    if not part % _BLOCK:
        return
    if not any(variables.get(name, "false").lower() not in ("false", "1") for name in whole):
        yield (
            f"The output_size of gate's and up's weight = {part} is not divisible by weight quantization "
            f"block_n = {_BLOCK}"
        )


def torn_groups(family: str, model_id: str, quantization: str, shape: Architecture, degree: int) -> Iterator[str]:
    """What a server stops with where tensor parallelism cuts through groups of AWQ or GPTQ weights.

    Of dense models: experts have kernels of their own. A checkpoint of groups of 64 or 32 says so in its id (`-g64`).
    """
    other = _OTHER_GROUP.search(model_id) is not None or _WIDENED.fullmatch(model_id) is not None
    if family not in _GROUPED_SERVERS or quantization not in _GROUPED or shape.experts or degree == 1 or other:
        return
    for what, inputs in (("intermediate", shape.intermediate), ("attention", shape.heads * shape.head_dim)):
        if inputs % degree == 0 and inputs // degree % _GROUP:
            yield (
                f"The input size is not aligned with the quantized weight shape: {inputs:,} {what} inputs / {degree} = "
                f"{inputs // degree:,}, no multiple of {_GROUP}"
            )


@cache
def _by_pair() -> Mapping[tuple[str, str], FormatRow]:
    rows = table(FormatRow, DATA / "formats.csv", between=";")
    return {(row.format, name): row for row in rows for name in row.accelerators}
