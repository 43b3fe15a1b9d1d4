"""What a model's weights take, in each format: the one formula that checks, planner and catalog share."""

from __future__ import annotations

from typing import Final

from loadproof.catalog.architecture import Architecture

DTYPE_BYTES: Final = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0}
# Of a weight that is packed, its scales included. awq and gptq: groups of 128 share a 16-bit scale and a 4-bit zero;
# mxfp4: blocks of 32 share an 8-bit scale (OCP Microscaling 1.0).
QUANTIZED_BYTES: Final = {"fp8": 1.0, "int8": 1.0, "awq": 0.52, "gptq": 0.52, "mxfp4": 0.53125}
WIDE_BYTES: Final = 2.0  # what is not packed


def bytes_per_parameter(quantization: str, dtype: str = "bf16") -> float:
    """Of the weights a format packs; of all where nothing is quantized."""
    return QUANTIZED_BYTES.get(quantization, DTYPE_BYTES[dtype])


def looked_up_parameters(shape: Architecture) -> float:
    """Embeddings that are looked up and not multiplied with = vocabulary · hidden; 0 where the output head is the same
    matrix, which only a dense shape shows: all of its parameters are then active."""
    tied = not shape.experts and shape.active_parameters_b == shape.parameters_b
    return 0.0 if tied else head_parameters(shape)


def head_parameters(shape: Architecture) -> float:
    """The output head, which scores a token against the vocabulary = vocabulary · hidden."""
    return float(shape.vocab * shape.hidden)


def wide_parameters(shape: Architecture, quantization: str) -> float:
    """Parameters that a quantized checkpoint keeps in 16 bits.

    mxfp4 packs experts alone (3 · hidden · expert width each, in every layer); every other format all but embeddings
    and output head. The checkpoints of gpt-oss, 13.8 and 65.2 GB, come out at 13.75 and 65.25.
    """
    total = shape.parameters_b * 1e9
    if quantization == "none":
        return 0.0
    if quantization == "mxfp4" and shape.experts:
        return max(0.0, total - 3.0 * shape.layers * shape.experts * shape.hidden * shape.moe_intermediate)
    return min(total, looked_up_parameters(shape) + head_parameters(shape))


def weight_bytes(shape: Architecture, packed_bytes: float = 2.0, quantization: str = "none") -> float:
    """Bytes of the whole model = packed parameters · their bytes + what stays in 16 bits · 2."""
    wide = wide_parameters(shape, quantization)
    return (shape.parameters_b * 1e9 - wide) * packed_bytes + wide * WIDE_BYTES
