"""Builds the site as `make site` does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from processes import run_process

ROOT = Path(__file__).parents[2]


def mkdocs(*arguments: str, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """`mkdocs build --strict`, as the Makefile has it."""
    return run_process(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config), *arguments],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
