"""Conversations of six turns against the cache of prompts of a real vLLM on one GPU, beside what the twin had said.

    python3 scripts/vllm_gpu_sessions.py measure OUT LEVEL…  # where the GPU is: vLLM in `python3`, nothing else
    .venv/bin/python scripts/vllm_gpu_sessions.py predict    # before: predicted.json in the folder
    .venv/bin/python scripts/vllm_gpu_sessions.py now        # what the twin says since: now.json

The folder is scripts/real_server/gpu/llama-3-1-8b-sessions; the page is docs/accuracy-gpu.md. A token is a letter, so
that an answer is read back as the tokens that it was made of. How much of the prompts was found is the server's own
count. The calibration is by two levels of single requests, measured earlier (llama-3-1-8b).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final

import yaml
from vllm_gpu import CASES, HOME, Case, Json, bench, calibration_in, conditions, make_model, served

from loadproof.capacity import PlannedDeployment, StepTimes, deployment_of
from loadproof.capacity.memory import batch_limits
from loadproof.profiles import load_profile
from loadproof.sessions import Mixture, SessionClass, Step
from loadproof.simulation import ClosedLoop, SimulatedRequest, scheduler_for, simulate_fleet
from loadproof.simulation.routing import Prefixes
from loadproof.simulation.sizes import so_many
from loadproof.simulation.traffic import JITTER_MS
from loadproof.token_counts import TokenCounts

FOLDER: Final = HOME / "llama-3-1-8b-sessions"
SINGLE: Final = CASES["llama-3-1-8b"]
BLOCK_TOKENS: Final = 16  # of vLLM's cache
TURNS: Final = 6
CONVERSATIONS_A_SLOT: Final = 3
SEEDS: Final = range(5)  # the twin's runs, taken together
SMALL_CACHE: Final = 6144  # blocks
CHAT_TEMPLATE: Final = (
    "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
TEMPLATE_TOKENS: Final = (
    19  # a turn: `user: `, `assistant: `, two ends of lines; the first one's is the beginning of the text
)
FIRST_PROMPT, LATER_PROMPT, ANSWER = 512 + TEMPLATE_TOKENS, 256 + TEMPLATE_TOKENS, 128


@dataclass(frozen=True, slots=True)
class Level:
    """Conversations held at once, what a reader takes before the next turn, and the blocks of the server's cache."""

    held: int
    think_s: float = 0.0
    think_stddev_s: float = 0.0
    blocks: int | None = None  # None: what its memory has room for

    @property
    def name(self) -> str:
        return f"{self.held}-{self.think_s:g}-{self.blocks or 'all'}"

    @property
    def requests(self) -> int:
        return CONVERSATIONS_A_SLOT * self.held * TURNS


@dataclass(frozen=True, slots=True)
class Figures:
    """Share of prompt tokens found in the cache; times in ms; answer tokens a second."""

    found: float
    ttft_p50_ms: float
    ttft_p95_ms: float
    tpot_p50_ms: float
    output_tokens_per_s: float
    ttft_p50_by_turn_ms: tuple[float, ...] = ()


LEVELS: Final = {
    level.name: level
    for level in (
        Level(64),
        Level(16),
        Level(64, 2, 1),
        Level(128),
        Level(4),
        Level(64, 2, 1, SMALL_CACHE),
        Level(64, 0, 0, SMALL_CACHE),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("out", type=Path)
    measuring.add_argument("levels", nargs="+", choices=LEVELS)
    measuring.add_argument("--budget-s", type=float, default=480.0, help="no level begins later")
    measuring.add_argument("--number", type=int, default=0, help="of this round")
    verbs.add_parser("predict")
    verbs.add_parser("now")
    given = parser.parse_args()
    if given.verb == "measure":
        measure(given.out, [LEVELS[name] for name in given.levels], given.budget_s, given.number)
    else:
        write("predicted" if given.verb == "predict" else "now", predicted())


def read(name: str) -> Json:
    content: Json = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content


def write(name: str, content: object) -> None:
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written: {FOLDER / name}.json")


# ------------------------------------------------------------------------------------------------------ measuring


def measure(out: Path, levels: Sequence[Level], budget_s: float, number: int) -> None:
    """These levels in this order, a server for each size of cache; `measured-N.json` grows as levels end."""
    out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + budget_s
    found: Json = {"conditions": conditions(), "kv_cache_tokens": {}, "single": [], "levels": []}
    with tempfile.TemporaryDirectory() as folder:
        runs, shape = Path(folder), SINGLE.read("config")
        make_model(shape, runs / "model", letter_tokenizer(shape["vocab_size"]), CHAT_TEMPLATE)
        for blocks in dict.fromkeys(level.blocks for level in levels):
            log = out / f"log-{number}-{blocks or 'all'}"
            log.mkdir()
            with served(_case(blocks), log, runs / "model") as url:
                room = re.search(r"GPU KV cache size: ([\d,]+) tokens", (log / "vllm.log").read_text(errors="replace"))
                found["kv_cache_tokens"][str(blocks)] = int(room[1].replace(",", "")) if room else None
                base = url.removesuffix("/v1/completions")
                warm = talk(
                    base, Level(max(level.held for level in levels)), runs / f"warm-{blocks}", most_requests=512
                )
                print(f"warm: {warm}", flush=True)
                if blocks is None:
                    found["single"] = [
                        {"load": key[:2], "concurrency": key[2], **bench(url, key[:2], key[2], runs / f"one-{key[2]}")}
                        for key in SINGLE.suggested
                    ]
                for level in levels:
                    if level.blocks != blocks or time.monotonic() > until:
                        continue
                    row = {**asdict(level), "round": number, **talk(base, level, runs / f"run-{level.name}")}
                    found["levels"].append(row)
                    print(json.dumps(row), flush=True)
                    (out / f"measured-{number}.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
                    with tarfile.open(out / f"runs-{number}.tar.gz", "w:gz", compresslevel=3) as archive:
                        for one in sorted(runs.glob("run-*/*.json*")):
                            archive.add(one, one.relative_to(runs))


def _case(blocks: int | None) -> Case:
    few = ("--num-gpu-blocks-override", str(blocks)) if blocks else ()
    return replace(SINGLE, arguments=("--enable-prefix-caching", *few))


def letter_tokenizer(size: int) -> Json:
    """A tokenizer.json whose every token is one letter: of ASCII, and of the planes for private use."""
    from tiny_model import SPECIAL
    from tokenizers import Tokenizer, decoders, models

    private = (*range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE))
    letters = ["\n", *map(chr, range(32, 127)), *map(chr, private)]
    vocabulary = {letter: place for place, letter in enumerate([*SPECIAL, *letters][:size])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(SPECIAL)
    found: Json = json.loads(tokenizer.to_str())
    return found


def talk(base: str, level: Level, out: Path, most_requests: int = 10**6) -> Json:
    """A level's conversations with `loadproof bench`: its figures, with the server's own count of what was found."""
    profile = yaml.safe_load((FOLDER / "profile.yaml").read_text(encoding="utf-8"))
    for step in profile["workload"]["steps"][1:]:
        step |= {"pause_s": level.think_s, "pause_stddev_s": level.think_stddev_s}
    workload = out.parent / f"{out.name}.yaml"
    workload.write_text(yaml.safe_dump(profile["workload"]), encoding="utf-8")
    options = {
        "--target": f"{base}/v1/chat/completions",
        "--protocol": "openai",
        "--model": "llama",
        "--tokenizer": out.parent / "model" / "tokenizer.json",
        "--workload": workload,
        "--concurrency": level.held,
        "--requests-per-level": min(level.requests, most_requests),
        "--warmup": 0,
        "--out": out,
        "--format": "json",
    }
    words = [str(part) for pair in options.items() for part in pair]
    before = cache_counts(base)
    done = subprocess.run([sys.executable, "-m", "loadproof", "bench", *words], capture_output=True, text=True)
    asked, found = (after - count for after, count in zip(cache_counts(base), before, strict=True))
    if not (out / "summary.json").is_file():
        return {"invalid": done.stderr[-1000:]}
    (level_found,) = json.loads((out / "summary.json").read_text(encoding="utf-8"))["levels"]
    figures = figures_of(out, found / asked)
    return figures | {"errors": level_found["errors"], "invalid": "; ".join(level_found["invalid_reasons"])}


def cache_counts(base: str) -> tuple[float, float]:
    """(prompt tokens, those of them that were found) since the server began."""
    with urllib.request.urlopen(f"{base}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    # Not prefix_cache_hits over prefix_cache_queries: vLLM 0.23 counts a request that waits for memory in every step.
    names = ("prompt_tokens", "prompt_tokens_cached")
    asked, found = (re.search(rf"^vllm:{name}(?:_total)?{{[^}}]*}} (\S+)$", text, re.MULTILINE) for name in names)
    assert asked
    assert found
    return float(asked[1]), float(found[1])


def figures_of(run: Path, found: float) -> Json:
    """What a run measured, how long its first prompts were, and how late the client sent."""
    from loadproof.bench.measure.records import read_records

    records = [one for one in read_records(run / "requests.jsonl").records if one.phase == "measured" and one.ok]
    rows = []
    for one in records:
        assert one.ttft_ms is not None
        assert one.output_tokens is not None
        rows.append((one.turn, one.ttft_ms, (one.end_ns - one.intended_ns) / 1e6, one.output_tokens))
    took_s = (max(one.end_ns for one in records) - min(one.intended_ns for one in records)) / 1e9
    first = [one.input_tokens for one in records if one.turn == 0]
    beside = {
        "requests": len(records),
        "first_prompt_tokens": median(tokens or 0 for tokens in first),
        "client_p50_ms": _nearest([((one.sent_ns or 0) - one.intended_ns) / 1e6 for one in records], 50),
    }
    return {**asdict(_figures(found, rows, took_s)), **beside}


def _figures(found: float, rows: Sequence[tuple[int, float, float, int]], took_s: float) -> Figures:
    """Of (turn, TTFT ms, E2E ms, answer tokens) a request."""
    ttft_ms = [row[1] for row in rows]
    tpot_ms = [(e2e_ms - first_ms) / (tokens - 1) for _, first_ms, e2e_ms, tokens in rows]
    by_turn = tuple(_nearest([row[1] for row in rows if row[0] == turn], 50) for turn in range(TURNS))
    rate = sum(row[3] for row in rows) / took_s
    return Figures(found, _nearest(ttft_ms, 50), _nearest(ttft_ms, 95), _nearest(tpot_ms, 50), rate, by_turn)


def _nearest(values: Sequence[float], share: int) -> float:
    """The percentile by the nearest rank."""
    return sorted(values)[ceil(share * len(values) / 100) - 1]


# ------------------------------------------------------------------------------------------------- what was foretold


def predicted(levels: Sequence[Level] = tuple(LEVELS.values())) -> Json:
    """What the twin says of these levels, as shipped and by the calibration on single requests."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile.yaml"
        text = (FOLDER / "profile.yaml").read_text(encoding="utf-8")
        found: Json = {}
        for name in ("as shipped", "calibrated"):
            if name == "calibrated":
                text += f"\ncalibration: {calibration_in(SINGLE, Path(folder)).name}\n"
            profile.write_text(text, encoding="utf-8")
            deployment = replace(deployment_of(load_profile(profile)), copies=1)
            found[name] = [{**asdict(level), **asdict(foretold(deployment, level))} for level in levels]
        found["kv_cache_tokens"] = batch_limits(deployment).kv_token_capacity
    return found


def foretold(deployment: PlannedDeployment, level: Level) -> Figures:
    """The twin's: as many conversations as a run has, several runs of them together."""
    limits = batch_limits(deployment)
    if level.blocks:
        limits = replace(limits, kv_token_capacity=level.blocks * BLOCK_TOKENS)
    first, later, answer = (_fixed(tokens) for tokens in (FIRST_PROMPT, LATER_PROMPT, ANSWER))
    pause = (level.think_s, level.think_stddev_s)
    steps = [Step(first, answer), *(Step(later, answer, (turn,), *pause) for turn in range(TURNS - 1))]
    mixture, prefixes = Mixture((SessionClass(tuple(steps)),)), Prefixes(BLOCK_TOKENS)
    rows, took_s = [], 0.0
    for seed in SEEDS:
        loop = ClosedLoop(level.held, jitter_ms=JITTER_MS, seed=seed)
        sizes = so_many(mixture, level.requests, seed, BLOCK_TOKENS)
        copies = [scheduler_for(StepTimes(deployment), limits, outside_ms=deployment.server.ttft_ms)]
        played = list(simulate_fleet(copies, loop, sizes, prefixes=prefixes, seed=seed))
        done = [one for one in played if isinstance(one, SimulatedRequest)]
        for one in done:
            turn = (one.input_tokens - FIRST_PROMPT) // (LATER_PROMPT + ANSWER)
            rows.append((turn, one.ttft_ms, one.e2e_ms, one.output_tokens))
        took_s += max(one.end_ms for one in done) / 1000
    return _figures(prefixes.counts.found_share, rows, took_s)


def _fixed(tokens: int) -> TokenCounts:
    return TokenCounts("fixed", float(tokens))


if __name__ == "__main__":
    main()
