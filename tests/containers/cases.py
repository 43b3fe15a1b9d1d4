"""The published failures as profiles, and as what is deployed without one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from loadproof.catalog import architecture
from loadproof.localcloud.directory import ContainerView

REGISTRY: Final = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
CASES: Final[tuple[Mapping[str, Any], ...]] = tuple(
    case
    for name in ("published_failures.yaml", "held_out_failures.yaml")
    for case in yaml.safe_load((Path(__file__).parent / name).read_text(encoding="utf-8"))
)
# The shape of a model that the catalog does not have, so that its absence is not what is found: any 7B.
_ANY_7B: Final = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "parameters_b": 7.2,
}
_FAMILIES: Final = (("tgi-inference", "tgi"), ("djl-inference", "lmi"), ("sglang", "sglang"), ("vllm", "vllm"))


def family_of(case: Mapping[str, Any]) -> str:
    """The family that a profile names for the case's image; custom for what is none of ours."""
    repository = case.get("image", "").partition(":")[0]
    if "neuronx" in repository:
        return "custom"
    return case.get("family") or next((family for part, family in _FAMILIES if part in repository), "custom")


def profile_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """The profile that somebody who meant the published configuration would write."""
    family, degree = family_of(case), case.get("tensor_parallel_degree", 1)
    settings: dict[str, Any] = {"protocol": "openai"} if family == "custom" else {}
    settings |= {"tensor_parallel_degree": degree, **case.get("settings", {})}
    container: dict[str, Any] = {"family": family, "settings": settings}
    if "image" in case:
        container["image"] = f"{REGISTRY}/{case['image']}"
    if "version" in case:
        container["version"] = case["version"]
    if case.get("environment"):
        container["environment"] = dict(case["environment"])
    model: dict[str, Any] = {"id": case["model"], "source": {"type": "s3", "s3_uri": "s3://models/weights/"}}
    if case.get("source_type") == "hub":
        model["source"] = {"type": "hub", "revision": "0" * 40}
    model |= {name: case[name] for name in ("quantization", "dtype", "trust_remote_code") if name in case}
    if "architecture" in case:
        model["architecture"] = dict(case["architecture"])
    elif architecture(case["model"]) is None:
        model["architecture"] = _ANY_7B | {"parameters_b": case.get("parameters_b", 7.2)}
    endpoint: dict[str, Any] = {"instance_type": case["instance"], **case.get("endpoint", {})}
    if case.get("ami"):
        endpoint["ami_version"] = case["ami"]
    profile: dict[str, Any] = {
        "name": "published",
        "model": model,
        "container": container,
        "endpoint": endpoint,
        "objectives": {"at_concurrency": 1, "ttft_p95_ms": 5000},
        "workload": {"input_tokens": 256, "output_tokens": 64},
    }
    if case.get("adapter") or case.get("adapter_rank"):
        adapter = {"name": "legal", "s3_uri": "s3://models/legal.tar.gz", "rank": case.get("adapter_rank", 16)}
        profile["adapters"] = [adapter]
    return profile | dict(case.get("profile", {}))


def container_of(case: Mapping[str, Any]) -> ContainerView:
    """What a notebook or a template of somebody's own deploys."""
    return ContainerView(
        image=f"{REGISTRY}/{case['image']}",
        environment={"TENSOR_PARALLEL_DEGREE": "1", **case.get("variables", {})},
        model_data_s3_uri=case.get("model_data"),
        tags={"loadproof:model-id": case["model"]},
        ami_version=case.get("ami"),
        adapter=bool(case.get("adapter")),
    )
