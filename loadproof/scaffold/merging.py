"""What a team and a newer Loadproof both changed, merged by git from the text that both began with."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory


def first_text(folder: Path, path: str, digest: str) -> bytes | None:
    """The content of `path` whose SHA-256 is `digest`, out of the history of the repository around `folder`; None where
    it was never committed, or there is no git."""
    listed = _git(folder, "log", "--format=", "--raw", "--no-abbrev", "--no-renames", "--", path)
    blobs = dict.fromkeys(line.split()[3] for line in (listed or b"").decode("utf-8", "replace").splitlines() if line)
    texts = (_git(folder, "cat-file", "blob", blob) for blob in blobs if blob.strip("0"))
    return next((text for text in texts if text is not None and hashlib.sha256(text).hexdigest() == digest), None)


def merged(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Both sides' changes to `base`; None where they touch the same lines, so that a person must choose."""
    with TemporaryDirectory() as there:
        sides = []
        for name, text in (("ours", ours), ("base", base), ("theirs", theirs)):
            sides.append(Path(there, name))
            sides[-1].write_bytes(text)
        return _git(Path(there), "merge-file", "-p", *map(str, sides))


def _git(folder: Path, *asked: str) -> bytes | None:
    """What git answers; None where it does not."""
    try:
        return subprocess.run(
            ["git", "-c", "safe.bareRepository=explicit", "-C", str(folder), *asked], capture_output=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
