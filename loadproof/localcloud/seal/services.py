"""Which service a request is for, and whether it is signed for that one: a signature for S3 opens no queue.

Names of services as they stand in signatures, and the targets of their JSON protocols, are those of botocore's models.
A service of another protocol is the one that the signature names, here as in moto.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import botocore

from loadproof.localcloud.seal.canonical import SINGLY_ENCODED, Scope
from loadproof.localcloud.seal.errors import SealError

_HEAD_BYTES: Final = 4096  # of a model of up to megabytes; what it is stands first
_METADATA: Final = '"metadata":'
_REGION: Final = re.compile(r"[a-z0-9-]*")  # none in old presigned addresses


@cache
def targets() -> Mapping[str, frozenset[str]]:
    """By the name in a signature: what may stand before the operation in `X-Amz-Target`. Takes 0.15 s, once."""
    found: dict[str, set[str]] = {name: set() for name in SINGLY_ENCODED}
    for folder in (Path(botocore.__file__).parent / "data").iterdir():
        for file in folder.glob("*/service-2.json*"):
            facts = _metadata(file)
            named = found.setdefault(facts.get("signingName") or facts["endpointPrefix"], set())
            if "targetPrefix" in facts:
                named.add(_last(facts["targetPrefix"]))
    return {name: frozenset(prefixes) for name, prefixes in found.items()}


def _metadata(file: Path) -> dict[str, str]:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        text = stream.read(_HEAD_BYTES).decode("utf-8", "ignore")
    found: dict[str, str] = json.JSONDecoder().raw_decode(text.partition(_METADATA)[2].lstrip())[0]
    return found


def _last(prefix: str) -> str:
    """CloudTrail's prefix has a package before it, which some SDKs leave away."""
    return prefix.rpartition(".")[2]


def check_scope(scope: Scope, target: str | None) -> None:
    """Raises SealError unless the request is for the service that it is signed for; `target` is its X-Amz-Target."""
    known = targets().get(scope.service)
    if known is None or not _REGION.fullmatch(scope.region):
        message = (
            f"Credential should be scoped to a valid service and region, found '{scope.service}', '{scope.region}'"
        )
        raise SealError("InvalidSignatureException", message)
    asked = _last((target or "").rpartition(".")[0])
    if target is not None and asked not in known:
        meant = sorted(name for name, prefixes in targets().items() if asked in prefixes)
        service = f": '{meant[0]}'" if meant else ""
        raise SealError("InvalidSignatureException", f"Credential should be scoped to correct service{service}.")
