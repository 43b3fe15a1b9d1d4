"""A model's shape from its Hugging Face `config.json`: read, never downloaded, and refused where a guess would do.

Each family's defaults are those of its own configuration class in transformers: files leave out what equals them.
Multimodal files are read for their text model alone (`text_config`); encoders of images and sound are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from loadproof.catalog.architecture import Architecture
from loadproof.catalog.parameters import Latent, LinearAttention, Parts, active_parameters, total_parameters
from loadproof.catalog.weights import QUANTIZED_BYTES
from loadproof.errors import InputError

MOST_BYTES: Final = 1 << 20
MOST: Final = {"num_hidden_layers": 10_000}  # whatever counts something else may go up to MOST_OF_ANY
MOST_OF_ANY: Final = 1 << 31
Keys = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Family:
    """What one `model_type` leaves unsaid. `defaults` stand for keys the file may omit."""

    tied: bool = False
    matrices: int = 3  # of a feed-forward block: gate, up and down; two without a gate
    norms: int = 2  # vectors of the hidden size a layer
    attention_bias: str = "none"  # "qkv", "all"; where "key", the file's `attention_bias` says
    full_attention_every: int = 0  # among sliding layers, where the file has no `layer_types`
    allreduces: int = 2
    defaults: Keys = field(default_factory=dict)


_GEMMA_2: Final = {"head_dim": 256, "sliding_window": 4096, "max_position_embeddings": 8192, "vocab_size": 256000}
_GEMMA_3: Final = {
    "head_dim": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
    "vocab_size": 262208,
}
FAMILIES: Final[Mapping[str, Family]] = {
    "llama": Family(attention_bias="key"),
    "mistral": Family(),
    "mixtral": Family(),
    "qwen2": Family(attention_bias="qkv"),
    "qwen3": Family(attention_bias="key"),
    "qwen3_moe": Family(attention_bias="key"),
    "qwen3_vl": Family(attention_bias="key"),
    "qwen3_vl_moe": Family(attention_bias="key"),
    "qwen3_5": Family(),
    "qwen3_5_moe": Family(),
    "gemma": Family(tied=True, defaults={"head_dim": 256, "max_position_embeddings": 8192}),
    "gemma2": Family(tied=True, norms=4, full_attention_every=2, defaults=_GEMMA_2),
    "gemma3": Family(tied=True, norms=4, full_attention_every=6, defaults=_GEMMA_3),
    "falcon": Family(matrices=2, allreduces=1, defaults={"max_position_embeddings": 2048}),
    "phi3": Family(),
    "gpt_neox": Family(matrices=2, attention_bias="all", norms=4),
    "gpt_oss": Family(attention_bias="all"),
    "deepseek_v2": Family(),
    "deepseek_v3": Family(),
    "kimi_k2": Family(),
    "mimo": Family(attention_bias="key"),
    "minimax_m2": Family(),
}
_LATENT: Final = ("deepseek_v2", "deepseek_v3", "kimi_k2")


def read_config_json(path: Path) -> Architecture:
    """The shape that a `config.json` describes. Raises InputError: no such file, no JSON, a family not known, a key
    that is missing or no whole number."""
    return architecture_from_config(load_config(path), str(path))


def load_config(path: Path) -> Keys:
    """The file's object. Raises InputError with place, found, allowed and how to mend it."""
    try:
        if not path.is_file():
            why = "a folder" if path.is_dir() else "no such file"
            raise InputError(f"{path}: {why}; name the model's config.json")
        with path.open("rb") as handle:
            raw = handle.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); look at its name and permissions") from None
    if len(raw) > MOST_BYTES:
        raise InputError(f"{path}: larger than {MOST_BYTES >> 20} MiB; a config.json has a few KiB")
    try:
        found = json.loads(raw)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: no JSON ({error.msg}); copy the file again") from None
    except (ValueError, RecursionError):  # not UTF-8, a number of thousands of digits, lists within lists within lists
        raise InputError(f"{path}: no JSON that a model's configuration would be; copy the file again") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a JSON object; name the model's config.json")
    return found


def architecture_from_config(config: Keys, place: str = "config.json") -> Architecture:
    """The shape of a `config.json` that is read already; `place` begins every message."""
    reader = _Reader(config, place)
    parts = _parts(reader)
    window, sliding = reader.sliding(parts.layers, parts.linear_layers)
    return Architecture(
        name=reader.title,
        hf_id=reader.title,
        layers=parts.layers,
        hidden=parts.hidden,
        heads=parts.heads,
        kv_heads=parts.kv_heads,
        head_dim=parts.head_dim,
        intermediate=parts.intermediate,
        vocab=parts.vocab,
        context=reader.whole("max_position_embeddings"),
        experts=parts.experts,
        experts_per_token=parts.experts_per_token,
        moe_intermediate=parts.moe_intermediate,
        allreduces_per_layer=1 if reader.family.allreduces == 1 and reader.truth("parallel_attn", True) else 2,
        parameters_b=round(total_parameters(parts) / 1e9, 3),
        active_parameters_b=round(active_parameters(parts) / 1e9, 3),
        source=f"config.json ({reader.name})",
        sliding_window=window,
        sliding_layers=sliding,
        linear_layers=parts.linear_layers,
        state_bytes=parts.linear_layers * parts.linear.state_bytes if parts.linear else 0,
        kv_latent_dim=parts.latent.kv_width if parts.latent else 0,
        quantization=reader.quantization,
    )


def _parts(reader: _Reader) -> Parts:
    """What the parameters are counted by."""
    name, family = reader.name, reader.family
    layers, hidden, heads = reader.whole("num_hidden_layers"), reader.whole("hidden_size"), reader.heads
    kv_heads, head_dim = reader.kv_heads(heads), reader.head_dim(hidden, heads)
    experts = reader.whole("num_experts", reader.whole("num_local_experts", reader.whole("n_routed_experts", 0)))
    intermediate = reader.intermediate(hidden, experts)
    tied = reader.truth("tie_word_embeddings", family.tied)
    linear_layers = reader.linear_layers(layers)
    return Parts(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=intermediate,
        vocab=reader.whole("vocab_size"),
        tied=tied,
        matrices=family.matrices,
        norms=family.norms,
        attention_bias=reader.attention_bias,
        gated_attention=name.startswith("qwen3_5"),
        biased=name == "gpt_neox" or (name == "falcon" and reader.truth("bias", False)),
        experts=experts,
        experts_per_token=reader.experts_per_token(experts),
        moe_intermediate=reader.whole("moe_intermediate_size", intermediate) if experts else 0,
        expert_bias=name == "gpt_oss",
        shared_intermediate=reader.shared_intermediate() if experts else 0,
        shared_gate=name.startswith("qwen3_5"),
        dense_layers=reader.dense_layers(layers) if experts else 0,
        latent=reader.latent() if name in _LATENT else None,
        linear_layers=linear_layers,
        linear=reader.linear() if linear_layers else None,
    )


class _Reader:
    """One file's keys, each read strictly: a whole number, a truth, and what their absence means."""

    def __init__(self, config: Keys, place: str) -> None:
        text = config.get("text_config")
        nested = text if isinstance(text, dict) else {}
        # What the outer object says of tying holds for the text model too; the inner one goes first.
        self._keys: Keys = {**config, **nested}
        self._place = place
        given = str(nested.get("model_type") or config.get("model_type") or "")
        self.name = given.removesuffix("_text")
        self.title = str(config.get("_name_or_path") or Path(place).parent.name or self.name)
        if self.name not in FAMILIES:
            found = f"model_type `{given[:60]}` is not read here" if given else "no `model_type`"
            raise InputError(
                f"{place}: {found}; known: {', '.join(sorted(FAMILIES))}. "
                "Give model.architecture instead, with the numbers you trust"
            )
        self.family = FAMILIES[self.name]

    def whole(self, key: str, default: int | None = None) -> int:
        """A count; `default` where the key is missing or null."""
        value = self._keys.get(key)
        if value is None:
            value = self.family.defaults.get(key, default)
        if value is None:
            raise self._wrong(key, "is missing", "copy the whole file from the model's page")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(key, f"expected a whole number, found `{str(value)[:40]}`", "copy the file again")
        if value == 0 and default != 0:
            raise self._wrong(key, "expected at least 1, found 0", "copy the file again")
        if value > (most := MOST.get(key, MOST_OF_ANY)):
            raise self._wrong(key, f"expected at most {most}, found {str(value)[:20]}", "copy the file again")
        return value

    def truth(self, key: str, default: bool) -> bool:
        value = self._keys.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, f"expected true or false, found `{str(value)[:40]}`", "copy the file again")
        return value

    def _wrong(self, key: str, found: str, mend: str) -> InputError:
        return InputError(f"{self._place}: `{key}` {found}; {mend}")

    @property
    def heads(self) -> int:
        return self.whole("num_attention_heads")

    @property
    def attention_bias(self) -> Any:
        if self.family.attention_bias == "key":
            return "all" if self.truth("attention_bias", False) else "none"
        return self.family.attention_bias

    @property
    def quantization(self) -> str:
        """How the checkpoint stores its weights; `none` for 16 bits and for methods whose sizes are not known here."""
        stored = self._keys.get("quantization_config")
        if not isinstance(stored, dict):
            return "none"
        method = stored.get("quant_method")
        if not isinstance(method, str) or method not in QUANTIZED_BYTES:
            return "none"
        return "none" if method in ("awq", "gptq") and stored.get("bits", 4) != 4 else method

    def head_dim(self, hidden: int, heads: int) -> int:
        if self.name in _LATENT:
            return self.whole("qk_nope_head_dim") + self.whole("qk_rope_head_dim")
        if self._keys.get("head_dim") is None and "head_dim" not in self.family.defaults and hidden % heads:
            raise self._wrong("hidden_size", f"{hidden} is no multiple of {heads} heads, and no head_dim", "add it")
        return self.whole("head_dim", hidden // heads)

    def kv_heads(self, heads: int) -> int:
        """Of Falcon `new_decoder_architecture` has groups, `multi_query` one head for all, anything older one a head.

        A latent vector is one, which every accelerator holds.
        """
        if self.name in _LATENT:
            return 1
        if self.name != "falcon":
            return self.whole("num_key_value_heads", heads)
        if self.truth("new_decoder_architecture", False):
            return self.whole("num_kv_heads", heads)
        return 1 if self.truth("multi_query", True) else heads

    def intermediate(self, hidden: int, experts: int) -> int:
        if self.name == "falcon":
            return self.whole("ffn_hidden_size", 4 * hidden)
        if experts and self._keys.get("intermediate_size") is None:
            return self.whole("moe_intermediate_size")
        return self.whole("intermediate_size")

    def experts_per_token(self, experts: int) -> int:
        if not experts:
            return 0
        chosen = self.whole("num_experts_per_tok", self.whole("experts_per_token", 0))
        if not 1 <= chosen <= experts:
            raise self._wrong("num_experts_per_tok", f"expected 1..{experts}, found {chosen}", "copy the file again")
        return chosen

    def shared_intermediate(self) -> int:
        """Width of the experts every token passes."""
        if self.name in _LATENT:
            return self.whole("n_shared_experts", 0) * self.whole("moe_intermediate_size")
        return self.whole("shared_expert_intermediate_size", 0)

    def dense_layers(self, layers: int) -> int:
        """Layers without experts: the first few (DeepSeek), every so many, or a list of them (Qwen)."""
        only = self._keys.get("mlp_only_layers") or []
        if not isinstance(only, list):
            raise self._wrong("mlp_only_layers", "expected a list", "copy the file again")
        every = self.whole("decoder_sparse_step", 1)
        if self.whole("moe_layer_freq", 1) != 1:
            raise self._wrong("moe_layer_freq", "other than 1 is not read here", "give model.architecture instead")
        dense = {at for at in only if isinstance(at, int)}
        sparse = [at for at in range(layers) if (at + 1) % every == 0 and at not in dense]
        return layers - len([at for at in sparse if at >= self.whole("first_k_dense_replace", 0)])

    def latent(self) -> Latent:
        return Latent(
            query_rank=self.whole("q_lora_rank", 0),
            kv_rank=self.whole("kv_lora_rank"),
            nope_dim=self.whole("qk_nope_head_dim"),
            rope_dim=self.whole("qk_rope_head_dim"),
            value_dim=self.whole("v_head_dim"),
        )

    def linear(self) -> LinearAttention:
        return LinearAttention(
            key_heads=self.whole("linear_num_key_heads"),
            value_heads=self.whole("linear_num_value_heads"),
            key_dim=self.whole("linear_key_head_dim"),
            value_dim=self.whole("linear_value_head_dim"),
            kernel=self.whole("linear_conv_kernel_dim"),
        )

    def _kinds(self, layers: int) -> list[str] | None:
        kinds = self._keys.get("layer_types")
        if kinds is None:
            return None
        known = {"full_attention", "sliding_attention", "linear_attention"}
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise self._wrong("layer_types", f"expected a list of {layers}", "copy the file again")
        if strange := sorted({str(kind) for kind in kinds} - known):
            raise self._wrong("layer_types", f"has `{strange[0]}`", f"known: {', '.join(sorted(known))}")
        return kinds

    def linear_layers(self, layers: int) -> int:
        if kinds := self._kinds(layers):
            return kinds.count("linear_attention")
        if not self.name.startswith("qwen3_5"):
            return 0
        return layers - layers // self.whole("full_attention_interval", 4)

    def sliding(self, layers: int, linear: int) -> tuple[int, int]:
        """(window, layers that forget what is past it); (0, 0) without one."""
        if self._keys.get("sliding_window", self.family.defaults.get("sliding_window")) is None:
            return 0, 0
        if not self.truth("use_sliding_window", self.name not in ("qwen2", "qwen3", "qwen3_moe")):
            return 0, 0
        window = self.whole("sliding_window")
        if kinds := self._kinds(layers):
            count = kinds.count("sliding_attention")
        elif every := self.family.full_attention_every and self.whole(
            "sliding_window_pattern", self.family.full_attention_every
        ):
            count = layers - layers // every
        elif self.name.startswith("qwen"):
            count = max(0, layers - self.whole("max_window_layers", layers))
        else:
            count = layers - linear
        # A window as long as the context forgets nothing.
        return (window, count) if count and window < self.whole("max_position_embeddings") else (0, 0)
