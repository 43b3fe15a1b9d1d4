"""A model whose weights are small enough to lie in S3 for a test, and big enough to be its weights.

The format of safetensors: https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
from typing import Any

# 2 x (2 x 64 x 64 + 2 x 64 x 32 + 3 x 64 x 128) + 2 x 256 x 64 = 106,496 parameters.
TINY_SHAPE: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 256,
    "max_position_embeddings": 131072,
    "parameters_b": 0.000106,
}


def safetensors(tensor_bytes: int = 2 * 106_496) -> bytes:
    """A file with one tensor of bytes that are not all alike."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [tensor_bytes], "data_offsets": [0, tensor_bytes]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(number % 251 for number in range(tensor_bytes))
