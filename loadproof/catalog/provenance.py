"""What a row's source says of itself. Nothing else decides whether a figure is shown as unverified."""

from __future__ import annotations

import re

_DOUBT = re.compile(r"\bverify\b|\bfrom memory\b|\(memory\b", re.IGNORECASE)


def unverified(*sources: str) -> bool:
    """True where any source says that its figures were written from memory or still have to be verified."""
    return any(_DOUBT.search(source) for source in sources)
