"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(content: str | bytes, target: Path, mode: int = 0o644, *, survives_power_loss: bool = False) -> None:
    """Write a file whole or not at all: never half of it under its name. Raises OSError.

    The mode is not mkstemp's 0600, which would hide a page that a web server publishes.
    """
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
            if survives_power_loss:
                out.flush()
                os.fsync(out.fileno())
        Path(unfinished).chmod(mode)
        Path(unfinished).replace(target)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
