"""Defects planted in the consumer and in the queue: does the simulator see them?

`python tests/chaos/sim_mutants.py` tries all of them; with a seed and a number, so many that `scripts/mutants.py` makes
of the same modules by chance, most of which break nothing that the contract speaks of.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import resource
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from sim_package import ROOT, Change, replaced, source
from sim_run import violations
from sim_schedule import drawn
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


def caught(changes: dict[str, Change], schedules: int = SCHEDULES) -> int:
    """0, or a number above it where a schedule breaks the contract. In a fork, with so much CPU and no more."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    status = 1
    with contextlib.suppress(BaseException):
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
        version = Version(changes)
        sys.stdout = sys.stderr
        status = int(any(violations(drawn(seed), (version, version)) for seed in range(schedules)))
    os._exit(status)


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


def main(arguments: list[str]) -> int:
    tried = by_chance(*map(int, arguments)) if arguments else planted()
    alive = []
    for name, changes in tried.items():
        if not caught(changes):
            alive.append(name)
            print(f"survived: {name}", flush=True)
    print(f"{len(tried) - len(alive)} of {len(tried)} caught")
    return int(len(alive) > 0.05 * len(tried))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
