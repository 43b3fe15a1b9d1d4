"""Synthesis of one side by its own code, in processes of their own, as the CDK CLI starts them."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from loadproof.errors import CouldNotRunError, ExitCode
from loadproof.profiles.names import stack_name
from loadproof.scaffold import team_files
from loadproof.sides.deadline import SYNTHESIZED, Deadline
from loadproof.sides.names import readable_name
from loadproof.sides.programs import App, Programs
from loadproof.sides.tree import ENTRY, PROFILES

MOST_OUTPUT_BYTES: Final = 16 * 2**20  # of one template; CloudFormation takes 1 MB
MOST_ARTIFACTS: Final = 10_000
MOST_ATTEMPTS: Final = 16  # processes that look for the profiles of one job that cannot be synthesized
MOST_AT_A_TIME: Final = 32  # profiles of one process, where the time may be over before all are done
_CHEAP: Final = 20  # profiles that cost less to synthesize along than another process
_MOST_WORDS: Final = 2000  # characters of a refusal
Key = TypeVar("Key")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# A folder of profiles without a CDK app: this installation's stacks.
_OWN_APP: Final = (
    "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); from stacks.application import main; "
    "sys.exit(main(Path(sys.argv[2])))"
)


class UnreadableError(Exception):
    """What synthesis left is not what the CDK writes."""


@dataclass(frozen=True, slots=True)
class SynthesisJob:
    """Profiles that one process synthesizes: those `names` of every environment; None for all they have.

    `existing` are all names of each environment of the side: what is told apart from an environment's own stacks.
    """

    names: tuple[str, ...] | None
    wanted: Mapping[str, tuple[str, ...]]  # by environment
    existing: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Synthesized:
    """Templates by environment, profile and stack; `shared` are stacks of an environment. Refusals likewise.

    `crash` is the last word of a program that fell over, and did not refuse its input; "" where none did. `late` are
    profiles that the review's time was over for.
    """

    profiles: Mapping[tuple[str, str], Mapping[str, object]]
    shared: Mapping[str, Mapping[str, object]]
    refusals: Mapping[tuple[str, str], str]
    crash: str = ""
    late: tuple[tuple[str, str], ...] = ()


def jobs_of(wanted: Mapping[str, Sequence[str]], existing: Mapping[str, Sequence[str]]) -> tuple[SynthesisJob, ...]:
    """One process for environments that want profiles of the same names, or for all where little is done in vain."""
    chosen = {name: tuple(sorted(names)) for name, names in sorted(wanted.items()) if names}
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, names in chosen.items():
        groups.setdefault(names, []).append(name)
    in_vain = sum(len(existing[name]) - len(names) for name, names in chosen.items())
    if len(groups) > 1 and in_vain <= _CHEAP:
        return (SynthesisJob(None, chosen, existing),)
    return tuple(SynthesisJob(group, dict.fromkeys(names, group), existing) for group, names in groups.items())


def split(jobs: Sequence[SynthesisJob], at_once: int, most: float = math.inf) -> tuple[SynthesisJob, ...]:
    """The same work in as many jobs as can run at once, of at most so many profiles, none so small that its start is
    most of it."""
    parts = list(jobs)
    while parts:
        largest = max(parts, key=_size)
        if _size(largest) < min(most, 2 * _CHEAP) or (len(parts) >= at_once and _size(largest) <= most):
            break
        at = parts.index(largest)
        parts[at : at + 1] = _halves(largest)
    return tuple(parts)


def _size(job: SynthesisJob) -> int:
    return sum(len(names) for names in job.wanted.values())


class Synthesizer:
    """Runs jobs; `stop` ends whatever is under way, from any thread."""

    def __init__(self, programs: Programs, deadline: Deadline) -> None:
        self._programs, self._deadline = programs, deadline

    def synthesize(self, app: App, job: SynthesisJob) -> Synthesized:
        """Every profile of the job: where some cannot be synthesized, the others still are.

        Raises CouldNotRunError where the machine is at fault and not a profile.
        """
        return self._synthesized(app, job, [MOST_ATTEMPTS])

    def stop(self) -> None:
        self._programs.stop()

    def _synthesized(self, app: App, job: SynthesisJob, attempts: list[int]) -> Synthesized:
        attempts[0] -= 1
        everything = [(environment, name) for environment, names in job.wanted.items() for name in names]
        late = Synthesized({}, {}, dict.fromkeys(everything, self._deadline.refusal), late=tuple(everything))
        if self._deadline.is_over(SYNTHESIZED):
            return late
        with tempfile.TemporaryDirectory(prefix="loadproof-synth-") as folder:
            out = Path(folder)
            code, words = self._run(app, job, out)
            if code is ExitCode.OK:
                try:
                    return _read(out, job)
                except UnreadableError as error:
                    code, words = ExitCode.MISSED, f"what synthesis wrote cannot be read: {error}"
        if self._deadline.is_over(SYNTHESIZED):
            return late
        blamed = _blamed(job, words)
        rest = _without(job, blamed)
        parts = (rest,) if blamed and _size(rest) else _halves(job)
        # What broke out of its bounds would do so again, and take as long.
        if attempts[0] <= 0 or not parts or code is ExitCode.COULD_NOT_RUN:
            return Synthesized({}, {}, dict.fromkeys(everything, words), "" if code is ExitCode.BAD_INPUT else words)
        return joined([Synthesized({}, {}, blamed), *(self._synthesized(app, part, attempts) for part in parts)])

    def _run(self, app: App, job: SynthesisJob, out: Path) -> tuple[ExitCode, str]:
        """OK with the templates in `out`, BAD_INPUT with the reason where they are refused, MISSED after a crash,
        COULD_NOT_RUN for what had to be ended.

        An error among the template rules (exit 1) stops a deployment: the templates are there all the same.
        """
        asked = {"env": ",".join(job.wanted)} | ({} if job.names is None else {"profile": ",".join(job.names)})
        own = [ENTRY] if app.own_code else ["-P", "-c", _OWN_APP, str(team_files()), str(app.root / PROFILES)]
        ended = self._programs.run(own, app, json.dumps({**app.context, **asked}), out, profiles=_size(job))
        if ended.breach:
            return ExitCode.COULD_NOT_RUN, f"synthesis was ended: it took {ended.breach}"
        if (out / "manifest.json").is_file() and ended.code in (ExitCode.OK, ExitCode.MISSED):
            return ExitCode.OK, ""
        words = _words(ended.said, app.root)
        if not ended.walled and (ended.code < 0 or ended.code == ExitCode.COULD_NOT_RUN):
            raise CouldNotRunError(f"synthesis ended {_ending(ended.code)}: {words}")
        words = words or f"synthesis ended {_ending(ended.code)} and no word"
        return (ExitCode.BAD_INPUT if ended.code == ExitCode.BAD_INPUT else ExitCode.MISSED), words


def joined(outcomes: Sequence[Synthesized]) -> Synthesized:
    """Outcomes of parts as one."""
    return Synthesized(
        {key: value for one in outcomes for key, value in one.profiles.items()},
        {key: value for one in outcomes for key, value in one.shared.items()},
        {key: value for one in outcomes for key, value in one.refusals.items()},
        next((one.crash for one in outcomes if one.crash), ""),
        tuple(key for one in outcomes for key in one.late),
    )


def _blamed(job: SynthesisJob, words: str) -> dict[tuple[str, str], str]:
    """Who is named in a refusal, by profile or by file, with what is said; nobody where a name could be two."""
    if len(job.wanted) != 1:
        return {}
    ((environment, names),) = job.wanted.items()
    lines = words.split("\n")
    found = {
        name: [line for line in lines if f"profile {name}: " in line or f"{PROFILES}/{environment}/{name}.y" in line]
        for name in names
    }
    return {(environment, name): "\n".join(said) for name, said in found.items() if said}


def _without(job: SynthesisJob, left_out: Mapping[tuple[str, str], str]) -> SynthesisJob:
    wanted = {
        environment: tuple(name for name in names if (environment, name) not in left_out)
        for environment, names in job.wanted.items()
    }
    return SynthesisJob(next(iter(wanted.values())), wanted, job.existing)


def _halves(job: SynthesisJob) -> tuple[SynthesisJob, ...]:
    """A job in two, environments first; none where it is a single profile."""
    if len(job.wanted) > 1:
        return tuple(SynthesisJob(names, {name: names}, job.existing) for name, names in job.wanted.items())
    ((environment, names),) = job.wanted.items()
    middle = len(names) // 2
    parts = (names[:middle], names[middle:])
    return tuple(SynthesisJob(part, {environment: part}, job.existing) for part in parts) if middle else ()


def _ending(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


def _words(said: str, root: Path) -> str:
    """What a person should read of it: without a traceback, without paths of this machine, shortened."""
    lines = [line.rstrip() for line in said.replace(f"{root}{os.sep}", "").replace(str(root), ".").splitlines()]
    lines = [line for line in lines if line.strip()]
    if any(line.startswith("Traceback ") for line in lines):
        last = [line for line in lines if not line.startswith((" ", "Traceback "))]
        lines = last[-1:]
    text = "\n".join(line.removeprefix("loadproof: ") for line in lines)
    return text if len(text) <= _MOST_WORDS else text[:_MOST_WORDS] + "…"


def _read(out: Path, job: SynthesisJob) -> Synthesized:
    """The templates by whose they are: a profile's by their names, an environment's own where no profile's fits."""
    manifest = _json(out, "manifest.json")
    artifacts = manifest.get("artifacts") if isinstance(manifest, dict) else None
    if not isinstance(artifacts, dict) or len(artifacts) > MOST_ARTIFACTS:
        raise UnreadableError(f"manifest.json: expected at most {MOST_ARTIFACTS:,} artifacts, as the CDK writes them")
    profiles: dict[tuple[str, str], dict[str, object]] = {
        (environment, name): {} for environment, names in job.wanted.items() for name in names
    }
    shared: dict[str, dict[str, object]] = {environment: {} for environment in job.wanted}
    owners = {
        stack_name(environment, name): (environment, name)
        for environment in shared
        for name in job.existing[environment]
    }
    for artifact_id, artifact in sorted(artifacts.items()):
        if not isinstance(artifact, dict) or artifact.get("type") != "aws:cloudformation:stack":
            continue
        properties = artifact.get("properties")
        file = properties.get("templateFile") if isinstance(properties, dict) else None
        stack = properties.get("stackName", artifact_id) if isinstance(properties, dict) else None
        if not isinstance(file, str) or not isinstance(stack, str):
            raise UnreadableError(f"manifest.json: {readable_name(artifact_id)} names no template")
        template = _json(out, file)
        if not isinstance(template, dict):
            raise UnreadableError(f"{readable_name(file)}: no template")
        owner = owners.get(stack) or _longest(stack, {key: f"{name}-" for name, key in owners.items()})
        environment = _longest(stack, {name: stack_name(name, "") for name in shared})
        if owner in profiles:
            profiles[owner][stack] = template
        elif owner is None and environment is not None:
            shared[environment][stack] = template
    return Synthesized(profiles, shared, {})


def _json(out: Path, name: str) -> object:
    """A file that synthesis wrote into `out`: of its own, no link, and no larger than CloudFormation takes by far."""
    file = out / name
    try:
        if file.parent != out or file.is_symlink() or not file.is_file():
            raise UnreadableError(f"{readable_name(name)}: no file that synthesis wrote")
        with file.open("rb") as opened:
            content = opened.read(MOST_OUTPUT_BYTES + 1)
        if len(content) > MOST_OUTPUT_BYTES:
            raise UnreadableError(f"{readable_name(name)}: larger than {MOST_OUTPUT_BYTES // 2**20} MiB")
        return json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableError(f"{readable_name(name)}: no JSON ({type(error).__name__})") from None


def _longest(stack: str, beginnings: Mapping[Key, str]) -> Key | None:
    fitting = {beginning: key for key, beginning in beginnings.items() if stack.startswith(beginning)}
    return fitting[max(fitting, key=len)] if fitting else None


def is_plain_name(name: str) -> bool:
    """False for what `-c env=` and `-c profile=` would take for something else."""
    return _PLAIN_NAME.fullmatch(name) is not None
