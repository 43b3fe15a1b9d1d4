"""A profile's file with another workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def workload_file(profile: str, folder: Path, **workload: Any) -> Path:
    """`profile` is its text; what is said of its workload goes over what it says itself."""
    values = yaml.safe_load(profile)
    values["workload"] |= workload
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return file
