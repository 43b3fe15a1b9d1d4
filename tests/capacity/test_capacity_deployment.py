"""A deployment from a profile equals the one from the container that the profile deploys."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof import catalog
from loadproof.capacity import (
    PlannedDeployment,
    architecture_from_tag,
    deployment_from_container,
    deployment_of,
    predict_level,
)
from loadproof.errors import InputError
from loadproof.profiles import Profile, components_of, container_variables, load_profile
from loadproof.profiles.schema import Family

ROOT = Path(__file__).parents[2]
PROFILES = sorted(path for path in ROOT.glob("deploy_profiles/*/*.yaml") if path.name != "environment.yaml")


def from_container(family: Family, variables: dict[str, str], model_id: str = "Qwen/Qwen3-8B") -> PlannedDeployment:
    return deployment_from_container(
        family=family,
        version="1",
        variables=variables,
        model_id=model_id,
        architecture=None,
        instance_type="ml.g5.12xlarge",
        accelerators_per_copy=4,
        copies=1,
    )


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_twin_sees_what_the_planner_sees(path: Path) -> None:
    """Image family, variables, instance and model id carry all that the profile told the planner."""
    profile = load_profile(path)
    component = components_of(profile)[0]
    planned = deployment_of(profile)
    tagged = planned.architecture if profile.model.architecture else None  # the tag carries an override's fields
    deployed = deployment_from_container(
        family=component.container.family,
        version=planned.version,
        variables=container_variables(component),
        model_id=profile.model.id,
        architecture=tagged,
        instance_type=planned.instance.instance_type,
        accelerators_per_copy=planned.accelerators,
        copies=planned.copies,
    )
    assert deployed == planned


def test_tgi_defaults_are_its_own() -> None:
    """Unset: 128 requests admitted, a ratio of 0.3 and 20 decode steps before a prefill interrupts."""
    limits = from_container("tgi", {}).limits
    assert limits.scheduler == "prefill_first"
    assert limits.max_admitted_requests == 128
    assert (limits.waiting_served_ratio, limits.max_waiting_steps) == (0.3, 20)


def test_lmi_and_vllm_prefill_in_chunks() -> None:
    """Both run vLLM's scheduler in steps of 2,048 tokens on an A10G, LMI with 32 sequences and vLLM with 256."""
    for family, sequences in (("lmi", 32), ("vllm", 256)):
        limits = from_container(family, {}).limits
        assert (limits.scheduler, limits.max_sequences, limits.step_prefill_tokens) == ("chunked", sequences, 2048)


def test_lmi_batches_more_where_its_engine_is_named() -> None:
    """DJL Serving gives 256 sequences to an engine that is written out, 32 to what it finds itself."""
    assert from_container("lmi", {"OPTION_ROLLING_BATCH": "vllm"}).limits.max_sequences == 256
    assert from_container("lmi", {"OPTION_ROLLING_BATCH": "auto"}).limits.max_sequences == 32


def test_lmi_queues_a_thousand_requests_beside_the_running_ones() -> None:
    """32 in the batch and 1,000 in the job queue: the 1,033rd is refused."""
    limits = from_container("lmi", {"OPTION_MAX_ROLLING_BATCH_SIZE": "32"}).limits
    assert (limits.max_sequences, limits.max_admitted_requests) == (32, 1032)


@pytest.mark.parametrize(
    ("instance_type", "sequences", "step_tokens"),
    [("ml.p5.48xlarge", 1024, 8192), ("ml.p4de.24xlarge", 256, 2048), ("ml.g6e.12xlarge", 256, 2048)],
)
def test_vllm_batches_more_by_default_on_large_accelerators(
    instance_type: str, sequences: int, step_tokens: int
) -> None:
    """70 GiB or more and no A100: 1,024 sequences and 8,192 tokens a step; else 256 and 2,048."""
    limits = deployment_from_container(
        family="vllm",
        version="0.30.0",
        variables={},
        model_id="Qwen/Qwen3-8B",
        architecture=None,
        instance_type=instance_type,
        accelerators_per_copy=4,
        copies=1,
    ).limits
    assert (limits.max_sequences, limits.step_prefill_tokens) == (sequences, step_tokens)


def test_weights_in_32_bits_are_seen_from_the_variables() -> None:
    """DTYPE=float32 doubles each parameter's bytes; without it they take two."""
    assert from_container("tgi", {"DTYPE": "float32"}).weight_bytes_per_parameter == 4
    assert from_container("tgi", {"DTYPE": "float16"}).weight_bytes_per_parameter == 2


def test_quantized_weights_are_seen_from_the_variables() -> None:
    """AWQ keeps four bits a parameter, and a scale and a zero for 128 of them."""
    assert from_container("tgi", {"HF_MODEL_QUANTIZE": "awq"}).weight_bytes_per_parameter == 0.52


@pytest.mark.parametrize("instance_type", sorted(catalog.instances()))
def test_every_instance_type_of_the_catalog_can_be_planned(instance_type: str) -> None:
    """A 1B model on one accelerator and on all of them, whatever the fabric: some level, some memory."""
    for accelerators in {1, catalog.instances()[instance_type].accelerator_count}:
        made = deployment_from_container(
            family="lmi",
            version="0.38.0",
            variables={"OPTION_MAX_MODEL_LEN": "4096"},
            model_id="meta-llama/Llama-3.2-1B",
            architecture=None,
            instance_type=instance_type,
            accelerators_per_copy=accelerators,
            copies=1,
        )
        level = predict_level(made, 256, 64, 4)
        assert level is not None
        assert 0 < level.ttft_ms < level.e2e_ms < 60_000


def test_a_smaller_tensor_parallel_degree_than_the_copys_accelerators_leaves_some_idle() -> None:
    """TENSOR_PARALLEL_DEGREE=2 on a copy of four accelerators runs on two."""
    assert from_container("lmi", {"TENSOR_PARALLEL_DEGREE": "2"}).accelerators == 2


def test_an_unknown_model_is_an_error_that_says_what_to_write() -> None:
    """No guess is made for a shape nobody gave."""
    with pytest.raises(
        InputError,
        match=r"does not know the shape of `acme/secret-9b`; give model\.base, model\.config_json, or",
    ):
        from_container("tgi", {}, "acme/secret-9b")


def test_more_accelerators_than_the_instance_has_is_an_error() -> None:
    """ml.g5.2xlarge has one A10G."""
    with pytest.raises(InputError, match=r"ml\.g5\.2xlarge has 1 accelerators, one copy asks for 4"):
        deployment_from_container(
            family="tgi",
            version="1",
            variables={},
            model_id="Qwen/Qwen3-8B",
            architecture=None,
            instance_type="ml.g5.2xlarge",
            accelerators_per_copy=4,
            copies=1,
        )


def test_the_architecture_tag_reads_back_the_catalogs_fields() -> None:
    """`layers=32 hidden=4096 ...` is an Architecture; what it does not name is 0 and two all-reduces a layer."""
    shape = architecture_from_tag("layers=32 hidden=4096 heads=32 kv_heads=8 head_dim=128 parameters_b=8.03")
    assert (shape.layers, shape.kv_heads, shape.parameters_b) == (32, 8, 8.03)
    assert (shape.active_parameters_b, shape.allreduces_per_layer, shape.experts) == (8.03, 2, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layers", "cannot read `layers`"),
        ("colour=3", "cannot read `colour=3`"),
        ("layers=many", "`layers=many` is no number"),
        ("layers=32", "head_dim, heads, hidden, kv_heads, parameters_b missing"),
    ],
)
def test_a_broken_architecture_tag_names_what_is_wrong(text: str, message: str) -> None:
    """Never a traceback: the tag comes from a template."""
    with pytest.raises(InputError, match=message):
        architecture_from_tag(text)


def test_a_profiles_own_architecture_wins_over_the_catalog() -> None:
    """The override's fields become the catalog's names."""
    path = ROOT / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"
    data = load_profile(path).model_dump()
    data["model"]["architecture"] = {
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "max_position_embeddings": 2048,
        "parameters_b": 0.001,
    }
    shape = deployment_of(Profile.model_validate(data)).architecture
    assert (shape.layers, shape.heads, shape.kv_heads, shape.context) == (2, 4, 2, 2048)
    assert catalog.architecture("meta-llama/Llama-3.1-8B-Instruct") != shape
