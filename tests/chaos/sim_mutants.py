"""Defects planted in the consumer and in the queue: does the simulator see them?

`python tests/chaos/sim_mutants.py` tries all of them; with a seed and a number, so many that `scripts/mutants.py` makes
of the same modules by chance, most of which break nothing that the contract speaks of.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import resource
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from sim_package import ROOT, SIMULATOR_BROKE, Change, blamed, replaced, source
from sim_run import violations
from sim_themes import drawn
from sim_world import Version

SCHEDULES: Final = 2000
_CPU_S: Final = 60


class Planted(NamedTuple):
    """A module, what stands there, and what stands there instead."""

    place: str
    now: str
    instead: str


PLANTED: Final = tuple(
    Planted(**row) for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["planted"]
)


class Trial(NamedTuple):
    """`words`: of the judge, of an exception out of the mutated code; or why there is no verdict."""

    caught: bool
    words: str


def tried(changes: dict[str, Change], schedules: int = SCHEDULES) -> Trial:
    """Whether a schedule breaks the contract. In a fork, with so much CPU and no more.

    A simulator that breaks, or a mutant that uses up the CPU, proves nothing: not caught, and said.
    """
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
        sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
        try:
            trial = _verdict(changes, schedules)
        except BaseException as error:
            words = blamed(error)
            trial = Trial(not words.startswith(SIMULATOR_BROKE), words)
        os.write(theirs, json.dumps(trial).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    return Trial(*json.loads(told)) if told else Trial(False, f"no verdict within {_CPU_S} s of CPU")


def _verdict(changes: dict[str, Change], schedules: int) -> Trial:
    version, broke = Version(changes), ""
    for seed in range(schedules):
        for words in violations(drawn(seed), (version, version)):
            if not words.startswith(SIMULATOR_BROKE):
                return Trial(True, f"seed {seed}: {words}")
            broke = broke or f"seed {seed}: {words}"
    return Trial(False, broke or f"{schedules} schedules hold")


def caught(changes: dict[str, Change], schedules: int = SCHEDULES) -> str:
    """The verdict that caught it; empty where it was not."""
    trial = tried(changes, schedules)
    return trial.words if trial.caught else ""


def by_chance(seed: int, number: int) -> dict[str, dict[str, Change]]:
    """Some of all that the mutator makes of the same modules."""
    found: dict[str, dict[str, Change]] = {}
    mutator = _mutator()
    for place in sorted({planted.place for planted in PLANTED}):
        tree, seen = ast.parse(source(place)), Counter()
        for key, mutant in mutator.mutants(tree):
            seen[key] += 1
            name = f"{place}: {key[0] or 'module'}: {key[1]} #{seen[key]}"
            found[name] = {place: _putting(mutator.put, tree, mutant)}
    return {name: found[name] for name in Random(seed).sample(sorted(found), number)}


def _mutator() -> Any:
    spec = importlib.util.spec_from_file_location("mutator", ROOT / "scripts" / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _putting(put: Callable[..., None], tree: ast.Module, mutant: Any) -> Change:
    def change(_: ast.Module) -> ast.Module:
        put(*mutant)
        return tree

    return change


def planted() -> dict[str, dict[str, Change]]:
    return {
        f"{one.place}: {' '.join(one.now.split())} -> {' '.join(one.instead.split()) or 'nothing'}": {
            one.place: replaced(*one)
        }
        for one in PLANTED
    }


def told(name: str, changes: dict[str, Change]) -> bool:
    """Whether it is caught; what is not, and why, is printed."""
    trial = tried(changes)
    if not trial.caught:
        print(f"survived: {name} ({trial.words})", flush=True)
    return trial.caught


def main(arguments: list[str]) -> int:
    mutants = by_chance(*map(int, arguments)) if arguments else planted()
    alive = [name for name, changes in mutants.items() if not told(name, changes)]
    print(f"{len(mutants) - len(alive)} of {len(mutants)} caught")
    return int(len(alive) > 0.05 * len(mutants))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
