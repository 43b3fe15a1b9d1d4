"""`loadproof catalog audit`: what the rows lack, what is stale or from memory, as text or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import get_args

from loadproof.catalog.audit import AuditFinding, findings
from loadproof.catalog.installed_sdks import Kind, enumerations
from loadproof.catalog.sdk_images import listed_versions
from loadproof.cli.catalog.refresh import installed, sdk_data, sdk_files
from loadproof.errors import ExitCode, InputError
from loadproof.profiles.schema import Bedrock, Routing


def audit_rows(*, as_json: bool, strict: bool) -> int:
    """Print the findings. Exit 1 where something is missing against the installed SDK; with `strict` on any."""
    found, notes = _audited()
    if as_json:
        document = {"schema_version": 1, "notes": notes, "findings": [asdict(one) for one in found]}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(_text(found, notes))
    missing = any(one.state == "missing" for one in found)
    return ExitCode.MISSED if missing or (strict and found) else ExitCode.OK


def offered() -> Mapping[Kind, Sequence[str]]:
    """What a profile may write of the SDK's enumerations, in the SDK's words."""
    strategies = get_args(Routing.model_fields["strategy"].annotation)
    tiers = get_args(Bedrock.model_fields["service_tier"].annotation)
    return {"routing_strategy": [name.upper() for name in strategies], "service_tier": list(tiers)}


def _audited() -> tuple[list[AuditFinding], list[str]]:
    notes = ["no installed SDK lists Bedrock's models: their rows are looked at for their sources alone"]
    botocore = installed("botocore", "botocore/data")
    listing = enumerations(botocore[0]) if botocore else None
    if botocore is None:
        notes.append("botocore is not installed: types, hosts, strategies and tiers are not compared")
    images: dict[str, list[str]] | None = None
    try:
        folder, _ = sdk_data()
        images = {family: listed_versions(folder / file) for family, (file, _) in sdk_files().items()}
    except InputError as error:
        notes.append(f"container versions are not compared: {error}")
    today = datetime.now(tz=UTC).date()
    return list(findings(listing, images, offered(), today)), notes


def _text(found: Sequence[AuditFinding], notes: Sequence[str]) -> str:
    lines = [f"{one.state:<12} {one.table} {one.key}: {one.found}; {one.mend}" for one in found]
    counts = ", ".join(f"{count} {state}" for state, count in Counter(one.state for one in found).most_common())
    return "\n".join([*lines, *(f"note: {note}" for note in notes), counts or "nothing to say"])
