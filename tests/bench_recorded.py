"""Made-up traffic as production records it: lines of a capture, and months of times and lengths."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from pathlib import Path
from random import Random
from typing import Any

from loadproof.bench.learn.recorded import Recorded
from loadproof.profiles.schema import TokenDistribution

SECRET = "hunter2-planted"


def capture(second: int, prompt: object, answer: str | None, encoding: str = "JSON") -> str:
    """A line as SageMaker's data capture writes it."""

    def side(mode: str, text: str) -> dict[str, str]:
        data = base64.b64encode(text.encode()).decode() if encoding == "BASE64" else text
        return {"observedContentType": "application/json", "mode": mode, "data": data, "encoding": encoding}

    data = {"endpointInput": side("INPUT", json.dumps(prompt))}
    if answer is not None:
        data["endpointOutput"] = side("OUTPUT", answer)
    event = {"eventId": f"e{second}", "inferenceTime": f"2026-01-05T08:00:{second:02d}Z"}
    return json.dumps({"captureData": data, "eventMetadata": event, "eventVersion": "0"}) + "\n"


def many(folder: Path, files: int, lines: int) -> None:
    """Captures of chats, each with a system prompt that all share and one turn of a length of its own."""
    for number in range(files):
        rows = []
        for at in range(lines):
            text = "x" * (40 + 4 * ((7 * at + number) % 50))
            prompt = {"messages": [{"role": "system", "content": "y" * 80}, {"role": "user", "content": text}]}
            rows.append(capture(at % 60, prompt, '{"choices": [{"message": {"content": "' + "z" * 20 + '"}}]}'))
        (folder / f"{number}.jsonl").write_text("".join(rows))


DAY_S = 86_400.0
PROVEN = TokenDistribution(distribution="lognormal", mean=600, stddev=400, min=16, max=4000)
WORKLOAD = {
    "input_tokens": {"distribution": "lognormal", "mean": 600, "stddev": 400, "min": 16, "max": 4000},
    "output_tokens": {"distribution": "lognormal", "mean": 150, "stddev": 90, "min": 1, "max": 1000},
    "arrivals": {"process": "poisson", "requests_per_s": 0.01},
}


DAY_SHAPE = (1, 1, 1, 1, 1, 1, 2, 4, 6, 8, 8, 8, 8, 8, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1)
MONDAY_S = 1_767_571_200.0  # 2026-01-05T00:00Z


@dataclass(frozen=True)
class Made:
    """Traffic to make up: requests/s, prompts so many times as long, 1/CV² of the gaps between sessions.

    `turns` of a session, which goes on after each with a chance; a `long_share` of sessions is of another kind, of
    `long_turns`. `paired`: prompts and answers go together perfectly. `told`: each request says which turn it is.
    """

    rate: float = 0.01
    longer: float = 1.0
    burstiness: float = 1.0
    hours: tuple[float, ...] = ()
    turns: int = 1
    goes_on: float = 1.0
    long_share: float = 0.0
    long_turns: int = 1
    paired: bool = False
    told: bool = True

    @property
    def session(self) -> float:
        """Requests of one, in the mean."""
        own = sum(self.goes_on**turn for turn in range(self.turns))
        return (1 - self.long_share) * own + self.long_share * self.long_turns

    def begins(self, chance: Random, last_s: float) -> Iterator[float]:
        """When sessions begin, those of a shape by thinning what comes at the busiest hour's rate."""
        peak = max(self.hours, default=1) * 24 / sum(self.hours) if self.hours else 1.0
        rate, now_s = self.rate / self.session * peak, 0.0
        while (now_s := now_s + chance.gammavariate(self.burstiness, 1 / (rate * self.burstiness))) < last_s:
            if not self.hours or chance.random() * max(self.hours) < self.hours[int(now_s % DAY_S // 3600)]:
                yield now_s

    def session_at(self, now_s: float, chance: Random) -> Iterator[tuple[float, int, int, int, int]]:
        """(time, whole prompt, what of it is new, answer, turn) of one session's requests, 20 s of thought between."""
        is_long = chance.random() < self.long_share
        history, most = 0, self.long_turns if is_long else self.turns
        for turn in range(1, most + 1):
            state = chance.getstate() if self.paired else ()
            mean, stddev = (2000, 300) if is_long else (600, 400)
            new = _lognormal(chance, mean * self.longer, stddev * self.longer, 4000)
            if self.paired:
                chance.setstate(state)
            answer = _lognormal(chance, 400 if is_long else 150, 90, 1000)
            yield now_s, history + new, new, answer, turn if self.told else 0
            history, now_s = history + new + answer, now_s + 20 * chance.lognormvariate(-0.1, 0.45) + answer * 0.02
            if not is_long and chance.random() >= self.goes_on:
                return


def recorded(days: float, seed: int, **changes: Any) -> Recorded:
    """Traffic of the proven shape, drawn by the standard library but for what `Made` is told otherwise."""
    chance, made, found = Random(seed), Made(**changes), Recorded(began_s=MONDAY_S)
    begins = made.begins(Random(f"begins {seed}"), days * DAY_S)
    rows = sorted(row for begin_s in begins for row in made.session_at(begin_s, chance))
    found.began_s += rows[0][0]
    found.at_s = array("d", [row[0] - rows[0][0] for row in rows])
    for place, name in enumerate(("input_tokens", "new_tokens", "output_tokens"), start=1):
        setattr(found, name, array("q", [row[place] for row in rows]))
    found.turns = array("H", [row[4] for row in rows])
    return found


def _lognormal(chance: Random, mean: float, stddev: float, most: int) -> int:
    variance = log(1 + (stddev / mean) ** 2)
    low = 16 if most == 4000 else 1
    return min(most, max(low, round(chance.lognormvariate(log(mean) - variance / 2, variance**0.5))))
