"""What a workload sends, whoever sends, plans or draws it: sessions of requests, each a small graph.

A single request is a session of one step. A conversation is a chain: every turn waits for the answer before it and a
reader who thinks. An agent is a graph: a tool call is a pause, parallel branches are steps after the same one, a join
is a step after several. A step's prompt begins with all of the first step that it comes after, prompt and answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from operator import attrgetter
from random import Random
from typing import Final

from loadproof.token_counts import TokenCounts, alike_lengths, drawn_lengths, lognormal

_SAMPLED_STEPS: Final = 30_000  # of sessions whose lengths end them: shares of them are known to 1%


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a session. `after` are places of earlier steps, whose answers it waits for."""

    input_tokens: TokenCounts
    """what its prompt has beyond all of the first step that it comes after"""
    output_tokens: TokenCounts
    """lengths of answers"""
    after: tuple[int, ...] = ()
    """places of the steps that it waits for"""
    pause_s: float = 0.0
    """between the last of these answers and this step: somebody thinks, or a tool runs"""
    pause_stddev_s: float = 0.0
    """standard deviation of the pause, which is then lognormal"""
    name: str = ""
    """as the profile calls it"""
    image_tokens: int = 0
    """of the pictures that go with it, where they are counted as text is"""


def chain(
    prompts: TokenCounts,
    answers: TokenCounts,
    turns: int,
    think_time_s: float = 0.0,
    think_time_stddev_s: float = 0.0,
    *,
    first_prompts: TokenCounts | None = None,
) -> tuple[Step, ...]:
    """A conversation's steps, all of these lengths but for the first prompt, which may have its own; a reader thinks
    before each but the first."""
    think = (think_time_s, think_time_stddev_s)
    later = (Step(prompts, answers, (turn,), *think) for turn in range(turns - 1))
    return (Step(first_prompts or prompts, answers), *later)


@dataclass(frozen=True, slots=True)
class ExpectedStep:
    """A step in the mean of those sessions that send it."""

    sent_share: float
    """of all sessions"""
    input_tokens: float
    """its whole prompt, pictures too"""
    history_tokens: float
    """what of its prompt came before"""
    output_tokens: float


@dataclass(frozen=True, slots=True)
class SessionClass:
    """A part of the traffic: sessions of the same steps."""

    steps: tuple[Step, ...]
    """its requests, each after those it waits for"""
    name: str = ""
    """as the profile calls it; empty: what is in no class"""
    share: float = 1.0
    """of all sessions"""
    continues: float = 1.0
    """chance that it goes on after a step"""
    shared_prefix_tokens: int = 0
    """common beginning of its first prompts"""
    paired_lengths: bool = False
    """values of prompts and answers are drawn together"""
    bounds: tuple[tuple[str, float], ...] = ()
    """objectives of its own: names and bounds"""
    max_context_tokens: int | None = None
    """a chain ends before a step whose prompt and answer would have more; a first answer ends there. null: no bound"""
    turn_correlation: float = 0.0
    """how alike lengths of one session are: correlation of the normal scores of two of its prompts, or answers"""

    @property
    def expected(self) -> tuple[ExpectedStep, ...]:
        """Its steps in the mean, but for those that no session gets to.

        Step k is sent by continuesᵏ of all sessions; where lengths end them, by continuesᵏ of those whose lengths do
        not, of which 30,000 steps are drawn.
        """
        if self.max_context_tokens is not None:
            alike = _sampled(replace(self, name="", share=1.0, continues=1.0, bounds=()))
            return tuple(
                replace(one, sent_share=one.sent_share * self.continues**place) for place, one in enumerate(alike)
            )
        found: list[ExpectedStep] = []
        for place, step in enumerate(self.steps):
            first = found[step.after[0]] if step.after else None
            before = first.input_tokens + first.output_tokens if first else 0.0
            prompt = before + step.input_tokens.planned + step.image_tokens
            found.append(ExpectedStep(self.continues**place, prompt, before, step.output_tokens.planned))
        return tuple(found)

    @property
    def requests(self) -> float:
        """Of a session, in the mean."""
        return sum(one.sent_share for one in self.expected)

    @property
    def in_a_row(self) -> float:
        """The longest chain of steps, in the mean: what a session takes where all answers take as long."""
        if self.is_chain:
            return self.requests
        return float(max(self._along(lambda _: 1.0)))

    @property
    def pause_s(self) -> float:
        """The most that pauses add along one chain, in the mean."""
        if self.is_chain:
            return sum(step.pause_s * one.sent_share for step, one in zip(self.steps, self.expected, strict=False))
        return max(self._along(lambda step: step.pause_s))

    @property
    def ends_early(self) -> bool:
        """Whether some sessions have fewer steps than others."""
        return len(self.steps) > 1 and (self.continues < 1 or self.max_context_tokens is not None)

    @property
    def drawn_whole(self) -> bool:
        """Whether a step's lengths, or that it is sent, hang on those before it."""
        return self.max_context_tokens is not None or self.turn_correlation > 0

    @property
    def is_chain(self) -> bool:
        return all(step.after == ((place - 1,) if place else ()) for place, step in enumerate(self.steps))

    @property
    def words(self) -> str:
        """`4 turns of 800 + 200 tokens, 20 s between them`; `plan 3,000 + 200 → 3 × search 900 + 100 after 2 s`."""
        shared = f", {self.shared_prefix_tokens:,} tokens shared" if self.shared_prefix_tokens else ""
        first = self.steps[0]
        until = "" if self.max_context_tokens is None else f", {self.max_context_tokens:,} in all at most"
        if first.name or not self.is_chain:
            return " → ".join(self._groups()) + shared
        if len(self.steps) == 1:
            return f"single requests of {_lengths(first)} tokens{until}{shared}"
        turns = f"1 to {len(self.steps)}" if self.ends_early else str(len(self.steps))
        alike = f", alike by {self.turn_correlation:g}" if self.turn_correlation else ""
        begins = "" if self.steps[1].input_tokens == first.input_tokens else f" after a first of {_lengths(first)}"
        goes_on = "" if self.continues == 1 else f" (each goes on in {self.continues:.0%})"
        pause = f", {self.steps[1].pause_s:g} s between them" if self.steps[1].pause_s else ""
        return f"{turns} turns of {_lengths(self.steps[1])} tokens{begins}{alike}{goes_on}{until}{pause}{shared}"

    def _groups(self) -> Iterator[str]:
        """Steps of one name together, and what they wait for where that is not the group before."""
        names = [step.name for step in self.steps]
        for place, step in enumerate(self.steps):
            if place and names[place - 1] == step.name:
                continue
            times = names.count(step.name)
            waits = dict.fromkeys(names[before] for before in step.after)
            before = names[place - 1] if place else ""
            named = f" (after {' and '.join(waits) or 'nothing'})" if place and [*waits] != [before] else ""
            pause = f" after {step.pause_s:g} s" if step.pause_s else ""
            yield f"{f'{times} × ' if times > 1 else ''}{step.name} {_lengths(step)}{pause}{named}"

    def _along(self, worth: Callable[[Step], float]) -> list[float]:
        """Of each step and the dearest chain before it. Those that are sent side by side wait for the same ones."""
        found: list[float] = []
        after: tuple[int, ...] = ()
        before = 0.0
        for step in self.steps:
            if step.after is not after:
                after, before = step.after, max((found[place] for place in step.after), default=0.0)
            found.append(worth(step) + before)
        return found

    def drawn(self, chance: Random) -> list[DrawnStep]:
        """The steps of one session: some of them where it ends early."""
        found: list[DrawnStep] = []
        user = (chance.gauss(), chance.gauss()) if self.turn_correlation else None
        for place, step in enumerate(self.steps):
            if place and self.continues < 1 and chance.random() >= self.continues:
                break
            sides, paired = (step.input_tokens, step.output_tokens), self.paired_lengths
            if user:
                prompt, answer = alike_lengths(*sides, chance, user, self.turn_correlation, paired=paired)
            else:
                prompt, answer = drawn_lengths(*sides, chance, paired=paired)
            before = found[step.after[0]] if step.after else None
            history = before.input_tokens + before.output_tokens if before else 0
            prompt += history + step.image_tokens
            if self.max_context_tokens is not None and prompt + answer > self.max_context_tokens:
                if place:
                    break
                answer = max(1, self.max_context_tokens - prompt)
            pause_s = lognormal(step.pause_s, step.pause_stddev_s, chance)
            found.append(DrawnStep(prompt, answer, history, step.after, pause_s))
        return found


@lru_cache(maxsize=64)
def _sampled(one: SessionClass) -> tuple[ExpectedStep, ...]:
    """By drawing sessions: the same ones each time."""
    chance, sums, sessions, left = Random(0), [[0, 0, 0, 0] for _ in one.steps], 0, _SAMPLED_STEPS
    while left > 0:
        steps = one.drawn(chance)
        for found, step in zip(sums, steps, strict=False):
            found[0] += 1
            found[1] += step.input_tokens
            found[2] += step.history_tokens
            found[3] += step.output_tokens
        sessions, left = sessions + 1, left - len(steps)
    return tuple(ExpectedStep(sent / sessions, *(total / sent for total in totals)) for sent, *totals in sums if sent)


def _lengths(step: Step) -> str:
    pictures = f" + {step.image_tokens:,} of pictures" if step.image_tokens else ""
    return f"{step.input_tokens.mean:,.0f}{pictures} + {step.output_tokens.mean:,.0f}"


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """One request to send: its whole prompt, of which `history_tokens` came before."""

    input_tokens: int
    output_tokens: int
    history_tokens: int = 0
    after: tuple[int, ...] = ()
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Mixture:
    """All classes of a workload; `shares` sum to 1."""

    classes: tuple[SessionClass, ...]
    shares: tuple[float, ...] = field(init=False)
    requests: float = field(init=False, compare=False)
    """of a session, in the mean"""
    in_a_row: float = field(init=False, compare=False)
    """of them one after another"""
    pause_s: float = field(init=False, compare=False)
    """between those"""

    def __post_init__(self) -> None:
        total = sum(one.share for one in self.classes)
        object.__setattr__(self, "shares", tuple(one.share / total for one in self.classes))
        for name in ("requests", "in_a_row", "pause_s"):
            object.__setattr__(self, name, self.mean(attrgetter(name)))

    @property
    def single(self) -> bool:
        """Whether every session is one request of one class."""
        return len(self.classes) == 1 and len(self.classes[0].steps) == 1

    @property
    def words(self) -> tuple[str, ...]:
        """A line a class."""
        if len(self.classes) == 1:
            return (self.classes[0].words,)
        rows = zip(self.shares, self.classes, strict=True)
        return tuple(f"{share:.0%} {one.name or 'of no class'}: {one.words}" for share, one in rows)

    @property
    def request_shares(self) -> dict[str, float]:
        """Of all requests, by the class's name: a class of longer sessions has more of them than of sessions."""
        rows = zip(self.shares, self.classes, strict=True)
        return {one.name: share * one.requests / self.requests for share, one in rows}

    @property
    def longest(self) -> int:
        """Steps of the longest session."""
        return max(len(one.steps) for one in self.classes)

    def mean(self, of: Callable[[SessionClass], float]) -> float:
        """Over sessions."""
        return sum(share * of(one) for share, one in zip(self.shares, self.classes, strict=True))

    def place(self, chance: Random) -> int:
        """The class of one session."""
        return chance.choices(range(len(self.classes)), self.shares)[0] if len(self.classes) > 1 else 0

    def in_flight(self, sessions: float, answer_s: float) -> float:
        """Requests in flight of so many sessions whose requests take `answer_s` each.

        By Little's law: with m requests, d of them one after another, and z seconds of pauses N · m · R / (d · R + z).
        """
        if answer_s == inf or not self.pause_s:
            return sessions * self.requests / self.in_a_row
        return sessions * self.requests * answer_s / (self.in_a_row * answer_s + self.pause_s)

    def requests_per_s(self, sessions: float, answer_s: float) -> float:
        """Of so many sessions that are always under way, whose requests take `answer_s` each."""
        return sessions * self.requests / (self.in_a_row * answer_s + self.pause_s)


def equal_requests(input_tokens: int, output_tokens: int) -> Mixture:
    """Single requests that are all as long as each other."""
    prompt, answer = (TokenCounts("fixed", float(tokens)) for tokens in (input_tokens, output_tokens))
    return Mixture((SessionClass((Step(prompt, answer),)),))


def label_of(name: str, part: str) -> str:
    """An objective of the class `part`: `ttft_p95_ms of agent`; of all requests (empty): `ttft_p95_ms`."""
    return f"{name} of {part}" if part else name
