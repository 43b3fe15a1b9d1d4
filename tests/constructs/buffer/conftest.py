"""Helpers that tests of the buffer share with tests of `loadproof run`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "invocation"))  # server_shapes
