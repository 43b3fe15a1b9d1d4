"""How published tables write models, servers and instance types, read as the names the catalog knows."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from loadproof import catalog
from loadproof.catalog.config_json import read_config_json
from loadproof.errors import InputError
from loadproof.families import FAMILIES

# Words of a model's name that do not change its shape: how it was tuned; publisher, JumpStart's prefix, 16 bits.
_TUNING = frozenset(("instruct", "chat", "base", "hf", "it", "f", "thinking"))
_TITLE = frozenset(("meta", "textgeneration", "huggingface", "llm", "bf16", "fp16", "16bit"))
_STORED = frozenset(("fp8", "int8", "awq", "gptq", "mxfp4"))
# Tuned from another model's weights, whose shape they keep.
_TUNED_FROM = {
    "vicuna7b": "llama27b",
    "vicuna13b": "llama213b",
    "zephyr7bbeta": "mistral7b",
    "zephyr7balpha": "mistral7b",
    "zephyr7b": "mistral7b",
}
_NEURON = re.compile(r"transformers[\s_-]*neuronx|(djl|lmi).*neuronx")
# Engines that no row speaks of: predicted as a container of one's own is, and graded D.
_STRANGE_ENGINES = re.compile(r"tensorrt|trt[\s_-]?llm|lmi[\s_-]?dist")
_VERSION = r"[\s:_(-]*v?(\d+(?:\.\d+)*)"


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server as a table names it. `family` `custom` is an engine no row speaks of, `neuronx` Transformers NeuronX;
    `version` is empty where none is named."""

    family: str
    version: str


def model_of(name: str) -> tuple[catalog.Architecture, str]:
    """(shape, how the name says its weights are stored, or ''). `Llama-2-7B`, `meta-llama/Llama-2-7b-chat-hf` and
    `llama2-7b` are one model; `Qwen3-32B-FP8` is stored in fp8. A name that ends in .json is a model's own config.json.

    Raises InputError with the nearest names, or with what is wrong in that file.
    """
    if name.strip().endswith(".json"):
        return read_config_json(Path(name.strip())), ""
    if (exact := catalog.architecture(name.strip())) is not None:
        return exact, _key(name)[1]
    known = list(catalog.architectures().values())
    titles = {shape.name.casefold(): shape for shape in known}
    # Releases of one name that differ in their context alone have one key: the first listed stands for it.
    by_key = {_key(written)[0]: shape for shape in reversed(known) for written in (shape.hf_id, shape.name)}
    key, stored = _key(name)
    found = titles.get(name.strip().casefold()) or by_key.get(_TUNED_FROM.get(key, key))
    if found is not None:
        return found, stored
    names = {shape.name.casefold(): shape.name for shape in known} | {s.hf_id.casefold(): s.hf_id for s in known}
    near = [names[close] for close in difflib.get_close_matches(name.strip().casefold(), names, n=3, cutoff=0.5)]
    hint = f"did you mean {', '.join(near)}?" if near else "give a catalog name, a Hugging Face id or its config.json"
    raise InputError(f"unknown model `{name}`; {hint}")


def _key(name: str) -> tuple[str, str]:
    """(letters and digits that tell the shape, number format named): without publisher, tuning, date and release."""
    own = name.strip().casefold().split("/")[-1]
    words = [word for word in re.split(r"[\s_\-()\[\],:'\"`]+", own) if word]
    stored = next((word for word in words if word in _STORED), "")
    kept = [
        word for word in words if word not in _TUNING | _TITLE | _STORED and not re.fullmatch(r"v\d+\.\d+|\d{4}", word)
    ]
    return re.sub(r"[^a-z0-9]", "", "".join(kept)).replace("llamav", "llama"), stored


def server_of(text: str) -> NamedServer:
    """The server behind `TGI`, `tgi 1.1.0`, `...-tgi-inference-2.0.1-tgi1.1.0`, `vLLM (SageMaker DLC ...)`, `DJL`.

    The family named first counts. Raises InputError for a server nothing is known of.
    """
    plain = text.casefold()
    if _NEURON.search(plain):
        return NamedServer("neuronx", "")
    published = {family.name: family.published for family in FAMILIES.values() if family.published is not None}
    places = [
        (found.start(), family, names.before_version)
        for family, names in published.items()
        if (found := re.search(names.name, plain))
    ]
    if not re.search("neuron|deepspeed|fastertransformer", plain):
        if _STRANGE_ENGINES.search(plain):
            return NamedServer("custom", "")
        if places:
            _, family, before_version = min(places)
            # The last version written right after the family's name: images name their framework's before.
            versions = re.findall(before_version + _VERSION, plain)
            return NamedServer(family, str(versions[-1]) if versions else "")
    names = ", ".join(sorted((*published, "tensorrt-llm", "transformers neuronx")))
    raise InputError(f"server `{text}`: nothing is known of it; expected {names}")


def instance_type_of(text: str) -> str:
    """`g5.2xlarge`, `ML.G5.2XLARGE` and `g5.2xl` are the catalog's `ml.g5.2xlarge`; any other text is left as it is."""
    plain = re.sub(r"xl$", "xlarge", text.strip().casefold())
    candidate = plain if plain.startswith("ml.") else f"ml.{plain}"
    return candidate if candidate in catalog.instances() else text.strip()
