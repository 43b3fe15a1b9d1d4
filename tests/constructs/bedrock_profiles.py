"""Profiles with backend bedrock, read by the real loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from stacks_support import merged

from loadproof.profiles import load_profile
from loadproof.profiles.schema import Profile

LLAMA = "meta.llama3-1-8b-instruct-v1:0"
PROFILE: dict[str, Any] = {
    "name": "chat",
    "backend": "bedrock",
    "model": {"id": LLAMA},
    "bedrock": {"inference_profile": "us"},
    "objectives": {"at_concurrency": 4, "ttft_p95_ms": 900, "e2e_p95_ms": 3000, "error_rate_max": 0.01},
    "workload": {"input_tokens": 256, "output_tokens": 64},
}


def bedrock_profile(folder: Path, changes: dict[str, Any] | None = None) -> Profile:
    """PROFILE with `changes` merged in; None deletes a key."""
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump(merged(PROFILE, changes or {}), sort_keys=False), encoding="utf-8")
    return load_profile(file)
