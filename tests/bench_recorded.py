"""Made-up traffic as production records it: lines of a capture, and months of times and lengths."""

from __future__ import annotations

import base64
import json
from array import array
from math import log
from pathlib import Path
from random import Random

from loadproof.bench.learn.reading import Recorded
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


def recorded(days: float, seed: int, *, rate: float = 0.01, longer: float = 1.0, burstiness: float = 1.0) -> Recorded:
    """Traffic of the proven shape, drawn by the standard library; `longer` prompts, another `rate`."""
    chance, found, now_s = Random(seed), Recorded(began_s=1_767_600_000.0), 0.0
    rows = []
    while (now_s := now_s + chance.gammavariate(burstiness, 1 / (rate * burstiness))) < days * DAY_S:
        rows.append((now_s, _lognormal(chance, 600 * longer, 400 * longer, 4000), _lognormal(chance, 150, 90, 1000)))
    first = rows[0][0]
    found.at_s = array("d", [at - first for at, _, _ in rows])
    found.input_tokens = found.new_tokens = array("q", [prompt for _, prompt, _ in rows])
    found.output_tokens = array("q", [answer for _, _, answer in rows])
    found.turns = array("H", [1] * len(rows))
    return found


def _lognormal(chance: Random, mean: float, stddev: float, most: int) -> int:
    variance = log(1 + (stddev / mean) ** 2)
    low = 16 if most == 4000 else 1
    return min(most, max(low, round(chance.lognormvariate(log(mean) - variance / 2, variance**0.5))))
