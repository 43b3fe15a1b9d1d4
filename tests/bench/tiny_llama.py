"""A random-weight Llama of two million parameters as a GGUF file, made on the spot: the same bytes for a seed.

Channel 0 of the residual stream is a constant that no layer writes, so column 0 of the output matrix is a bias per
token: it forbids the end-of-sequence token and all that is not printable ASCII. So a request gets exactly as many
tokens as it asks for, each of them text. The file's format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN, LAYERS, HEADS, KV_HEADS, FEED_FORWARD, CONTEXT = 256, 2, 4, 2, 512, 2048
HEAD = HIDDEN // HEADS
SPECIAL = ["<|bos|>", "<|eos|>", "<|pad|>"]
ALIGNMENT = 32
_UINT32, _FLOAT32, _BOOL, _STRING, _ARRAY, _INT32 = 4, 6, 7, 8, 9, 5
_NORMAL, _CONTROL = 1, 3


def vocabulary() -> list[str]:
    """Special tokens, then the 256 bytes by GPT-2's letters for them: no merges, a token a byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + place) for place, byte in enumerate(others)}
    return SPECIAL + [letters[byte] for byte in range(256)]


def write_tiny_llama(path: Path, seed: int = 0) -> None:
    tokens = vocabulary()
    fields = _fields(tokens)
    tensors = _tensors(tokens, seed)
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)))
        for name, value in fields.items():
            file.write(_text(name) + _value(value))
        offset = 0
        for name, array in tensors.items():
            shape = array.shape[::-1]  # fastest first
            file.write(_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset))
            offset += array.nbytes + -array.nbytes % ALIGNMENT
        file.write(b"\0" * (-file.tell() % ALIGNMENT))
        for array in tensors.values():
            file.write(array.tobytes() + b"\0" * (-array.nbytes % ALIGNMENT))


def _fields(tokens: list[str]) -> dict[str, Any]:
    return {
        "general.architecture": "llama",
        "general.name": "tiny",
        "general.alignment": ALIGNMENT,
        "llama.vocab_size": len(tokens),
        "llama.context_length": CONTEXT,
        "llama.embedding_length": HIDDEN,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": HEAD,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [_CONTROL if token in SPECIAL else _NORMAL for token in tokens],
        "tokenizer.ggml.merges": ["Ġ Ġ"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
    }


def _tensors(tokens: list[str], seed: int) -> dict[str, np.ndarray]:
    random = np.random.Generator(np.random.PCG64(seed))

    def weights(rows: int, columns: int, scale: float | None = None) -> np.ndarray:
        drawn = random.standard_normal((rows, columns), dtype=np.float32)
        return np.ascontiguousarray(drawn * np.float32(scale or columns**-0.5))

    def silent(array: np.ndarray) -> np.ndarray:
        """Writes nothing to channel 0."""
        array[0] = 0
        return array

    embedding = weights(len(tokens), HIDDEN, 1.0)
    embedding[:, 0] = 4.0
    found = {"token_embd.weight": embedding}
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        found |= {
            block + "attn_norm.weight": np.ones(HIDDEN, np.float32),
            block + "attn_q.weight": weights(HEADS * HEAD, HIDDEN),
            block + "attn_k.weight": weights(KV_HEADS * HEAD, HIDDEN),
            block + "attn_v.weight": weights(KV_HEADS * HEAD, HIDDEN),
            block + "attn_output.weight": silent(weights(HIDDEN, HEADS * HEAD)),
            block + "ffn_norm.weight": np.ones(HIDDEN, np.float32),
            block + "ffn_gate.weight": weights(FEED_FORWARD, HIDDEN),
            block + "ffn_up.weight": weights(FEED_FORWARD, HIDDEN),
            block + "ffn_down.weight": silent(weights(HIDDEN, FEED_FORWARD)),
        }
    output = weights(len(tokens), HIDDEN, 3.0 * HIDDEN**-0.5)
    allowed = np.array([len(token) == 1 and 32 < ord(token) < 127 for token in tokens])
    output[:, 0] = np.where(allowed, 0.0, -60.0)
    return found | {"output_norm.weight": np.ones(HIDDEN, np.float32), "output.weight": output}


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", _FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    kind = _STRING if isinstance(value[0], str) else _INT32
    items = b"".join(_text(item) if kind == _STRING else struct.pack("<i", item) for item in value)
    return struct.pack("<IIQ", _ARRAY, kind, len(value)) + items
