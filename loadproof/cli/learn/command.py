"""`loadproof learn SOURCE...`: recorded traffic as a profile's workload."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from loadproof.bench.learn.clock import week_in
from loadproof.bench.learn.closeness import closeness_of, consequences_of, twins_of
from loadproof.bench.learn.drift import drift_of
from loadproof.bench.learn.fitting import fit
from loadproof.bench.learn.reading import read_recorded
from loadproof.bench.learn.recorded import Recorded
from loadproof.bench.learn.sources import NothingRecordedError
from loadproof.bench.learn.traced import own_trace, planned_as
from loadproof.cli.learn.edit import RefusedError, learned_edit, notes_of
from loadproof.cli.learn.text import Said, document, lines
from loadproof.cli.options import TextOrJson
from loadproof.cli.printing import print_parts, tables_on
from loadproof.cli.profile_names import option
from loadproof.errors import ExitCode, InputError
from loadproof.pages.file import write_whole
from loadproof.profiles import Profile, load_profile, profile_hash
from loadproof.profiles.names import VARIANT_NAME, endpoint_name
from loadproof.terminal import Terminal


def learn(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="files, folders or s3:// prefixes of SageMaker data capture or Bedrock logs, or one trace; default: "
            "what the profile's endpoint captured on --day"
        ),
    ] = None,
    profile: Annotated[Path | None, option("whose workload it becomes; without one only the fit is shown")] = None,
    against: Annotated[Path | None, option("that was proven: is this still its traffic? Exit 1 where it moved")] = None,
    day: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="of the endpoint's capture, UTC; default: yesterday"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="file for the change as a diff; default: shown")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="folder that keeps what was read, to go on from after a kill; gone when all is read"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="chance of the twin's arrivals and sizes")] = 0,
    format: TextOrJson = "text",
) -> int:
    """Fit a profile's workload to recorded traffic.

    Only lengths and times are kept of it. The change is shown, never made: `git apply` makes it.

    With a profile the twin is held under both, so that it is seen how close the fit comes.
    With --against the traffic is tested against what the profile was proven with; a change is made where it moved.
    """
    if against is not None and profile is not None:
        raise InputError("--against names the profile already; leave --profile out")
    file = profile or against
    loaded = None if file is None else load_profile(file)
    try:
        said = _said(sources or [_captured(file, loaded, day)], resume, seed, against is not None, file, loaded)
    except NothingRecordedError as nothing:
        if sources or against is None:
            raise
        return _quiet(f"{nothing}: nothing to hold against what was proven", format, out)
    if format == "json":
        print(json.dumps(document(said), indent=2, allow_nan=False))
    else:
        print_parts(lines(said), tables_on(120))
        if said.diff and out is None:
            print(f"\n{said.diff}", end="")
    if out is not None:
        write_whole(said.diff, out)
    return ExitCode.MISSED if said.moved else ExitCode.OK


def _said(
    sources: list[str], resume: Path | None, seed: int, against: bool, file: Path | None, profile: Profile | None
) -> Said:
    """What is learned of it, held against the profile's traffic or not, and the change."""
    proven = None if file is None or profile is None else _proven(file, profile)
    with Terminal(stderr=True).status("reading recorded traffic") as status:
        recorded = read_recorded(sources, lambda progress: status.update(progress.words), resume)
        recorded.share *= _share(recorded, profile)
        week = week_in(profile.workload.arrivals, recorded) if profile is not None else ()
        said = Said(recorded, fit(recorded, seed, week))
        if against and profile is not None and proven is not None:
            said.against = {"name": profile.name, "sha256": profile_hash(profile)}
            said.drifts, notes = drift_of(proven, recorded, seed, steady=proven is profile)
            said.notes += notes
        if file is not None and proven is not None and (not against or said.moved):
            status.update(f"simulating {len(recorded):,} requests, recorded and learned")
            _change(said, file, proven, seed)
    return said


def _quiet(why: str, format: TextOrJson, out: Path | None) -> int:
    """A day on which nobody asked is no mistake, and no other traffic."""
    print(json.dumps({"schema_version": 1, "requests": 0, "moved": None, "notes": [why]}) if format == "json" else why)
    if out is not None:
        write_whole("", out)
    return ExitCode.OK


def _proven(file: Path, profile: Profile) -> Profile:
    """With lengths and turns of the trace that it was proven with, if it was: whose rate is none that is steady."""
    traced = own_trace(file, profile)
    if traced is None:
        return profile
    if traced.learned is None:
        raise InputError(f"{file}: workload.arrivals.trace: {traced.why}")
    return planned_as(profile, traced.learned)


def _change(said: Said, file: Path, proven: Profile, seed: int) -> None:
    """The profile as it would become, and what the twin makes of both. Raises RefusedError, unless the traffic moved:
    that is told without a change, too."""
    try:
        edit, changed = learned_edit(file, said.learned)
    except RefusedError as refused:
        if not said.moved:
            raise
        said.notes.append(str(refused))
        edit, changed = None, planned_as(proven, said.learned)
    twins = twins_of(proven, changed, said.recorded, seed)
    if edit is not None:
        said.diff = edit.diff
        said.notes += notes_of(file, said.learned)
        if twins.recorded is not None:
            said.closeness = closeness_of(twins.recorded, twins.learned)
    if said.moved:
        said.consequences = consequences_of(changed, twins.proven, twins.recorded or twins.learned[0])


def _captured(file: Path | None, profile: Profile | None, day: datetime | None) -> str:
    """Where the profile's endpoint captures a day. Raises InputError where it captures nothing."""
    capture = profile.endpoint.data_capture if profile is not None and profile.endpoint is not None else None
    if file is None or profile is None or capture is None:
        what = "give SOURCES" if profile is None else f"{profile.name} has no endpoint.data_capture; give SOURCES"
        raise InputError(f"learn: {what}: files, folders or s3:// prefixes of recorded traffic")
    wanted = day or datetime.now(UTC) - timedelta(days=1)
    name = endpoint_name(file.resolve().parent.name, profile.name)
    return f"{capture.s3_uri.rstrip('/')}/{name}/{VARIANT_NAME}/{wanted:%Y/%m/%d}/"


def _share(recorded: Recorded, profile: Profile | None) -> float:
    """Of all requests that the endpoint's capture takes; what else recorded them took all."""
    endpoint = profile.endpoint if profile is not None else None
    if not recorded.captured or endpoint is None or endpoint.data_capture is None:
        return 1.0
    return endpoint.data_capture.sampling_percent / 100
