"""Finding how many requests in flight bring most, with nothing known of the server. Looks are handed in.

What is measured is what arrives a second, of all answers together, while about as many are in flight: a *sample*. Parts
of answers count as they stream, so a sample takes a few tokens' time and not a whole answer's. It begins when most
newcomers have their first token, since before that they bring nothing.

Samples answer the only question: is more worth it? The number doubles while throughput nearly keeps up. Then the best
one is looked for between its neighbors, and after that a little more and a little less is tried now and then, since
samples are forgotten after a while. Where throughput at one number changes by itself, all is forgotten at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, hypot, log, sqrt
from typing import Final, NamedTuple

_START: Final = 4
_WORTH: Final = 0.1  # n is better than m if it brings more than (n / m)^0.1 times as much: twice as many, 7% more
_KEEPS_UP: Final = 0.6  # twice as many bring 1.5 times as much: go on doubling
_FINE: Final = 1.22  # neighbors nearer than that are not told apart
_COARSE: Final = 1.55  # where samples scatter
_STEP, _LONG_STEP = 1.25, 1.5  # the longer one where the last step was right, or samples scatter
_ALIKE: Final = 0.08
_MOVED: Final = 1.33  # throughput at one number changed by that: the server is another one now
_SHORTEST_S, _SHORT_S, _LONGEST_S, _PARTS, _OF_ELAPSED, _LONGEST_TIMES = 0.25, 4.0, 12.0, 10, 0.05, 3.0
_STEADY: Final = 0.15  # prompts that are worked on now and then make more than that of a short sample's error
_LONG_PROMPT: Final = 12.0  # parts' times that a first one takes: what prompts cost shows only over whole answers
_TURNS: Final = 4.0  # a sample of so many says something, however much it scatters
_SCATTERED, _NOISY = 0.04, 0.1  # between samples, and in one: more than that hides small steps
_SURE: Final = 0.015  # a sample goes on until its standard error is below that, up to three times as long
_TRUST_S: Final = 6.0
_LONGEST_TRUST_S: Final = 30.0


class Look(NamedTuple):
    """What a client sees at a moment. `received`, `answers`, `answered` and `answer_s` only grow.

    `first_s`: from a request to the first part of its answer, of late; None: not known.
    """

    now_s: float
    arrived_s: float  # when the newest part did
    in_flight: int
    waiting: int  # of those, nothing arrives
    received: int  # parts of all answers so far
    answers: int  # that have ended
    answered: int  # parts of those
    answer_s: float  # their times from sending to end, added up
    first_s: float | None


@dataclass(slots=True)
class Sample:
    """`rate`: parts a second with `number` in flight, of whom `waiting` got nothing. Forgotten at `until_s`."""

    number: float
    rate: float
    error: float
    waiting: float
    until_s: float
    windows: int = 1  # that the rate is the mean of
    hurried: bool = False  # seen while the number doubled: few answers had ended, so it may say too much

    @property
    def score(self) -> float:
        return self.rate / float(self.number**_WORTH)


class _Stretch:
    """A while with about `number` in flight."""

    def __init__(self, look: Look, rising: bool) -> None:
        self.number, self.began, self.rising = look.in_flight, look, rising
        self.marks: list[Look] = []  # since it settled

    def holds(self, in_flight: int) -> bool:
        return abs(in_flight - self.number) <= max(1, _ALIKE * self.number)

    def settled(self, look: Look) -> bool:
        """Have newcomers begun to bring something, or waited so long that they queue at the door?"""
        if look.first_s is None:
            return look.answers - self.began.answers >= look.in_flight
        since_s = look.now_s - self.began.now_s
        return not self.rising or look.waiting <= 0.05 * look.in_flight or since_s > 0.3 + 4 * look.first_s

    @property
    def parts(self) -> float:
        """Of each answer, so far."""
        first, last = self.marks[0], self.marks[-1]
        return (last.received - first.received) / max(1, last.in_flight - last.waiting)

    @property
    def turns(self) -> float:
        """How many times all in flight have been replaced."""
        first, last = self.marks[0], self.marks[-1]
        return (last.answers - first.answers) / max(8, last.in_flight)

    def sample(self, until_s: float) -> Sample:
        first, last, looks = self.marks[0], self.marks[-1], len(self.marks)
        number = sum(look.in_flight for look in self.marks) / looks
        waiting = sum(look.waiting for look in self.marks) / looks
        if last.first_s is None:  # whole answers come in heaps: by Little's law
            rate = number * (last.answered - first.answered) / max(1e-9, last.answer_s - first.answer_s)
            return Sample(number, rate, 0.05, 0.0, until_s)
        rate = (last.received - first.received) / max(1e-3, last.arrived_s - first.arrived_s)
        return Sample(number, rate, self.error(), waiting, until_s)

    def error(self) -> float:
        """Standard error of the rate, as a share of it, out of four parts."""
        quarter = (len(self.marks) - 1) // 4
        if quarter < 1:
            return 0.1
        ends = [self.marks[i * quarter] for i in range(5)]
        rates = [
            (after.received - before.received) / max(1e-3, after.arrived_s - before.arrived_s)
            for before, after in pairwise(ends)
        ]
        mean = sum(rates) / 4
        return sqrt(sum((rate - mean) ** 2 for rate in rates) / 12) / mean if mean > 0 else 0.1


class Search:
    """Finds `limit`, from `start` up, or down where more are worth nothing; at most `most`."""

    def __init__(self, most: int, start: int = _START) -> None:
        self._most, self._start = most, start
        self.restart()

    def restart(self) -> None:
        """Forget everything: the server is another one now."""
        self.limit = min(self._start, self._most)
        self._ramping = self.limit < self._most
        self._samples: list[Sample] = []
        self._home: Sample | None = None
        self._stretch: _Stretch | None = None
        self._began_s: float | None = None
        self._seen_s = self._drained_s = 0.0
        self._last = 0
        self._trust_s = {"up": _TRUST_S, "down": _TRUST_S}
        self._steps = {"up": _STEP, "down": _STEP if self._ramping else _LONG_STEP}
        self._scatter = 0.0  # between windows at one number, as a share
        self._longer = 1.0  # windows are that much longer than usual, because they scatter
        self._odd = 0  # windows in a row whose throughput is another one than home's

    def idle(self) -> None:
        """Fewer are in flight than may be, for another reason than this search."""
        self._stretch = None

    def look(self, look: Look, allowed: int) -> None:
        """Several times a second while as many are in flight as may be; `allowed`: what others would let through."""
        if self._began_s is None:
            self._began_s = look.now_s
        since_s, self._seen_s = look.now_s - self._seen_s, look.now_s
        if (
            look.in_flight > (1 + _ALIKE) * min(self.limit, allowed) + 1
        ):  # until enough have ended; meanwhile nothing is forgotten
            self._drained_s += since_s
            for one in self._samples:
                one.until_s += since_s
            self._stretch = None
            self._last = look.in_flight
            return
        stretch = self._stretch
        if stretch is None or not stretch.holds(look.in_flight):
            stretch = self._stretch = _Stretch(look, rising=look.in_flight > self._last)
            self._last = look.in_flight
        if not stretch.marks and not stretch.settled(look):
            return
        stretch.marks.append(look)
        if self._enough(stretch):
            self._stretch = None
            moved_to = self._record(stretch, look.now_s)
            self._drained_s = 0.0
            wanted = self._next(allowed, look.now_s) if moved_to is None else moved_to
            self.limit = max(1, min(self._most, wanted))

    def _enough(self, stretch: _Stretch) -> bool:
        first, last = stretch.marks[0], stretch.marks[-1]
        taken_s = last.now_s - first.now_s
        if taken_s < _SHORTEST_S or (stretch.turns < 1 and (last.first_s is None or stretch.parts < _PARTS)):
            return False
        if self._ramping:
            prompts_count = (last.first_s or 0.0) * stretch.parts > _LONG_PROMPT * taken_s
            return stretch.turns >= 1 or (stretch.error() < _STEADY and not prompts_count)
        if taken_s < _LONGEST_S and stretch.turns < _TURNS and stretch.error() > _STEADY:  # it would say nothing
            return False
        elapsed_s = last.now_s - (self._began_s or 0.0)
        if taken_s < self._longer * min(_SHORT_S, _OF_ELAPSED * elapsed_s):
            return False
        # One turn, or prompts that are worked on count too much or not at all; and long answers are not waited for.
        longest_s = self._longer * min(_LONGEST_S, 4 * _OF_ELAPSED * elapsed_s)
        if taken_s >= longest_s or (stretch.turns >= self._longer and stretch.error() < _SURE):
            return True
        return stretch.turns >= 1 and self._clear(stretch.sample(0.0))

    def _clear(self, sample: Sample) -> bool:
        """So much better or worse than home that more of it would say the same."""
        home = self._home
        if home is None or home.hurried or abs(sample.number / home.number - 1) <= _ALIKE:
            return False
        apart = abs(log(max(sample.score, 1e-9) / max(home.score, 1e-9)))
        return apart > 2.5 * max(sample.error, self._scatter, _SURE)

    def _record(self, stretch: _Stretch, now_s: float) -> int | None:
        """Keep what was seen. A number: throughput where we are changed by itself, go there."""
        taken_s = now_s - stretch.began.now_s
        sample = stretch.sample(now_s + _LONGEST_TRUST_S + 10 * taken_s)
        sample.hurried = self._ramping
        self._samples = [one for one in self._samples if one is self._home or one.until_s > now_s]
        home = self._home
        if home is not None and abs(sample.number / home.number - 1) <= _ALIKE:
            return self._again(home, sample, now_s)
        self._samples = [one for one in self._samples if abs(sample.number / one.number - 1) > _ALIKE]
        self._samples.append(sample)
        if home is None:
            self._home = sample
            return None
        side = "up" if sample.number > home.number else "down"
        if self._better(sample, home):
            self._home = sample
            self._trust_s[side] = _TRUST_S
            self._steps = {"up": _STEP, "down": _STEP, side: _LONG_STEP}
        else:
            self._steps = {"up": _STEP, "down": _STEP}
            sample.until_s = now_s + max(self._trust_s[side], 8 * taken_s + 6 * self._drained_s)
            self._trust_s[side] = min(_LONGEST_TRUST_S, 2 * self._trust_s[side])
        return None

    def _again(self, home: Sample, sample: Sample, now_s: float) -> int | None:
        """Home was seen once more."""
        change = sample.rate / max(home.rate, 1e-9)
        if not self._ramping and home.windows > 1:
            apart = abs(log(max(change, 0.01)))
            self._odd = self._odd + 1 if apart > max(log(_MOVED), 3 * self._scatter, min(0.6, 3 * home.error)) else 0
            if self._odd > 1:
                self._odd, self._scatter, self._longer = 0, 0.0, 1.0
                self._home, self._samples, self._began_s = sample, [sample], now_s
                self._trust_s = {"up": _TRUST_S, "down": _TRUST_S}
                return round(sample.number * max(0.25, change)) if change < 1 else None
            if self._odd:
                return round(home.number)
            self._scatter += 0.3 * (apart - self._scatter)
            if apart > 0.06:
                self._longer = min(_LONGEST_TIMES, 1.5 * self._longer)
            elif apart < 0.02:
                self._longer = max(1.0, self._longer / 1.2)
        weight = 0 if home.hurried else min(4, home.windows)
        home.hurried = False
        home.rate = (weight * home.rate + sample.rate) / (weight + 1)
        home.windows += 1
        home.number, home.error, home.waiting, home.until_s = (
            sample.number,
            sample.error,
            sample.waiting,
            sample.until_s,
        )
        best = max((one for one in self._samples if one.number >= home.number or not one.hurried), key=_score)
        if self._better(best, home):
            self._home = best
        return None

    def _better(self, sample: Sample, home: Sample) -> bool:
        if sample.number > home.number and self._noisy:  # too few cost more than too many
            return sample.rate > home.rate
        if self._ramping and sample.error > _STEADY:  # says little: going on is cheaper than stopping too early
            return sample.rate > home.rate * (1 - sample.error)
        margin = 0.0 if self._ramping else 0.5 * max(self._scatter, sample.error)
        return sample.score > home.score * (1 + margin)

    def _next(self, allowed: int, now_s: float) -> int:
        """The best number, or another one worth a sample."""
        home = self._home
        assert home is not None
        below = max((one for one in self._samples if one.number < home.number), key=_number, default=None)
        above = min((one for one in self._samples if one.number > home.number), key=_number, default=None)
        keeps_up = 1.0 if below is None else log(home.rate / max(below.rate, 1e-9)) / log(home.number / below.number)
        number = round(home.number)
        fine = _COARSE if self._noisy else _FINE
        # What says little does not stop it: going on is cheaper than stopping too early.
        doubt = 0.0 if below is None else hypot(home.error, below.error) / log(home.number / below.number)
        # Who waits for a first part waits at the door, unless more of them brought more: then prompts take that long.
        surely = keeps_up if self._noisy else keeps_up - doubt
        grew = self._ramping if below is None else surely > 2 * _WORTH
        room = number < min(self._most, allowed) and (home.waiting <= 0.2 * number or grew)
        if self._ramping and above is None and keeps_up >= _KEEPS_UP - doubt and room:
            return round((2 if keeps_up > 0.9 else 1.5) * number)
        if self._ramping:  # its samples were short, and many answers had just begun
            self._ramping = False
            for one in self._samples:
                one.until_s = now_s + 2 * _TRUST_S
        if home.hurried:
            return number
        served = max(1, ceil(number - 0.9 * home.waiting))
        if served < 0.8 * number and not any(served <= one.number < number for one in self._samples):
            return served
        at_most = number >= min(self._most, allowed) and below is not None and below.hurried and keeps_up > _WORTH
        if (
            below is not None
            and keeps_up < 0.5
            and not at_most
            and number - below.number > 1
            and number > fine * below.number
        ):
            return round(sqrt(below.number * number))
        if below is None and number > 1 and self._steps["down"] == _LONG_STEP:  # as fewer were better, fewer still
            return min(number - 1, round(number / _LONG_STEP))
        if above is None and room:
            return max(number + 1, round(self._step("up") * number))
        if above is not None and above.number - number > 1 and above.number > fine * number:
            return round(sqrt(above.number * number))
        if below is None and number > 1:
            return min(number - 1, round(number / self._step("down")))
        return number

    def _step(self, side: str) -> float:
        return _LONG_STEP if self._noisy else self._steps[side]

    @property
    def _noisy(self) -> bool:
        """Small steps would not show."""
        return self._scatter > _SCATTERED or (self._home is not None and self._home.error > _NOISY)


def _number(sample: Sample) -> float:
    return sample.number


def _score(sample: Sample) -> float:
    return sample.score
