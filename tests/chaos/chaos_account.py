"""What became of every key, by the model's own log."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from chaos_world import World

_TEXT = re.compile(r"answer (\d+) to (.+)")
_STORE_S = 5.0  # a process that died longer than this after an answer's last byte had time to store it


@dataclass(frozen=True, slots=True)
class Generation:
    """One time that the model worked. Unix times; `ended_s` is None while nothing says that it ended."""

    number: int
    pid: int
    began_s: float
    ended_s: float | None


@dataclass(frozen=True, slots=True)
class Account:
    """Keys by what went wrong with them, and how often the model worked and was asked."""

    stored: int
    lost: tuple[str, ...]  # neither a result nor a dead letter
    wrong: tuple[str, ...]  # a result that answers something else
    double: tuple[str, ...]  # a result that was written more than once
    dead: tuple[str, ...]
    unexplained: tuple[str, ...]  # generated again though no process died with it in its hands
    generations: int
    requests: int

    @property
    def repeats(self) -> int:
        return self.generations - self.stored

    def missed(self) -> tuple[str, ...]:
        """Names of the promises that were not kept, where every key was healthy."""
        return tuple(name for name in ("lost", "wrong", "double", "dead", "unexplained") if getattr(self, name))


def account(made: World, keys: list[str]) -> Account:
    """Compare results, dead letters and the model's log with what was sent."""
    results, writes = results_of(made)
    dead = {json.loads(letter["Body"])["key"] for letter in made.dead()}
    generations = generations_of(made.events())
    deaths = {end["pid"]: end["time_s"] for end in made.ends}
    wanted = set(keys)
    return Account(
        stored=len(results),
        lost=tuple(sorted(wanted - set(results) - dead)),
        wrong=tuple(key for key, text in results.items() if _number(key, text) is None),
        double=tuple(key for key, count in writes.items() if count > 1),
        dead=tuple(sorted(dead)),
        unexplained=tuple(
            key for key, several in generations.items() if _unexplained(several, deaths, _number(key, results.get(key)))
        ),
        generations=sum(map(len, generations.values())),
        requests=sum(event["at"] in ("begun", "refused") for event in made.events()),
    )


def generations_of(events: list[dict[str, Any]]) -> dict[str, list[Generation]]:
    """By key, in the order in which they began."""
    ends = {event["number"]: event["time_s"] for event in events if event["at"] in ("ended", "cut")}
    found: dict[str, list[Generation]] = defaultdict(list)
    for event in events:
        if event["at"] == "begun":
            number = event["number"]
            found[event["key"]].append(Generation(number, event["pid"], event["time_s"], ends.get(number)))
    return found


def _unexplained(several: list[Generation], deaths: dict[int, float], stored: int | None) -> bool:
    """Whether a generation was followed by another though its process had not died with it in hand.

    What was generated after the stored one is never explained: its result was there.
    """
    for at, one in enumerate(several[:-1]):
        died_s = deaths.get(one.pid)
        if one.number == stored or died_s is None or died_s < one.began_s:
            return True
        if died_s > several[at + 1].began_s or died_s > (one.ended_s or died_s) + _STORE_S:
            return True
    return False


def results_of(made: World) -> tuple[dict[str, str], dict[str, int]]:
    """By key the stored text, and how often it was written."""
    texts: dict[str, str] = {}
    writes: dict[str, int] = defaultdict(int)
    for page in made.s3.get_paginator("list_object_versions").paginate(Bucket=made.name, Prefix="results/"):
        for version in page.get("Versions", []):
            result = json.loads(made.s3.get_object(Bucket=made.name, Key=version["Key"])["Body"].read())
            texts[result["key"]] = result["answer"]["choices"][0]["text"]
            writes[result["key"]] += 1
    return texts, writes


def _number(key: str, text: str | None) -> int | None:
    """The generation that a stored text comes from; None where it answers another key, or nothing."""
    found = _TEXT.fullmatch(text or "")
    return int(found[1]) if found and found[2] == key else None
