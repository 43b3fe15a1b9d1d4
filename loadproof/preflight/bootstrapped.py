"""Which of an account's bootstraps a repository deploys through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from loadproof.errors import InputError

DEFAULT_QUALIFIER: Final = "hnb659fds"  # the CDK's own
_CONTEXT_KEY: Final = "@aws-cdk/core:bootstrapQualifier"


def bootstrap_qualifier(folder: Path) -> str:
    """As the nearest cdk.json has it, in the folder or above. Raises InputError for one that is no JSON."""
    for place in (folder, *folder.parents):
        file = place / "cdk.json"
        if file.is_file():
            try:
                context = json.loads(file.read_text(encoding="utf-8")).get("context", {})
            except ValueError as error:
                raise InputError(f"{file}: is no JSON ({error}); mend it") from None
            return str(context.get(_CONTEXT_KEY, DEFAULT_QUALIFIER))
    return DEFAULT_QUALIFIER
