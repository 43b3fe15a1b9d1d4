"""`loadproof bench --workload`: a file of a profile's workload keys, or a published shape by its name."""

from __future__ import annotations

import difflib
from dataclasses import fields
from pathlib import Path
from typing import Final

from loadproof.bench.from_profile import workload_spec
from loadproof.bench.spec import WorkloadSpec, fixed_tokens
from loadproof.errors import InputError
from loadproof.profiles import load_workload
from loadproof.profiles.inheritance import SUFFIXES
from loadproof.profiles.workloads import NAMED_WORKLOADS

_ELSEWHERE: Final = {"arrivals": "--rate or --phase", "streaming": "--no-stream"}  # what says it of a run
_OF_A_RUN: Final = ("seed", "salt", "dataset_sha256")


def named(name: str) -> dict[str, object]:
    """What becomes of a `WorkloadSpec`. Raises InputError for a name that nobody knows, and for a file's problems."""
    if name.endswith(SUFFIXES):
        return _of_file(Path(name))
    found = NAMED_WORKLOADS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, NAMED_WORKLOADS, n=1)
        known = f"did you mean {near[0]}?" if near else f"use {', '.join(NAMED_WORKLOADS)}, or a .yaml file"
        raise InputError(f"--workload {name!r}: no workload of that name; {known}")
    return {
        "name": name,
        "input_tokens": fixed_tokens(found.input_tokens),
        "output_tokens": fixed_tokens(found.output_tokens),
    }


def _of_file(file: Path) -> dict[str, object]:
    workload = load_workload(file)
    for key, option in _ELSEWHERE.items():
        if key in workload.model_fields_set:
            raise InputError(f"--workload {file}: it says {key}, which is a profile's; delete it and give {option}")
    spec = workload_spec(workload, file.parent, seed=0)
    return {one.name: getattr(spec, one.name) for one in fields(WorkloadSpec) if one.name not in _OF_A_RUN}
