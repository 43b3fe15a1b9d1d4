"""A profile of two classes of traffic with bounds of their own, as the loader reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from loadproof.profiles import Profile, load_profile


def mixed(folder: Path, tpot_p95_ms: float = 12, machine: str = "ml.g6e.4xlarge", **changes: Any) -> Profile:
    """Half short chats, half agents of long answers, whose bounds of their own are tighter than the profile's."""
    file = folder / "mixed.yaml"
    data = {
        "name": "mixed",
        "model": {"id": "Qwen/Qwen3-8B", "source": {"type": "s3", "s3_uri": "s3://my-models/qwen3-8b/"}},
        "copies": {"accelerators_per_copy": 1},
        "container": {"family": "vllm", "version": "0.30.0", "settings": {"max_model_len": 32768}},
        "endpoint": {"instance_type": machine},
        "objectives": {"at_concurrency": 4, "ttft_p95_ms": 4000},
        "benchmark": {"concurrency": [4]},
        "workload": {
            "input_tokens": 100,
            "output_tokens": 8,
            "classes": [
                {"name": "chat", "share": 0.5, "objectives": {"ttft_p95_ms": 1500}},
                {
                    "name": "agent",
                    "share": 0.5,
                    "objectives": {"tpot_p95_ms": tpot_p95_ms},
                    "steps": [
                        {"name": "plan", "input_tokens": 60, "output_tokens": 8},
                        {"name": "do", "input_tokens": 30, "output_tokens": 16, "times": 3, "pause_s": 0.2},
                    ],
                },
            ],
        },
    }
    file.write_text(yaml.safe_dump(data | changes), encoding="utf-8")
    return load_profile(file)
