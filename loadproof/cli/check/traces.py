"""What a profile's traces say to its server: rules know the profile, not what lies in the files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

from loadproof.bench.workload.too_long import too_long
from loadproof.bench.workload.traces import trace_of
from loadproof.errors import InputError, Problem
from loadproof.profiles import Checked, named_files, place_in
from loadproof.profiles.schema import Profile


def with_traces(checked: Checked) -> Checked:
    """With what is wrong with the traces that it names: one that cannot be read, requests that the server refuses."""
    if checked.profile is None:
        return checked
    problems = []
    for path, name in named_files(checked.profile):
        file = checked.file.parent / name
        if path[-1] == "trace" and (file.is_file() or file.is_dir()):
            mark, dotted = place_in(checked.file, path), ".".join(map(str, path))
            problems += [
                Problem(mark.file, mark.line, mark.column, code, dotted, *said)
                for code, said in _wrong(checked.profile, file, _until_s(checked.profile, path))
            ]
    return checked.refused_for(problems)


def _until_s(profile: Profile, path: Sequence[str | int]) -> float:
    """How long a benchmark plays the trace that is named there."""
    benchmark = profile.benchmark
    duration_s = benchmark.duration_s if path[0] == "workload" else benchmark.phases[int(path[2])].duration_s
    return inf if duration_s is None else duration_s


def _wrong(profile: Profile, file: Path, until_s: float) -> Iterator[tuple[str, tuple[str, str]]]:
    """(code, (what was found, how to mend it))."""
    try:
        rows = trace_of(file, until_s=until_s).rows
    except InputError as error:
        first, *others = str(error).splitlines()
        more = f", and {len(others):,} more" if others else ""
        yield "LP289", (f"a benchmark could not read it: {first}{more}", "mend the file, or name another")
        return
    if found := too_long(profile, rows):
        yield "LP252", (found, "leave them out of the file, or raise the limit")
