"""Other processes, run to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run_process(
    command: Sequence[str | Path], *, timeout: float = 300, **options: Any
) -> subprocess.CompletedProcess[str]:
    """A process that has ended, however it did; its output is text."""
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)
