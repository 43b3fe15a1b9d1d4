"""The pairs under tests/review/pairs: a profile or a template before and after, and what a review must find.

`<pair>/{before,after}/<environment>/{environment,<profile>}.yaml` are folders as `deploy_profiles/`, a side may be
missing. Where no profile can show it (our stacks do it right) `<pair>/{before,after}.json` are templates, with an
optional `environment.yaml` that holds for both. `<pair>/expected.yaml` lists the findings, all of them, and what
`.gitattributes` makes of either side's files (`converted`); `said.txt` holds their words (written again with
REWRITE_SNAPSHOTS=1).
Everything is synthesized once a process: one App, a stage for each different side.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

from aws_cdk import App, Stage

from loadproof.constructs.deployment import Deployment
from loadproof.errors import InputError, Problem
from loadproof.profiles import Environment, Profile, check_file, profile_hash
from loadproof.profiles.loader import named_files
from loadproof.review.assemble import review_pair
from loadproof.review.model import Finding, MeasuredRun, Pair, Side
from stacks.application import add_stacks

ROOT = Path(__file__).parents[2]
PAIRS = Path(__file__).parent / "pairs"
Expected = tuple[tuple[str, str, str], ...]  # code, severity, subject; in the order of findings


@dataclass(frozen=True)
class _Read:
    """One side as its files say it, not yet synthesized."""

    environment_name: str
    file: Path
    environment: Environment | None
    profile: Profile | None
    problems: tuple[Problem, ...]

    @property
    def key(self) -> str:
        profile, environment = self.profile, self.environment
        assert profile is not None and environment is not None
        written = environment.model_dump_json() + profile.model_dump_json()
        return f"{self.environment_name}/{profile_hash(profile)}/{written}"


@cache
def names() -> tuple[str, ...]:
    """The pairs, by folder name."""
    return tuple(sorted(folder.name for folder in PAIRS.iterdir() if (folder / "expected.yaml").is_file()))


@cache
def expected(name: str) -> Expected:
    """The findings that a review of the pair must have, no more and no less."""
    listed = yaml.safe_load((PAIRS / name / "expected.yaml").read_text(encoding="utf-8"))["findings"]
    return tuple(sorted((each["code"], each["severity"], each["subject"]) for each in listed))


def runs(name: str) -> tuple[MeasuredRun, ...]:
    """What is measured of the pair: `measured: before` in expected.yaml is a run of that side, `older` of neither, and
    `taken_away` says the same of runs that the change takes away."""
    gone = about(name).get("taken_away")
    of = gone or about(name).get("measured")
    if of is None:
        return ()
    side = pair(name).before
    assert side is not None and side.profile is not None
    digest = profile_hash(side.profile) if of == "before" else "0" * 64
    run = MeasuredRun("20261120-080000-chat", "2026-11-20T08:00:00Z", "chat", "prod", digest, "PASS", {})
    return (replace(run, verdict="FAIL", gone=True),) if gone else (run,)


@cache
def about(name: str) -> Mapping[str, Any]:
    """expected.yaml as it is: `shows` in words, `near_miss` codes that must not be found."""
    read: Mapping[str, Any] = yaml.safe_load((PAIRS / name / "expected.yaml").read_text(encoding="utf-8"))
    return read


@cache
def findings(name: str) -> tuple[Finding, ...]:
    """What the review finds in the pair."""
    return review_pair(pair(name), runs(name)).findings


def said(name: str) -> str:
    """The findings as said.txt has them, and the page about findings shows them: a line each."""
    shown = "".join(
        f"{one.code} {one.severity}{' ' if one.place else ''}{one.place}: {one.message}; {one.mend}"
        + (f" ({one.evidence})\n" if one.evidence else "\n")
        for one in findings(name)
    )
    file = PAIRS / name / "said.txt"
    if os.environ.get("REWRITE_SNAPSHOTS"):
        file.write_text(shown, encoding="utf-8")
    return shown


def pairs() -> list[tuple[str, Pair, Expected]]:
    """Every pair with what is expected of it."""
    return [(name, pair(name), expected(name)) for name in names()]


def pair(name: str) -> Pair:
    """One pair, synthesized with all the others."""
    return _all()[name]


@cache
def _all() -> dict[str, Pair]:
    read = {(name, side): _read(name, side) for name in names() for side in ("before", "after")}
    templates = _synthesized(
        [one for one in read.values() if isinstance(one, _Read) and one.profile is not None and one.environment]
    )
    return {name: _pair(name, read[name, "before"], read[name, "after"], templates) for name in names()}


def _pair(name: str, before: _Read | Side | None, after: _Read | Side | None, templates: Mapping[str, Any]) -> Pair:
    sides = [_side(one, templates) if isinstance(one, _Read) else one for one in (before, after)]
    how = about(name).get("converted", {})
    sides = [
        one and replace(one, converted=how.get(at, {})) for at, one in zip(("before", "after"), sides, strict=True)
    ]
    of = next(one for one in (after, before) if one is not None)
    if isinstance(of, Side):
        return Pair("prod", "chat", *sides)
    return Pair(of.environment_name, of.file.stem, *sides)


def _read(name: str, side: str) -> _Read | Side | None:
    folder = PAIRS / name
    document = folder / f"{side}.json"
    if document.is_file():
        template = json.loads(document.read_text(encoding="utf-8"))
        beside = folder / "environment.yaml"
        environment = check_file(beside).environment if beside.is_file() else None
        return Side("infrastructure/chat.template.json", environment, None, {"chat": template})
    files = [file for file in sorted((folder / side).glob("*/*.yaml")) if file.name != "environment.yaml"]
    if not files:
        return None
    (file,) = files
    environment_checked, checked = check_file(file.parent / "environment.yaml"), check_file(file)
    shown = f"deploy_profiles/{file.parent.name}/{file.name}"
    problems = tuple(
        replace(problem, file=shown if problem.file.endswith(file.name) else problem.file)
        for problem in (*environment_checked.problems, *checked.problems)
    )
    profile = checked.profile if environment_checked.environment is not None else None
    return _Read(file.parent.name, file, environment_checked.environment, profile, problems)


def _side(read: _Read, templates: Mapping[str, Any]) -> Side:
    found = templates.get(read.key) if read.profile is not None else {}
    shown = f"deploy_profiles/{read.file.parent.name}/{read.file.name}"
    if isinstance(found, str):
        return Side(shown, read.environment, read.profile, {}, read.problems, refusal=found)
    named = named_files(read.profile) if read.profile is not None else []
    data = {f"{Path(shown).parent}/{name}": (read.file.parent / name).read_text() for _, name in named}
    return Side(shown, read.environment, read.profile, found or {}, read.problems, data=data)


def _synthesized(sides: list[_Read]) -> dict[str, dict[str, Any] | str]:
    """Templates by stack name for every different side, or why a side is refused; by the side's key."""
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    context["aws:cdk:disable-creation-stack-traces"] = True
    done: dict[str, dict[str, Any] | str] = {}
    with tempfile.TemporaryDirectory() as outdir:
        app = App(builtin_cloud_formation_validation=False, context=context, outdir=outdir)
        stages: dict[str, str] = {}
        for side in sides:
            if side.key in stages or side.key in done:
                continue
            assert side.profile is not None and side.environment is not None
            stage = Stage(app, f"Side{len(stages)}")
            try:
                deployment = Deployment(side.environment_name, side.environment, side.profile, file=side.file)
                add_stacks(stage, [deployment])  # type: ignore[arg-type]  # a stage is an app within the app
            except InputError as error:
                done[side.key] = str(error)
                app.node.try_remove_child(stage.node.id)
                continue
            stages[side.key] = stage.node.id
        app.synth()
        for key, stage_id in stages.items():
            done[key] = dict(_templates(Path(outdir) / f"assembly-{stage_id}", f"{stage_id}-"))
    return done


def _templates(assembly: Path, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Stack name and template, the stack named as it would be without its stage."""
    artifacts = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    for artifact in artifacts.values():
        if artifact["type"] == "aws:cloudformation:stack":
            properties = artifact["properties"]
            template = json.loads((assembly / properties["templateFile"]).read_text(encoding="utf-8"))
            yield properties["stackName"].removeprefix(prefix), template
