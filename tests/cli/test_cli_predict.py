"""`loadproof predict`: rows in, the same rows with predictions or a reason out."""

from __future__ import annotations

import csv
import time
from math import inf
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof import catalog
from loadproof.capacity.row_names import model_of, server_of
from loadproof.capacity.rows import GIVEN, model_shape
from loadproof.cli.main import run
from loadproof.simulation.rows import ADDED, FIGURES, predict_row

ROW = dict(zip(GIVEN, ("Llama 2 7B", "ml.g5.2xlarge", "1", "1", "256", "256", "16", "TGI"), strict=True))


def test_rows_keep_their_columns_and_gain_the_predicted_ones(tmp_path: Path) -> None:
    """The measured row stands beside its prediction: 343 tokens/s and 48 ms a token were published."""
    source, target = tmp_path / "rows.csv", tmp_path / "out.csv"
    source.write_text(",".join([*GIVEN, "mine"]) + "\n" + ",".join([*ROW.values(), "kept"]) + "\n")
    assert run(["predict", "--input", str(source), "--output", str(target)]) == 0
    with target.open(newline="") as handle:
        (row,) = csv.DictReader(handle)
    assert list(row) == [*GIVEN, "mine", *ADDED]
    assert row["mine"] == "kept"
    assert float(row["predicted_throughput_tok_s"]) == pytest.approx(343, rel=0.1)
    assert float(row["predicted_latency_p90_ms_per_token"]) == pytest.approx(48, rel=0.1)
    assert (row["grade"], row["fits"], row["timeout"], row["reason"]) == ("A", "yes", "no", "")
    for name in FIGURES:
        assert float(row[f"{name}_low"]) < float(row[name]) < float(row[f"{name}_high"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "Lama 2 7B"}, "did you mean Llama 2 7B"),
        ({"instance_type": "ml.g5.3xlarge"}, "known: ml.g5.xlarge"),
        ({"tp_degree": "2"}, "has 1 accelerators"),
        ({"concurrency": ""}, "concurrency is empty"),
        ({"input_tokens": "many"}, "expected a number of at least 1, found `many`"),
        ({"input_tokens": "nan"}, "expected a number"),
        ({"server": "vLLM neuron"}, "nothing is known of it"),
        ({"server": "Transformers NeuronX 2.18"}, "does not run on A10G"),
        ({"quantization": "int3"}, "expected one of none, fp8"),
        ({"server": "vLLM dynamic batching"}, "dynamic batching is LMI's"),
        ({"cached_input_tokens": "200"}, "tgi is planned without a prefix cache"),
        ({"server": "vLLM", "cached_input_tokens": "256"}, "expected 0..255 of 256, found 256"),
        ({"model": "Llama 2 70B"}, "cannot be served"),
        ({"instance_count": "2.5"}, "expected a whole number"),
        ({"concurrency": "1000000"}, "expected at most 100,000"),
        ({"instance_type": "ml.g5.12xlarge", "tp_degree": "3"}, "does not divide the 32 attention heads"),
        ({"server": "DeepSpeed"}, "nothing is known of it"),
    ],
)
def test_a_row_that_cannot_be_predicted_gets_a_reason_and_no_figure(change: dict[str, str], said: str) -> None:
    """The reason names what was found and what is allowed; no figure is guessed."""
    answer = predict_row(ROW | change)
    assert said in answer["reason"]
    assert not any(answer[name] for name in FIGURES)


@pytest.mark.parametrize("name", ["llama 2 7b", "meta-llama/Llama-2-7b-hf", "Llama 2 7B Chat", "Llama-2-7b-chat-hf"])
def test_a_model_is_known_by_catalog_name_or_hub_id(name: str) -> None:
    """Chat variants have their base model's shape, so the same figures."""
    assert predict_row(ROW | {"model": name}) == predict_row(ROW)


def test_a_cached_prompt_is_read_not_computed() -> None:
    """With 1,599 of 1,600 prompt tokens cached, a first token waits for two decode steps and HTTP, no prefill."""
    row = ROW | {"model": "Qwen3 14B", "instance_type": "ml.g7e.2xlarge", "server": "vLLM", "input_tokens": "1600"}
    ttft = [float(predict_row(row | {"cached_input_tokens": text})["predicted_ttft_ms"]) for text in ("", "1599")]
    assert ttft[1] < 80 < 300 < ttft[0]


def test_a_level_that_takes_over_a_minute_times_out() -> None:
    """Eight 3,840-token prompts of 256 tokens end in 170 ms a token, 44 s; thirty-two take over 60 s."""
    assert predict_row(ROW | {"input_tokens": "3840", "concurrency": "8"})["timeout"] == "no"
    assert predict_row(ROW | {"input_tokens": "3840", "concurrency": "32"})["timeout"] == "yes"


def test_a_missing_column_or_file_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, with the columns expected; nothing is written."""
    source = tmp_path / "rows.csv"
    source.write_text("model,server\nLlama 2 7B,TGI\n")
    assert run(["predict", "--input", str(source), "--output", str(tmp_path / "out.csv")]) == 2
    assert "no column instance_type" in capsys.readouterr().err
    assert run(["predict", "--input", str(tmp_path / "none.csv"), "--output", str(tmp_path / "out.csv")]) == 2
    assert not (tmp_path / "out.csv").exists()


def test_a_column_that_is_there_twice_is_no_guess(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second `model` would silently hide the first."""
    source = tmp_path / "rows.csv"
    source.write_text(",".join([*GIVEN, "model"]) + "\n" + ",".join([*ROW.values(), "Mistral 7B"]) + "\n")
    assert run(["predict", "--input", str(source), "--output", str(tmp_path / "out.csv")]) == 2
    assert "column model is there twice" in capsys.readouterr().err


def test_four_hundred_rows_take_seconds() -> None:
    """The bound is 60 s; 400 rows at 512 in flight take a few seconds even on a busy machine."""
    started = time.process_time()
    for concurrency in range(113, 513):
        predict_row(ROW | {"instance_type": "ml.p4d.24xlarge", "tp_degree": "8", "concurrency": str(concurrency)})
    assert time.process_time() - started < 30


def test_dynamic_batching_is_predicted_with_the_settings_its_name_gives() -> None:
    """Falcon 40B, batches of 4 that answer together: with 4 in flight four times the throughput of batches of 1."""
    row = {
        "model": "Falcon 40B",
        "instance_type": "ml.g5.48xlarge",
        "instance_count": "1",
        "tp_degree": "8",
        "input_tokens": "32",
        "output_tokens": "128",
        "concurrency": "4",
    }
    one, four = (
        float(
            predict_row({**row, "server": f"LMI dynamic batching (batch_size={size}, max_batch_delay=100)"})[
                "predicted_throughput_tok_s"
            ]
        )
        for size in (1, 4)
    )
    assert four / one == pytest.approx(4, rel=0.05)


def test_neuron_rows_count_cores_and_read_quantized_weights() -> None:
    """AWS published 9.17 ms a token for Llama 2 13B on 24 NeuronCores; int8 halves the 26 GB every step reads."""
    change = {"server": "Transformers NeuronX 2.18.1", "instance_type": "ml.inf2.48xlarge", "model": "Llama-2-13b"}
    row = ROW | change | {"tp_degree": "24", "input_tokens": "128", "output_tokens": "3968", "concurrency": "1"}
    full, half = predict_row(row), predict_row(row | {"quantization": "int8"})
    assert full["grade"] == "A"
    figures = [float(answer["predicted_latency_mean_ms_per_token"]) for answer in (full, half)]
    assert figures[0] == pytest.approx(9.17, rel=0.2)
    assert figures[1] < 0.85 * figures[0]


def test_a_thousand_copies_are_as_many_times_one() -> None:
    """At the bounds, 100 clients for each of 1,000 copies: 1,000 times one copy's throughput but for the uneven shares
    that chance deals, and a row's share of a minute (0.15 s) is not passed by far on a busy machine."""
    one = predict_row(ROW | {"concurrency": "100"})
    started = time.process_time()
    many = predict_row(ROW | {"instance_count": "1000", "concurrency": "100000"})
    assert time.process_time() - started < 1
    assert float(many["predicted_throughput_tok_s"]) == pytest.approx(
        1000 * float(one["predicted_throughput_tok_s"]), rel=0.15
    )


@pytest.mark.parametrize(
    "name",
    [
        "llama2-7b",
        "Llama2 7B",
        "Llama-2-7B",
        "LLaMA-2 7B (bf16)",
        "'meta-llama/Llama-2-7b-hf'",
        "NousResearch/Llama-2-7b-chat-hf",
        "meta-textgeneration-llama-2-7b-f",
        "lmsys/vicuna-7b-v1.5",
    ],
)
def test_names_of_one_shape_have_one_prediction(name: str) -> None:
    """Publisher, tuning, release and spelling change no matrix."""
    assert predict_row(ROW | {"model": name}) == predict_row(ROW)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral 8x7B"),
        ("llama3-1-8b-instruct", "Llama 3.1 8B"),
        ("meta-llama/Meta-Llama-3.1-70B-Instruct", "Llama 3.1 70B"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen3-30B-A3B-Instruct-2507"),
        ("GPT-OSS 20B", "gpt-oss-20b"),
        ("DeepSeek R1 Distill Llama 70B", "DeepSeek-R1-Distill-Llama-70B"),
        ("tiiuae/falcon-180B-chat", "Falcon 180B"),
    ],
)
def test_models_are_found_as_tables_write_them(name: str, written: str) -> None:
    """Hub ids of tuned models, dashes for dots, spaces for dashes."""
    assert model_shape(name).name == written


def test_catalog_names_stay_apart() -> None:
    """What a name is reduced to still tells every model of the catalog from every other."""
    for shape in catalog.architectures().values():
        assert {model_of(written)[0] for written in (shape.name, shape.hf_id, shape.name.casefold())} == {shape}


@pytest.mark.parametrize(("name", "stored"), [("Qwen3-32B-FP8", "fp8"), ("TheBloke/Llama-2-7B-GPTQ", "gptq")])
def test_a_name_may_say_how_weights_are_stored(name: str, stored: str) -> None:
    """It counts where the row's own column is empty, and differs from 16 bits."""
    assert model_of(name)[1] == stored
    row = ROW | {"instance_type": "ml.g6e.12xlarge", "tp_degree": "4", "server": "vLLM"}
    named = predict_row(row | {"model": name})
    assert named == predict_row(row | {"model": model_of(name)[0].name, "quantization": stored})
    assert named != predict_row(row | {"model": model_of(name)[0].name, "quantization": "none"})


@pytest.mark.parametrize(
    ("text", "family", "version"),
    [
        ("TGI", "tgi", ""),
        ("tgi1.1.0", "tgi", "1.1.0"),
        ("huggingface-pytorch-tgi-inference-2.0.1-tgi1.1.0", "tgi", "1.1.0"),
        ("Hugging Face TGI v2.0.1", "tgi", "2.0.1"),
        ("Text Generation Inference 1.4", "tgi", "1.4"),
        ("vllm/vllm-openai:v0.6.3", "vllm", "0.6.3"),
        ("vLLM (SageMaker DLC 0.11/0.15.1, LMI v20)", "vllm", ""),
        ("DJL", "lmi", ""),
        ("djl-inference:0.28.0-lmi10.0.0-cu124", "lmi", "10.0.0"),
        ("LMI v15 (vLLM)", "lmi", "15"),
        ("LMI (TensorRT-LLM)", "custom", ""),
        ("TRT-LLM 0.11", "custom", ""),
        ("djl-0.24.0-neuronx-sdk-2.14.1", "neuronx", ""),
    ],
)
def test_servers_are_read_as_tables_write_them(text: str, family: str, version: str) -> None:
    """Family and version, from a word or from the name of an image."""
    found = server_of(text)
    assert (found.family, found.version) == (family, version)


def test_an_engine_no_row_speaks_of_is_graded_d() -> None:
    """TensorRT-LLM behind LMI is not vLLM, though the container is the same."""
    row = ROW | {"instance_type": "ml.p5e.48xlarge", "tp_degree": "8", "input_tokens": "1024"}
    assert predict_row(row | {"server": "LMI"})["grade"] == "A"
    assert predict_row(row | {"server": "LMI (TensorRT-LLM)"})["grade"] == "D"


@pytest.mark.parametrize("written", ["g5.2xlarge", "ML.G5.2XLARGE", " ml.g5.2xlarge ", "g5.2xl"])
def test_instance_types_are_found_without_their_prefix(written: str) -> None:
    """EC2's names are SageMaker's without `ml.`."""
    assert predict_row(ROW | {"instance_type": written}) == predict_row(ROW)


odd = st.one_of(
    st.sampled_from(["", " ", "0", "-1", "1", "2.5", "1e3", "nan", "inf", "1,024", "99999999999", "N/A", "8"]),
    st.text(max_size=12),
)


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(GIVEN, odd)))
def test_whatever_the_cells_hold_there_are_figures_or_a_reason(change: dict[str, str]) -> None:
    """Never a traceback, never a figure that is no number, never a range that does not hold its figure."""
    answer = predict_row(ROW | change)
    if not answer[FIGURES[0]]:
        assert answer["reason"]
        return
    for name in FIGURES:
        low, value, high = (float(answer[f"{name}{end}"]) for end in ("_low", "", "_high"))
        assert 0 < low <= value <= high < inf
