"""A page as a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(page: str, target: Path) -> None:
    """Write a page whole or not at all: never half a file under its name. Raises OSError."""
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=".html")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as out:
            out.write(page)
        Path(unfinished).chmod(0o644)  # mkstemp's 0600 would hide a page that a web server publishes
        Path(unfinished).replace(target)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
