"""`loadproof catalog`: rows with their marks, one row in full, and the refresh without and with the SDK."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

from loadproof import catalog
from loadproof.capacity.rows import GIVEN
from loadproof.catalog.provenance import unverified
from loadproof.cli.catalog import refresh as catalog_refresh
from loadproof.cli.main import run
from loadproof.families import FAMILIES
from loadproof.simulation.rows import predict_row

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["catalog", *arguments]) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(said(capsys, *arguments, "--format", "json"))


def test_the_json_holds_every_row_of_the_four_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with source, date and whether it is unverified."""
    found = document(capsys, "list")
    assert found.pop("schema_version") == 1
    assert {kind: len(rows) for kind, rows in found.items()} == {
        "accelerators": len(catalog.accelerators()),
        "instances": len(catalog.instances()),
        "models": len(catalog.architectures()),
        "containers": len(catalog.container_images()),
    }
    for row in (row for rows in found.values() for row in rows):
        assert row["name"] and row["source"] and isinstance(row["unverified"], bool)
        assert row["date"].startswith("20")


def test_at_80_columns_a_row_is_a_name_and_what_there_is_of_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is wider, no word is cut, no source shortened; a log has one line a row."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = said(capsys, "list", "models").splitlines()
    assert all(len(line) <= 80 or len(line.split()) == 1 for line in lines)
    row = catalog.architecture("meta-llama/Llama-3.1-8B-Instruct")
    assert row is not None and row.name in lines
    whole = " ".join(" ".join(lines).split())
    assert f"Hugging Face id: {row.hf_id};" in whole and f"source: {' '.join(row.source.split())}" in whole
    monkeypatch.delenv("COLUMNS")
    assert len(said(capsys, "list", "models").splitlines()) == 1 + len(catalog.architectures())


def test_doubt_in_the_source_is_a_mark_in_both_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    """B300's source still says `verify`; nothing else decides."""
    rows = {row["name"]: row for row in document(capsys, "list", "accelerators")["accelerators"]}
    assert rows["B300"]["unverified"] and not rows["A10G"]["unverified"]
    lines = {line.split()[0]: line for line in said(capsys, "list", "accelerators").splitlines()}
    assert "unverified" in lines["B300"] and "unverified" not in lines["A10G"]
    assert said(capsys, "show", "b300").splitlines()[0] == "accelerator B300 (unverified)"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("NVIDIA datasheet (memory; verify)", True),
        ("from memory of the public config", True),
        ("EC2 price x 1.15 = DERIVED, verify", True),
        ("AWS EC2 API (vCPU, memory)", False),
        ("datasheet: memory bandwidth", False),
        ("verified against config.json", False),
    ],
)
def test_only_words_of_doubt_are_doubt(source: str, expected: bool) -> None:
    """`memory` is also what an accelerator has."""
    assert unverified(source) is expected


def test_a_derived_price_is_shown_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """With region and date, and the source that says how it was derived."""
    found = document(capsys, "show", "ml.p5en.48xlarge")
    assert (found["kind"], found["price_derived"], found["price_unverified"]) == ("instance", True, True)
    assert (found["usd_per_hour"], found["price_region"], found["price_date"]) == (72.79, "us-east-1", "2026-07")
    assert "x 1.15" in found["price_source"]
    first = said(capsys, "show", "p5en.48xlarge").splitlines()[0]
    assert first == "instance ml.p5en.48xlarge (price derived, price unverified)"


def test_a_price_nobody_published_is_null_and_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    """Never 0."""
    assert document(capsys, "show", "ml.trn2.48xlarge")["usd_per_hour"] is None
    line = next(line for line in said(capsys, "list", "instances").splitlines() if "ml.trn2.48xlarge" in line)
    assert " -  " in line and " 0 " not in line


def test_an_accelerator_shows_the_founding_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """A10G: 70e12 / 600e9 = 116.7 FLOP a byte, half of it in 8 bits; 1.408 USD / 600 GB/s."""
    found = document(capsys, "show", "A10G")
    assert found["arithmetic_intensity_flop_per_byte"] == found["critical_batch_size_16_bit"] == 116.7
    assert found["critical_batch_size_8_bit"] == 58.3
    assert found["usd_per_hour_per_gb_per_s"] == 0.002347
    assert found["bandwidth_price_rank"] <= found["bandwidth_prices_known"]
    assert "ml.g5.48xlarge" in found["instance_types"]


def test_a_model_shows_weights_and_kv_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """8.03 billion parameters of 2 bytes, 131,072 KV bytes a token, an instruct model by its base's row."""
    found = document(capsys, "show", "meta-llama/Llama-3.1-8B-Instruct")
    assert (found["weights_16_bit_gb"], found["kv_bytes_per_token_16_bit"]) == (16.06, 131072)
    assert found["kv_cache_gib_of_one_sequence"] == 0.5
    least = {row["accelerator"]: row for row in found["least_accelerators_16_bit"]}
    assert least["A10G"]["for_one_sequence"] == 1
    # 116.67 sequences of 0.5 GiB (0.537 GB) are 62.6 GB beside 16.06 GB: 78.7 / 23.68 = 3.3.
    assert least["A10G"]["at_critical_batch"] == 4


def test_a_checkpoint_stored_in_four_bits_shows_its_own_size(capsys: pytest.CaptureFixture[str]) -> None:
    """OpenAI publishes gpt-oss-20b in mxfp4, with 13.8 GB."""
    found = document(capsys, "show", "gpt-oss-20b")
    assert (found["quantization"], found["weights_16_bit_gb"]) == ("mxfp4", 41.82)
    assert found["checkpoint_gb"] == pytest.approx(13.8, abs=0.1)


def test_a_folder_is_answered_with_the_file_to_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Models lie in folders of their own, so that is what people type first."""
    assert run(["catalog", "show", str(tmp_path)]) == 2
    assert "a folder; name the config.json in it" in capsys.readouterr().err.replace("\n", " ")


def test_an_endless_name_is_cut_in_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, not a page."""
    assert run(["catalog", "show", "x" * 5000]) == 2
    assert len(capsys.readouterr().err) < 300


def test_a_container_shows_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    """By family and version, or the newest by family alone."""
    found = document(capsys, "show", "lmi:0.36.0")
    assert found["example_uri"].endswith(".dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130")
    assert document(capsys, "show", "tgi")["name"] == "tgi:3.3.6"
    assert document(capsys, "show", "tgi 3.3.4")["name"] == "tgi:3.3.4"


def test_a_model_of_ones_own_is_read_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named after its folder; a quantized checkpoint is said to be one."""
    file = tmp_path / "own-8b" / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps(CONFIG | {"quantization_config": {"quant_method": "fp8"}}), encoding="utf-8")
    found = document(capsys, "show", str(file))
    assert (found["name"], found["parameters_b"], found["kv_bytes_per_token_16_bit"]) == ("own-8b", 8.03, 131072)
    # 2 · 128,256 · 4,096 parameters of embeddings and head stay in 16 bits: 8.03 + 1.05 GB.
    assert (found["quantization"], found["checkpoint_gb"]) == ("fp8", 9.08)
    assert "own-8b" in said(capsys, "show", str(file)).splitlines()[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("H10O", "no row is named `H10O`; did you mean H100"),
        ("g5", "did you mean ml.g5."),
        ("llama 3.1 9b", "did you mean Llama 3.1 8B"),
        ("meta-llama/Llama-3.1-8B-Instrct", "did you mean meta-llama/Llama-3.1-8B-Instruct, meta-llama/Llama-3.1-8B,"),
        ("Qwen/Qwn3-8B-AWQ", "did you mean Qwen/Qwen3-8B-AWQ, "),
        ("mistralai/Mistral-7B-Instruct-v0.4", "no row is named `mistralai/Mistral-7B-Instruct-v0.4`; did you mean "),
        ("vlm:0.30.0", "did you mean vllm:0.30.0"),
        ("zzzzzzzz", "no row is named `zzzzzzzz`; see `loadproof catalog list`"),
        ("nowhere/config.json", "nowhere/config.json: no such file; name the model's config.json"),
    ],
)
def test_an_unknown_name_meets_its_neighbours(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of any kind; exit 2."""
    assert run(["catalog", "show", name]) == 2
    assert message in capsys.readouterr().err


def test_predict_takes_a_config_json_for_a_model(tmp_path: Path) -> None:
    """The same shape gives the same figures; a file that is missing gives its reason."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG), encoding="utf-8")
    row = dict(zip(GIVEN, ("Llama 3.1 8B", "ml.g6e.2xlarge", "1", "1", "256", "256", "16", "vLLM"), strict=True))
    assert predict_row(row | {"model": str(file)}) == predict_row(row)
    assert "no such file" in predict_row(row | {"model": str(tmp_path / "none.json")})["reason"]


def test_refresh_without_the_extra_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2 and the pip command; nothing is written."""

    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(catalog_refresh, "distribution", absent)
    assert run(["catalog", "refresh"]) == 2
    assert "pip install 'loadproof[sagemaker]'" in capsys.readouterr().err


@pytest.fixture
def older_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An SDK whose data is ours but for one tag, and a catalog folder of its own to write to."""
    data = tmp_path / "data"
    data.mkdir()
    for name in ("containers.csv", "accounts.csv"):
        (data / name).write_bytes((catalog_refresh.DATA / name).read_bytes())
    regions = {row["region"]: row["account"] for row in catalog_refresh.rows("accounts.csv")}
    files: dict[str, dict[str, Any]] = {}
    for row in catalog_refresh.rows("containers.csv"):
        tag = row["tag"] if row["version"] != "0.38.0" else "0.38.0-lmi30.0.0-cu130"
        here = {name: account for name, account in regions.items() if name not in row["absent_regions"].split()}
        versions = files.setdefault(row["family"], {})
        versions[row["version"]] = {"registries": here, "repository": row["repository"], "tag_prefix": tag}
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    for family, versions in files.items():
        (sdk / FAMILIES[family].image.sdk_file).write_text(json.dumps({"versions": versions}), encoding="utf-8")
    monkeypatch.setattr(catalog_refresh, "sdk_data", lambda: (sdk, "sagemaker-core 9"))
    monkeypatch.setattr(catalog_refresh, "DATA", data)
    return data


def test_refresh_shows_a_diff_and_writes_only_when_asked(older_sdk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One tag differs: exit 1 and two lines of diff; with --write the row changes, and only that row."""
    before = (older_sdk / "containers.csv").read_text(encoding="utf-8").splitlines()
    assert run(["catalog", "refresh"]) == 1
    shown = capsys.readouterr().out
    assert "-lmi,0.38.0,dlc,djl-inference,0.38.0-lmi29.0.0-cu130" in shown
    assert "+lmi,0.38.0,dlc,djl-inference,0.38.0-lmi30.0.0-cu130" in shown
    assert "accounts.csv" not in shown
    assert (older_sdk / "containers.csv").read_text(encoding="utf-8").splitlines() == before
    assert run(["catalog", "refresh", "--write"]) == 0
    after = (older_sdk / "containers.csv").read_text(encoding="utf-8").splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == 1 and "sagemaker-core 9" in changed[0][1]
