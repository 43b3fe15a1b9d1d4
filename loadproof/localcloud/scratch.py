"""Folders of a running local cloud under the machine's temporary one; those of killed clouds are tidied away."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def scratch_folder(kind: str) -> Path:
    """A fresh folder that only this user can enter. Removes the abandoned ones of its kind."""
    prefix = f"loadproof-{kind}-"
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        owner = folder.name.removeprefix(prefix).partition("-")[0]
        if owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
