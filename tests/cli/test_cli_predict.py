"""`loadproof predict`: rows in, the same rows with predictions or a reason out."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest

from loadproof.cli.main import run
from loadproof.cli.predict_rows import ADDED, FIGURES, GIVEN, predict_row

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
    """With 1,599 of 1,600 prompt tokens cached, the first token comes in about one decode step, not 16 prefills."""
    row = ROW | {"model": "Qwen3 14B", "instance_type": "ml.g7e.2xlarge", "server": "vLLM", "input_tokens": "1600"}
    ttft = [float(predict_row(row | {"cached_input_tokens": text})["predicted_ttft_ms"]) for text in ("", "1599")]
    assert ttft[1] < 40 < 500 < ttft[0]


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
