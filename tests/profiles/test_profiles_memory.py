"""LP311 and LP320 on shapes that keep windows, states or one latent vector: the planner's own formula."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.profiles import Checked, check_file

PROFILE = """
name: chat
model:
  id: example/own
  source: {{type: s3, s3_uri: s3://weights/own/}}
  architecture:
    num_hidden_layers: 60
    hidden_size: 5120
    num_attention_heads: 40
    num_key_value_heads: 8
    head_dim: 128
    intermediate_size: 13824
    vocab_size: 32000
    max_position_embeddings: 131072
    parameters_b: 8
    {more}
container: {{family: {family}, settings: {{{limit}: 131072}}}}
endpoint: {{instance_type: ml.g6e.2xlarge}}
objectives: {{ttft_p95_ms: 2000, at_concurrency: 4}}
workload: {{input_tokens: 256, output_tokens: 64}}
"""


def checked(folder: Path, more: str, *, family: str = "vllm") -> Checked:
    file = folder / "chat.yaml"
    limit = "max_total_tokens" if family == "tgi" else "max_model_len"
    written = PROFILE.format(more=more.replace("; ", "\n    "), family=family, limit=limit)
    file.write_text(written, encoding="utf-8")
    return check_file(file)


def codes(found: Checked) -> list[str]:
    return [problem.code for problem in found.problems if problem.code in ("LP311", "LP320")]


def test_a_full_cache_of_131072_tokens_does_not_fit_an_l40s(tmp_path: Path) -> None:
    """2 · 60 · 8 · 128 · 2 = 245,760 bytes a token: 32.2 GB; 0.9 · 47.8 - 16 GB of weights leave 27.0."""
    found = checked(tmp_path, "num_experts: 0")
    assert codes(found) == ["LP311"]
    (problem,) = (problem for problem in found.problems if problem.code == "LP311")
    assert "needs 32.2 GB of KV cache, the weights leave 27.0 GB" in problem.message
    # 27.02e9 / 245,760 = 109,944 tokens, rounded down to 256s.
    assert "at most 109824 tokens" in problem.mend


def test_a_window_fits_where_the_server_frees_it(tmp_path: Path) -> None:
    """50 of 60 layers keep 4,096: (10 · 131,072 + 50 · 4,096) · 4,096 bytes = 6.2 GB; TGI would keep all 32.2."""
    window = "sliding_window_tokens: 4096; sliding_window_layers: 50"
    assert codes(checked(tmp_path, window)) == []
    assert codes(checked(tmp_path, window, family="tgi")) == ["LP311"]


@pytest.mark.parametrize("more", ["linear_attention_layers: 45; sequence_state_bytes: 150000000", "kv_latent_dim: 576"])
def test_states_and_latent_vectors_are_counted(tmp_path: Path, more: str) -> None:
    """15 layers of tokens and 0.15 GB: 8.2 GB. One vector of 576 in each of 60 layers: 9.1 GB."""
    assert codes(checked(tmp_path, more)) == []


def test_more_layers_apart_than_there_are_is_a_contradiction(tmp_path: Path) -> None:
    """40 with a window and 30 linear ones are more than 60."""
    more = "sliding_window_tokens: 128; sliding_window_layers: 40; linear_attention_layers: 30"
    found = checked(tmp_path, more)
    assert "LP320" in codes(found)
    assert any("70 layers with a window or with linear attention exceed 60" in str(p) for p in found.problems)
