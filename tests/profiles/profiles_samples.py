"""Where the sample profiles are, and one profile as text that tests alter."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
GOOD = HERE / "good"
BAD = HERE / "bad"
REPOSITORY = HERE.parents[1]

CHAT = """\
name: chat
model:
  id: meta-llama/Llama-3.1-8B-Instruct
  source:
    type: s3
    s3_uri: s3://models/llama-3.1-8b-instruct/
container:
  family: tgi
  settings:
    max_input_tokens: 2048
    max_total_tokens: 4096
endpoint:
  instance_type: ml.g5.2xlarge
objectives:
  at_concurrency: 4
  ttft_p95_ms: 500
workload:
  input_tokens: 256
  output_tokens: 64
"""
