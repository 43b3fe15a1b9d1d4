"""Profiles with one or two things wrong: a walk over the schema that puts at each place what does not belong there.

    .venv/bin/python tests/fuzz/profile_mutants.py [--first 0] [--mutants 100000] [--accepted FILE]

Says how many were refused, accepted with a word, and accepted without one; stops at the first that is not answered by
findings. `--accepted` keeps those that no finding says anything about, for a person to read: is any of them nonsense?
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from loadproof.profiles import Checked, check_file

ROOT: Final = Path(__file__).parents[2]
SCHEMA: Final = ROOT / "deploy_profiles" / "schema.json"
Path_ = tuple[str | int, ...]
# What does not belong anywhere, of every kind.
STRANGE: Final[tuple[Any, ...]] = (
    None, True, False, "", " ", "a", "0", "1e999", "-1", "null", "~", "auto", "${HOME}", "../../etc/passwd", "x" * 5000,
    "\u202e", "é\u0301", "cron(0 3 * * ? *)", "2026-01-01", "arn:aws:s3:::b", 0, -1, 1, 1.5, -0.0, 1e-300, 1e300, 2**63,
    10**30, float("inf"), float("nan"), [], [[]], [None], {}, {"a": {}}, {"": ""}, {1: 2}, ["a"] * 2000,
)  # fmt: skip
FACTORS: Final = (0.0, -1.0, 1e-9, 1e-6, 1e-3, 0.01, 0.1, 0.5, 0.999, 1.001, 2.0, 10.0, 100.0, 1e3, 1e6, 1e9)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A profile's tree, and in words what was done to it."""

    tree: Any
    done: tuple[str, ...]


def originals() -> list[Path]:
    """Every profile of this repository that stands by itself or on a parent."""
    kept = (ROOT / "tests" / "profiles" / "good", ROOT / "tests" / "fuzz")
    files = [file for folder in (*(ROOT / "deploy_profiles").iterdir(), *kept) for file in folder.glob("*.yaml")]
    return sorted(
        file
        for file in files
        if not file.name.endswith(".calibration.yaml") and file.name not in ("environment.yaml", "signers.yaml")
    )


class Mutator:
    """Mutants of profiles, by a seed each."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._trees = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
        self._schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
        self._leaves = [value for tree in self._trees for _, value in _walk(tree) if not isinstance(value, dict | list)]

    def mutant(self, seed: int) -> tuple[Path, Mutant]:
        """The file that it is a mutant of, and the mutant."""
        chance = Random(seed)
        at = chance.randrange(len(self._files))
        tree = copy.deepcopy(self._trees[at])
        done = tuple(self._mutate(tree, chance) for _ in range(chance.choice((1, 1, 1, 2))))
        return self._files[at], Mutant(tree, done)

    def _mutate(self, tree: Any, chance: Random) -> str:
        places = [(path, value) for path, value in _walk(tree) if path]
        if not places or chance.random() < 0.3:
            return self._add(tree, chance)
        path, value = chance.choice(places)
        numbers = [one for one in places if isinstance(one[1], int | float) and not isinstance(one[1], bool)]
        way = chance.choice(("strange", "scaled", "scaled", "gone", "foreign", "swapped", "doubled", "renamed"))
        if way == "scaled" and numbers:
            path, value = chance.choice(numbers)
            factor = chance.choice(FACTORS)
            scaled = value * factor if chance.random() < 0.3 else type(value)(value * factor)
            return _put(tree, path, scaled)
        if way == "gone":
            return _cut(tree, path)
        if way == "foreign":
            return _put(tree, path, copy.deepcopy(chance.choice(self._leaves)))
        if way == "swapped":
            other, its = chance.choice(places)
            if path[: len(other)] != other and other[: len(path)] != path:
                _put(tree, other, value)
                return _put(tree, path, its) + f" with {_shown(other)}"
        if way == "doubled" and isinstance(value, list):
            return _put(tree, path, value * chance.choice((2, 50)))
        if way == "renamed" and isinstance(path[-1], str):
            parent = _at(tree, path[:-1])
            parent[chance.choice((path[-1] + "s", path[-1].upper(), f"-{path[-1]}", "x"))] = parent.pop(path[-1])
            return f"{_shown(path)} called otherwise"
        return _put(tree, path, copy.deepcopy(chance.choice(STRANGE)))

    def _add(self, tree: Any, chance: Random) -> str:
        """A key that the schema has at some place and this profile has not, with a value that may even fit."""
        path: Path_ = ()
        schema: Any = {"$ref": "#/$defs/Profile"}
        while True:
            schema = self._resolved(schema, chance)
            names = sorted(schema.get("properties", {}))
            if not names:
                break
            name = chance.choice(names)
            path, schema = (*path, name), schema["properties"][name]
            if chance.random() < 0.4:
                break
        parent = tree
        for name in path[:-1]:
            if not isinstance(parent, dict):
                return self._mutate(tree, chance) if isinstance(tree, dict) and tree else ""
            parent = parent.setdefault(name, {})
        if not path or not isinstance(parent, dict):
            return ""
        parent[path[-1]] = self._value(schema, chance)
        return f"{_shown(path)} = {str(parent[path[-1]])[:60]}"

    def _value(self, schema: Any, chance: Random) -> Any:
        schema = self._resolved(schema, chance)
        if chance.random() < 0.2:
            return copy.deepcopy(chance.choice(STRANGE))
        if "const" in schema or "enum" in schema:
            return chance.choice(schema.get("enum") or [schema["const"]])
        kind = schema.get("type")
        if kind in ("integer", "number"):
            low, high = schema.get("minimum", schema.get("exclusiveMinimum", 0)), schema.get("maximum", 10**6)
            return chance.choice(
                (low, high, low + 1, (low + high) / 2 if kind == "number" else (low + high) // 2, high + 1)
            )
        if kind == "boolean":
            return chance.random() < 0.5
        if kind == "array":
            return [self._value(schema.get("items", {}), chance) for _ in range(chance.choice((0, 1, 2)))]
        if kind == "object":
            wanted = [name for name in schema.get("properties", {}) if chance.random() < 0.5]
            return {name: self._value(schema["properties"][name], chance) for name in wanted}
        return chance.choice((*schema.get("examples", ()), "a", copy.deepcopy(chance.choice(self._leaves))))

    def _resolved(self, schema: Any, chance: Random) -> Any:
        for _ in range(20):
            if "$ref" in schema:
                found = self._schema
                for part in schema["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
                schema = found
            elif ways := schema.get("anyOf") or schema.get("oneOf"):
                schema = chance.choice(ways)
            elif schema.get("allOf"):
                schema = chance.choice(schema["allOf"])
            else:
                break
        return schema


def checked(file: Path, mutant: Mutant) -> Checked:
    """As `loadproof check` reads it, from the place of its original, where its parents and neighbours are."""
    text = yaml.safe_dump(mutant.tree, sort_keys=False, allow_unicode=True)
    answer = check_file(file, text.encode("utf-8", "surrogatepass"))
    for problem in answer.problems:
        assert str(problem)
    assert answer.ok or any(problem.severity == "error" for problem in answer.problems)
    return answer


def _walk(tree: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    yield path, tree
    rows = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in rows:
        yield from _walk(value, (*path, key))


def _at(tree: Any, path: Path_) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _put(tree: Any, path: Path_, value: Any) -> str:
    _at(tree, path[:-1])[path[-1]] = value
    return f"{_shown(path)} = {str(value)[:60]}"


def _cut(tree: Any, path: Path_) -> str:
    del _at(tree, path[:-1])[path[-1]]
    return f"{_shown(path)} gone"


def _shown(path: Path_) -> str:
    return ".".join(map(str, path))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--accepted", type=Path)
    arguments = parser.parse_args()
    mutator, came, began_s = Mutator(originals()), Counter[str](), time.monotonic()
    with open(arguments.accepted or os.devnull, "w", encoding="utf-8") as accepted:  # noqa: PTH123
        for seed in range(arguments.first, arguments.first + arguments.mutants):
            file, mutant = mutator.mutant(seed)
            try:
                answer = checked(file, mutant)
            except Exception:
                traceback.print_exc()
                print(f"mutant {seed} of {file.relative_to(ROOT)}: {'; '.join(mutant.done)}")
                return 1
            came["refused" if not answer.ok else "told" if answer.problems else "accepted"] += 1
            if not answer.problems:
                accepted.write(f"{seed} {file.relative_to(ROOT)}: {'; '.join(mutant.done)}\n")
            if (seed + 1) % 2000 == 0:
                print(
                    f"{seed + 1 - arguments.first:,} mutants, {time.monotonic() - began_s:,.0f} s: {dict(came)}",
                    flush=True,
                )
    print(f"{arguments.mutants:,} mutants, no traceback: {dict(came)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
