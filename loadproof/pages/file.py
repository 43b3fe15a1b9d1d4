"""A page, or another text, as a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(text: str, target: Path, mode: int = 0o644) -> None:
    """Write a file whole or not at all: never half of it under its name. Raises OSError.

    The mode is not mkstemp's 0600, which would hide a page that a web server publishes.
    """
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as out:
            out.write(text)
        Path(unfinished).chmod(mode)
        Path(unfinished).replace(target)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
