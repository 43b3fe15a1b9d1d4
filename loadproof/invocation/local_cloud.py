"""Local clouds of this user, as far as a client needs to know: where they are noted, and the keys that they take."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from loadproof.invocation.sigv4 import Credentials


def state_folder() -> Path:
    """`$LOADPROOF_STATE_DIR/local`, else in the user's state folder; perhaps not there."""
    chosen = os.environ.get("LOADPROOF_STATE_DIR")
    if chosen:
        folder = Path(chosen)
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support" / "loadproof"
    else:
        folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "loadproof"
    return folder / "local"


def local_keys(endpoint_url: str) -> Credentials | None:
    """The keys of the local cloud at that address: it takes no others, and the user's own never go there.

    None where there is none, or where the environment already means that cloud and has keys.
    """
    pointed = os.environ.get("AWS_ENDPOINT_URL", "").rstrip("/") == endpoint_url.rstrip("/")
    if pointed and os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    url = urlsplit(endpoint_url)
    if url.hostname not in ("localhost", "127.0.0.1", "::1"):
        return None
    for path in sorted(state_folder().glob("*.json")):
        try:
            state = json.loads(path.read_text("utf-8"))
            if state["port"] == url.port:
                return Credentials(state["access_key"], state["secret_key"])
        except (OSError, ValueError, KeyError, TypeError):  # being written, or somebody else's
            continue
    return None
