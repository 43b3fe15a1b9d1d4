"""The vendored rows: complete, consistent, each with its source."""

from __future__ import annotations

import re

import pytest

from loadproof import catalog
from loadproof.errors import InputError


def test_every_row_has_a_source() -> None:
    """A figure nobody can trace is not in the catalog."""
    rows = [
        *catalog.accelerators().values(),
        *catalog.instances().values(),
        *catalog.architectures().values(),
        *catalog.container_images(),
        *catalog.host_images().values(),
    ]
    assert len(rows) > 100
    assert all(row.source for row in rows)


def test_dates_are_dates() -> None:
    """Images and hosts say when they were looked up."""
    dates = [row.date for row in (*catalog.container_images(), *catalog.host_images().values())]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", date) for date in dates)


def test_every_instance_has_an_accelerator_of_the_catalog() -> None:
    """Names agree between the two tables, counts and sizes are positive."""
    for row in catalog.instances().values():
        assert row.accelerator in catalog.accelerators()
        assert row.instance_type.startswith(f"ml.{row.family}.")
        assert row.accelerator_count >= 1 and row.vcpu >= 1 and row.host_memory_gib > 0
        assert row.usd_per_hour is None or row.usd_per_hour > 0


def test_every_shape_is_consistent() -> None:
    """Key-value heads divide heads, experts are all or nothing, active parameters are no more than all."""
    for row in catalog.architectures().values():
        assert row.heads % row.kv_heads == 0
        assert (row.experts == 0) == (row.experts_per_token == 0)
        assert row.experts_per_token <= row.experts
        assert 0 < row.active_parameters_b <= row.parameters_b


def test_llama_3_1_8b_is_what_its_config_says() -> None:
    """32 layers, 32 heads over 8 key-value heads of 128, 8.03 billion parameters, 131,072 tokens of context."""
    row = catalog.architecture("meta-llama/Llama-3.1-8B-Instruct")
    assert row is not None
    assert (row.layers, row.heads, row.kv_heads, row.head_dim, row.context) == (32, 32, 8, 128, 131072)
    assert row.parameters_b == 8.03


@pytest.mark.parametrize("model_id", ["meta-llama/Llama-2-7b-chat-hf", "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-70B"])
def test_chat_variants_share_their_base_models_shape(model_id: str) -> None:
    """The models of the examples are known, by their own id or their base's."""
    assert catalog.architecture(model_id) is not None


def test_an_unknown_model_is_none() -> None:
    """The profile must then give its architecture."""
    assert catalog.architecture("example/nobody-knows-it") is None


def test_local_disks() -> None:
    """g5 and g6e carry NVMe disks, inf2 does not."""
    assert catalog.instance("ml.g5.2xlarge").has_local_disk
    assert catalog.instance("ml.g6e.12xlarge").has_local_disk
    assert not catalog.instance("ml.inf2.xlarge").has_local_disk


def test_an_unknown_instance_names_near_ones() -> None:
    """The error helps to find the name that was meant."""
    with pytest.raises(InputError, match=r"unknown instance type `ml.g5.3xlarge`; known: ml\.g5\."):
        catalog.instance("ml.g5.3xlarge")


def test_the_newest_image_is_the_default() -> None:
    """Without a version the first row of a family is used."""
    assert catalog.container_image("tgi").version == "3.3.6"
    assert catalog.container_image("lmi", "0.35.0").cuda == "12.8"


def test_cuda_13_runs_on_the_newest_host_only() -> None:
    """Driver 580 is CUDA 13's; the Neuron host has no CUDA."""
    hosts = catalog.host_images()
    assert [name for name, host in hosts.items() if host.cuda == "13.0"] == ["al2023-ami-sagemaker-inference-gpu-4-1"]
    assert hosts["al2-ami-sagemaker-inference-neuron-2"].cuda is None


def test_hosts_are_those_of_the_schema() -> None:
    """A host that a profile may name has its row, and the other way round."""
    from typing import get_args

    from loadproof.profiles.schema import Ami

    assert set(get_args(Ami)) == set(catalog.host_images())
