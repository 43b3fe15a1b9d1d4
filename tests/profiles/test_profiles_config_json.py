"""`model.config_json`: a profile that names the file is the profile that writes the same shape out."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from loadproof.capacity import deployment_of, make_plan
from loadproof.constructs.endpoint.tags import model_tags
from loadproof.profiles import check_file, load_profile, profile_hash

# A Llama of the common shape: 32 layers, 8 key-value heads.
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
WRITTEN = """\
architecture:
  num_hidden_layers: 32
  hidden_size: 4096
  num_attention_heads: 32
  num_key_value_heads: 8
  head_dim: 128
  intermediate_size: 14336
  vocab_size: 128256
  max_position_embeddings: 131072
  parameters_b: 8.03
  active_parameters_b: 7.505
"""


def profile(folder: Path, model: str, name: str = "chat") -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(
        f"name: {name}\nmodel:\n  id: example/own-8b\n"
        "  source: {type: s3, s3_uri: s3://weights/own-8b/}\n"
        + textwrap.indent(model.strip(), "  ")
        + "\n"
        + textwrap.dedent(
            """
            container: {family: vllm, settings: {max_model_len: 8192}}
            endpoint: {instance_type: ml.g6e.2xlarge, max_instances: 2}
            objectives: {ttft_p95_ms: 2000, at_concurrency: 4}
            workload: {input_tokens: 256, output_tokens: 64}
            """
        ),
        encoding="utf-8",
    )
    return file


def config(folder: Path, name: str = "config.json", **changed: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(json.dumps(LLAMA | changed), encoding="utf-8")
    return file


def test_it_is_the_profile_with_the_shape_written_out(tmp_path: Path) -> None:
    """Same hash, same deployment, same plan, same tags on what is deployed."""
    config(tmp_path / "models")
    named = load_profile(profile(tmp_path, "config_json: models/config.json"))
    written = load_profile(profile(tmp_path, WRITTEN))
    assert named == written
    assert profile_hash(named) == profile_hash(written)
    assert deployment_of(named) == deployment_of(written)
    assert make_plan(named) == make_plan(written)
    values = [list(model_tags(each.model).values()) for each in (named, written)]
    assert values[0] == values[1]
    assert "layers=32 hidden=4096" in values[0][1]


def test_the_hash_depends_on_the_content_and_not_on_the_path(tmp_path: Path) -> None:
    """Moving the file keeps the evidence, another layer loses it."""
    config(tmp_path, "a.json")
    config(tmp_path / "below", "b.json", transformers_version="4.57")
    config(tmp_path, "c.json", num_hidden_layers=33)
    hashes = [
        profile_hash(load_profile(profile(tmp_path, f"config_json: {name}")))
        for name in ("a.json", "below/b.json", "c.json")
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_parent_names_it_relative_to_itself(tmp_path: Path) -> None:
    """A child in another folder inherits the shape, not a path that leads nowhere from there."""
    root = tmp_path / "deploy_profiles"
    config(root / "base" / "models")
    profile(root / "base", "config_json: models/config.json", "base")
    (root / "dev").mkdir()
    child = root / "dev" / "chat.yaml"
    child.write_text("extends: ../base/base.yaml\nname: chat\n", encoding="utf-8")
    assert deployment_of(load_profile(child)).architecture.layers == 32


def test_further_models_have_files_of_their_own(tmp_path: Path) -> None:
    """Each component's model is read as the profile's own."""
    config(tmp_path)
    file = profile(tmp_path, WRITTEN)
    with file.open("a", encoding="utf-8") as handle:
        handle.write(
            "components:\n- name: second\n  model:\n    id: example/second\n"
            "    source: {type: s3, s3_uri: s3://weights/second/}\n    config_json: config.json\n"
            "  container: {family: vllm}\n"
        )
    checked = check_file(file)
    assert checked.profile is not None, checked.problems
    second = checked.profile.components[0].model.architecture
    assert second is not None and second.num_hidden_layers == 32


@pytest.mark.parametrize(
    ("model", "message", "mend"),
    [
        ("config_json: nowhere.json", "nowhere.json: no such file", "name the model's config.json"),
        ("config_json: /etc/passwd", "`/etc/passwd` is an absolute path", "name it relative to this file"),
        ("config_json: ../config.json", "`../config.json` lies outside", "keep it inside that folder"),
        ("config_json: chat.yaml", "`chat.yaml` is not a .json file", "name the model's config.json"),
        ("config_json: broken.json", "broken.json:1:2: no JSON", "copy the file again"),
        ("config_json: mamba.json", "model_type `mamba` is not read here", ""),
        ("config_json: missing.json", "`vocab_size` is missing", "copy the whole file"),
        ("config_json: list.json", "expected a JSON object", "name the model's config.json"),
        (
            "config_json: good.json\n" + WRITTEN,
            "stands beside `architecture`",
            "keep one of them",
        ),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(tmp_path: Path, model: str, message: str, mend: str) -> None:
    """File, line and column of the key's value, what was found, how to mend it, and nothing else about the shape."""
    config(tmp_path, "good.json")
    config(tmp_path, "mamba.json", model_type="mamba")
    config(tmp_path, "missing.json", vocab_size=None)
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    file = profile(tmp_path, model)
    checked = check_file(file)
    (problem,) = checked.problems
    assert (problem.code, problem.path, problem.line, problem.column) == ("LP015", "model.config_json", 5, 16)
    assert message in problem.message and mend in problem.mend
    assert checked.profile is None


def test_a_value_of_another_kind_is_the_schemas_to_refuse(tmp_path: Path) -> None:
    """A number is no file name; null is as good as nothing."""
    assert "LP103" in [problem.code for problem in check_file(profile(tmp_path, "config_json: 12")).problems]
    checked = check_file(profile(tmp_path, "config_json: null\n" + WRITTEN))
    assert checked.profile is not None


def test_the_checkpoints_quantization_is_read_where_the_profile_does_not_say_it(tmp_path: Path) -> None:
    """As the file says; the profile's own word goes first; a method of unknown size is left to the profile."""
    config(tmp_path / "models", quantization_config={"quant_method": "fp8"})
    config(tmp_path / "models", "odd.json", quantization_config={"quant_method": "compressed-tensors"})
    said = "config_json: models/config.json"
    assert load_profile(profile(tmp_path, said)).model.quantization == "fp8"
    assert load_profile(profile(tmp_path, f"{said}\nquantization: awq")).model.quantization == "awq"
    assert load_profile(profile(tmp_path, "config_json: models/odd.json")).model.quantization == "none"


def test_a_fine_tune_has_the_shape_of_its_base(tmp_path: Path) -> None:
    """The profile that names Llama 3.1 8B as `base` is the one that writes its published shape out, to the hash."""
    based, written = (
        load_profile(profile(folder, model))
        for folder, model in ((tmp_path / "a", "base: meta-llama/Llama-3.1-8B"), (tmp_path / "b", WRITTEN))
        if not folder.mkdir()
    )
    assert profile_hash(based) == profile_hash(written)


@pytest.mark.parametrize(
    ("model", "message", "mend"),
    [
        ("base: Qwen/Qwen3-9B", "the catalog does not know `Qwen/Qwen3-9B`", "Qwen/Qwen3-8B"),
        ("base: meta-llama/Llama-3.1-8B\n" + WRITTEN, "stands beside `architecture`", "keep one of them"),
        ("base: meta-llama/Llama-3.1-8B\nconfig_json: good.json", "stands beside `base`", "keep one of them"),
    ],
)
def test_a_base_that_cannot_be_used_is_told_with_its_place(tmp_path: Path, model: str, message: str, mend: str) -> None:
    """Not listed, with what is near in name; or beside another source of the shape."""
    config(tmp_path, "good.json")
    (problem,) = check_file(profile(tmp_path, model)).problems
    assert problem.code == "LP015"
    assert message in problem.message and mend in problem.mend
