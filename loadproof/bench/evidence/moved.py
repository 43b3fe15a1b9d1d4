"""What `loadproof learn --against PROFILE --format json` found: whether traffic is still what was proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from loadproof.bench.evidence.status import Proof
from loadproof.bench.plain import read_plain
from loadproof.errors import InputError
from loadproof.profiles import profile_hash


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of the profile with this hash; `moved` in words, empty where it is as proven."""

    sha256: str
    moved: str


def read_traffic(file: Path) -> Traffic:
    """Raises InputError for what `learn --against` did not write."""
    try:
        read = orjson.loads(read_plain(file, may_be_link=True))
        rows = [row for row in read["drift"] if row["moved"]]
        words = [f"{row['quantity']} {row['found'] / row['proven'] - 1:+.0%} since {row['since'][:16]}" for row in rows]
        return Traffic(str(read["against"]["sha256"]), ", ".join(words))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    except (orjson.JSONDecodeError, KeyError, TypeError, ZeroDivisionError):
        raise InputError(f"{file}: expected what `loadproof learn --against PROFILE --format json` prints") from None


def held_against(proofs: Sequence[Proof], traffic: Sequence[Traffic]) -> list[Proof]:
    """The proofs, those of profiles whose traffic has moved no more holding: a run proves what it was driven with."""
    moved = {one.sha256: one.moved for one in traffic if one.moved}
    found = []
    for proof in proofs:
        profile = proof.profile.profile
        words = moved.get(profile_hash(profile)) if profile is not None else None
        found.append(
            proof if words is None else replace(proof, problems=(*proof.problems, f"its traffic moved: {words}"))
        )
    return found
