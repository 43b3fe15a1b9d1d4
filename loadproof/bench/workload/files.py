"""What was in the files that decide what is sent and how it is counted: a digest of each, by the path the plan has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from loadproof.bench.spec import BenchmarkSpec
from loadproof.bench.workload.trace_parts import parts_of
from loadproof.errors import InputError


def digests_of(spec: BenchmarkSpec) -> dict[str, str]:
    """SHA-256 of each file that the spec names. Raises InputError for one that cannot be read."""
    found = {}
    for name in dict.fromkeys(_named(spec)):
        digest = digest_of(Path(name))
        if digest is None:
            raise InputError(f"{name}: cannot be read; give a file that can")
        found[name] = digest
    return found


def refuse_changed(spec: BenchmarkSpec) -> None:
    """Raises InputError with every file that is not what the run was planned with."""
    changed = [name for name, digest in spec.files.items() if digest_of(Path(name)) != digest]
    if changed:
        raise InputError(
            "\n".join(f"{name}: not the file this run was planned with; put that one back" for name in changed)
        )


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file, or of a folder's names and files; None for what cannot be read."""
    try:
        if path.is_file():
            with path.open("rb") as reading:
                return hashlib.file_digest(reading, "sha256").hexdigest()
        files = sorted(parts_of(path)) if path.is_dir() else []
    except OSError:
        return None
    within = [(one.name, digest_of(one)) for one in files]
    if not within or any(digest is None for _, digest in within):
        return None
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in within).encode()).hexdigest()


def _named(spec: BenchmarkSpec) -> Iterator[str]:
    loads = (*spec.loads, *((spec.search.load,) if spec.search else ()))
    yield from (name for name in (spec.workload.dataset, spec.workload.tokenizer) if name is not None)
    yield from (load.trace for load in loads if load.trace is not None)
