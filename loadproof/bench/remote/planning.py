"""A run's plan as several hosts need it: whatever it names lies in the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from loadproof.bench.job import machine_conditions
from loadproof.bench.plan import RunPlan, new_plan
from loadproof.bench.remote.agent import FILES
from loadproof.bench.s3_store import Store
from loadproof.bench.spec import BenchmarkSpec
from loadproof.bench.workload.trace_parts import parts_of
from loadproof.errors import InputError


def planned_for_hosts(spec: BenchmarkSpec, store: Store, run_id: str, now_ns: int) -> RunPlan:
    """Plan the run in full, and put the files it names into the store. Raises InputError, CouldNotRunError."""
    return _with_files(new_plan(spec, run_id, now_ns, machine_conditions()), store)


def _with_files(plan: RunPlan, store: Store) -> RunPlan:
    """The plan with every file it names put into the store, and named as the hosts will have it."""
    names: dict[str, str] = {}

    def put(path: str | None) -> str | None:
        if path is None:
            return None
        if path not in names:
            names[path] = f"{FILES}{len(names)}-{Path(path).name}"
            for one in parts_of(Path(path)):
                inside = "" if one == Path(path) else f"/{one.name}"  # of a folder, as a trace may be
                try:
                    store.put(f"{names[path]}{inside}", one.read_bytes())
                except OSError as error:
                    raise InputError(f"{one}: cannot be read ({error.strerror})") from None
        return names[path]

    spec = plan.spec
    workload = replace(spec.workload, dataset=put(spec.workload.dataset), tokenizer=put(spec.workload.tokenizer))
    loads = tuple(replace(load, trace=put(load.trace)) for load in spec.loads)
    search = spec.search and replace(spec.search, load=replace(spec.search.load, trace=put(spec.search.load.trace)))
    levels = tuple(replace(level, load=replace(level.load, trace=put(level.load.trace))) for level in plan.levels)
    files = {names[name]: digest for name, digest in spec.files.items()}
    named = replace(spec, workload=workload, loads=loads, search=search, files=files)
    return replace(plan, spec=named, levels=levels)
