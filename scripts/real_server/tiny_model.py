"""Make a small random-weight Llama with its tokenizer on the spot, offline and the same to the byte for a seed.

    python scripts/real_server/tiny_model.py OUT [--seed 0] [--letters]

OUT becomes a Hugging Face folder of about 26 M parameters in bf16 that any real server loads. Channel 0 of the residual
stream is a constant no layer writes, so column 0 of lm_head acts as a bias per token: it forbids the end-of-sequence
token and everything that is not printable ASCII. So a request gets exactly as many tokens as it asks for, and each one
is text that can be seen (nothing is held back as half a character). With `--letters` a token is one letter: a text
that was generated is read back as the same tokens, as a server's cache of a conversation needs it.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

LAYERS, HIDDEN, HEADS, KV_HEADS, INTERMEDIATE, VOCAB, CONTEXT = 8, 512, 8, 4, 1536, 1024, 4096
HEAD_DIM = HIDDEN // HEADS
SPECIAL = ["<|bos|>", "<|eos|>", "<|pad|>"]
FORBIDDEN_LOGIT = -60.0
Array = npt.NDArray[np.float32]


def training_text(seed: int) -> Iterator[str]:
    """Sentences of made-up words: enough variety for the tokenizer to learn VOCAB merges."""
    choose = random.Random(seed)
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwz" for vowel in "aeiou"]
    words = ["".join(choose.choices(syllables, k=choose.randint(1, 3))) for _ in range(600)]
    for _ in range(4000):
        yield " ".join(choose.choices(words, k=choose.randint(6, 16))).capitalize() + ".\n"


def make_tokenizer(seed: int, vocabulary: int = VOCAB) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(training_text(seed), trainer)
    return tokenizer


def is_visible(token: str) -> bool:
    return token not in SPECIAL and all(32 < ord(letter) < 127 or letter == "Ġ" for letter in token)


def make_weights(tokens: list[str], seed: int) -> dict[str, Array]:
    """Tensors under Hugging Face's names, shapes (out, in); variance-preserving normal entries."""
    generator = np.random.Generator(np.random.PCG64(seed))

    def normal(rows: int, columns: int, scale: float | None = None) -> Array:
        values: Array = generator.standard_normal((rows, columns), dtype=np.float32)
        return values * np.float32(scale if scale is not None else columns**-0.5)

    def without_channel_0(weights: Array) -> Array:
        weights[0] = 0
        return weights

    embedding = normal(VOCAB, HIDDEN, 1.0)
    embedding[:, 0] = 4.0
    weights = {"model.embed_tokens.weight": embedding}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        weights[prefix + "input_layernorm.weight"] = np.ones(HIDDEN, np.float32)
        weights[prefix + "self_attn.q_proj.weight"] = normal(HEADS * HEAD_DIM, HIDDEN)
        weights[prefix + "self_attn.k_proj.weight"] = normal(KV_HEADS * HEAD_DIM, HIDDEN)
        weights[prefix + "self_attn.v_proj.weight"] = normal(KV_HEADS * HEAD_DIM, HIDDEN)
        weights[prefix + "self_attn.o_proj.weight"] = without_channel_0(normal(HIDDEN, HEADS * HEAD_DIM))
        weights[prefix + "post_attention_layernorm.weight"] = np.ones(HIDDEN, np.float32)
        weights[prefix + "mlp.gate_proj.weight"] = normal(INTERMEDIATE, HIDDEN)
        weights[prefix + "mlp.up_proj.weight"] = normal(INTERMEDIATE, HIDDEN)
        weights[prefix + "mlp.down_proj.weight"] = without_channel_0(normal(HIDDEN, INTERMEDIATE))
    weights["model.norm.weight"] = np.ones(HIDDEN, np.float32)
    head = normal(VOCAB, HIDDEN, 3.0 * HIDDEN**-0.5)
    head[:, 0] = FORBIDDEN_LOGIT
    head[[place for place, token in enumerate(tokens) if is_visible(token)], 0] = 0.0
    weights["lm_head.weight"] = head
    return weights


def to_bf16(values: Array) -> npt.NDArray[np.uint16]:
    """Round to nearest even on the upper 16 bits of each float32."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_safetensors(path: Path, weights: dict[str, Array]) -> None:
    """8-byte little-endian header length, JSON header padded to 8 bytes, then the tensors one after the other."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, values in weights.items():
        end = offset + 2 * values.size
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in weights.values():
            file.write(to_bf16(values).tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--letters", action="store_true")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)

    tokenizer = make_tokenizer(arguments.seed, len(SPECIAL) + 256 if arguments.letters else VOCAB)
    tokens = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    weights = make_weights(tokens, arguments.seed)
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **special,
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[1],
        "pad_token": SPECIAL[2],
        "model_max_length": CONTEXT,
        "chat_template": "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}",
    }
    tokenizer.save(str(out / "tokenizer.json"))
    for name, content in (
        ("config.json", config),
        ("generation_config.json", special),
        ("tokenizer_config.json", tokenizer_config),
    ):
        (out / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    write_safetensors(out / "model.safetensors", weights)
    parameters_m = sum(values.size for values in weights.values()) / 1e6
    print(f"{out}: random-weight Llama, {parameters_m:.1f} M parameters, {VOCAB} tokens")


if __name__ == "__main__":
    main()
