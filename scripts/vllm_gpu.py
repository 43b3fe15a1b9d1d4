"""Measure a real vLLM on one GPU with our own benchmark, beside what the planner had said: docs/accuracy-gpu.md.

    python3 scripts/vllm_gpu.py measure OUT CASE…      # where the GPU is: vLLM in `python3`, no download, no weights
    .venv/bin/python scripts/vllm_gpu.py predict CASE  # before: predicted.json in the case's folder
    .venv/bin/python scripts/vllm_gpu.py now           # what the planner says since: now.json of every case
    .venv/bin/python scripts/vllm_gpu.py calibrate     # after: calibrated.json, by the suggested levels measured
    .venv/bin/python scripts/vllm_gpu.py report        # the page, from what the folders hold

A case is a folder in scripts/real_server/gpu: a profile and a model's config.json. Weights are random: a step's time
depends on the shape, not on what the weights say.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "scripts"), str(REPOSITORY / "scripts" / "real_server")]

Json = dict[str, Any]
Load = tuple[int, int]  # prompt tokens, answer tokens
Key = tuple[int, int, int]  # prompt tokens, answer tokens, requests in flight
Measured = dict[Key, dict[str, float]]
HOME: Final = REPOSITORY / "scripts" / "real_server" / "gpu"
ROUNDS: Final = 2
REQUESTS_A_SLOT: Final = 3
FEWEST_REQUESTS: Final = 8
COLUMNS: Final = (
    "measured_throughput_tok_s",
    "measured_latency_mean_ms_per_token",
    "measured_ttft_ms",
    "measured_tpot_ms",
)
MOST_START_S: Final = 300
PORT: Final = 8123
KEYS: Final = ("output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms")
KEPT: Final = {*KEYS, "itl_ms", "input_tokens", "output_tokens", "requests", "errors", "date"}
OFFLINE: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # greedy; FlashInfer is a gigabyte of its own
}


@dataclasses.dataclass(frozen=True)
class Case:
    """What is measured: a folder's profile, and of each load the requests in flight, in the order of measuring."""

    name: str
    loads: dict[Load, tuple[int, ...]]
    suggested: tuple[Key, Key]  # `loadproof calibrate --suggest PROFILE` names them
    arguments: tuple[str, ...] = ()  # the server's, beside those of the profile's settings

    @property
    def folder(self) -> Path:
        return HOME / self.name

    @property
    def profile(self) -> Path:
        return self.folder / "profile.yaml"

    def read(self, name: str) -> Json:
        content: Json = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        return content

    def write(self, name: str, content: object) -> None:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"written: {path}", flush=True)

    @property
    def is_measured(self) -> bool:
        return (self.folder / "measured.json").is_file()


CASES: Final = {
    case.name: case
    for case in (
        Case(
            "llama-3-1-8b",
            {
                (512, 128): (1, 2, 4, 8, 16, 32, 64, 128, 256),
                (2048, 128): (1, 4, 16, 64),
                (128, 512): (1, 16, 64, 256),
            },
            ((512, 128, 2), (512, 128, 64)),
        ),
        Case(
            "qwen3-30b-a3b",
            {(512, 128): (1, 4, 16, 32, 64, 128, 256), (2048, 128): (1, 16, 64), (128, 512): (16, 64)},
            ((512, 128, 1), (512, 128, 32)),
        ),
        Case(
            "llama-3-1-8b-fp8",
            {(512, 128): (1, 4, 16, 32, 64, 256), (2048, 128): (4, 64), (128, 512): (16,)},
            ((512, 128, 1), (512, 128, 32)),
            ("--quantization", "fp8"),
        ),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("out", type=Path)
    measuring.add_argument("cases", nargs="+", choices=CASES)
    measuring.add_argument("--budget-s", type=float, default=400.0, help="for a case's levels: none begins later")
    verbs.add_parser("predict").add_argument("case", choices=CASES)
    for verb in ("now", "calibrate", "report"):
        verbs.add_parser(verb)
    given = parser.parse_args()
    if given.verb == "measure":
        for name in given.cases:
            measure(CASES[name], given.out / name, given.budget_s)
    elif given.verb == "predict":
        CASES[given.case].write("predicted", predicted(CASES[given.case]))
    elif given.verb == "report":
        from vllm_gpu_page import PAGE, page

        PAGE.write_text(page(), encoding="utf-8")
        print(f"written: {PAGE}")
    else:
        for case in measured_cases():
            case.write("now", predicted(case)) if given.verb == "now" else case.write("calibrated", calibrated(case))


def measured_cases() -> list[Case]:
    return [case for case in CASES.values() if case.is_measured]


# ------------------------------------------------------------------------------------------------------ measuring


def measure(case: Case, out: Path, budget_s: float) -> None:
    """Every level of every load, ROUNDS times or until the time is over; `measured.json` grows as levels end."""
    out.mkdir(parents=True, exist_ok=True)
    found: Json = {"conditions": conditions(), "levels": []}
    with tempfile.TemporaryDirectory() as runs, served(case, out, Path(runs) / "model") as url:
        room = re.search(r"GPU KV cache size: ([\d,]+) tokens", (out / "vllm.log").read_text(errors="replace"))
        found["kv_cache_tokens"] = int(room[1].replace(",", "")) if room else None
        bench(url, (512, 16), 32, Path(runs) / "warm")
        until = time.monotonic() + budget_s
        for number in range(ROUNDS):
            for load, levels in case.loads.items():
                for concurrency in levels:
                    if time.monotonic() > until:
                        print("time is over: no further level", flush=True)
                        return
                    run = Path(runs) / f"{number}-{load[0]}-{load[1]}-{concurrency}"
                    level = bench(url, load, concurrency, run)
                    found["levels"].append({"load": load, "concurrency": concurrency, "round": number, **level})
                    print(load, concurrency, level.get("output_tokens_per_s"), level.get("invalid", ""), flush=True)
                    (out / "measured.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


def conditions() -> Json:
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
    gpu = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return {"gpu": gpu, "vllm": version("vllm"), "torch": version("torch"), "cores": os.cpu_count()}


def make_model(shape: Json, folder: Path, tokenizer: Json | None = None, chat_template: str | None = None) -> None:
    """A folder that vLLM loads with `--load-format dummy`: the shape and a tokenizer, by default one whose 1,024 tokens
    are followed by words without a merge, so that every token a random model may say is text."""
    from tiny_model import SPECIAL, make_tokenizer

    if tokenizer is None:
        tokenizer = json.loads(make_tokenizer(0).to_str())
        known = tokenizer["model"]["vocab"]
        known.update({f"Ġw{number}": number for number in range(len(known), shape["vocab_size"])})
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    names = dict(zip(("bos_token", "eos_token", "pad_token"), SPECIAL, strict=True))
    if chat_template is not None:
        names["chat_template"] = chat_template
    files = {
        "tokenizer.json": tokenizer,
        "config.json": shape | special,
        "generation_config.json": special,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **names},
    }
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


@contextmanager
def served(case: Case, out: Path, model: Path) -> Iterator[str]:
    """vLLM with the profile's settings, ended with this block: the URL for requests. A `model` there is, is served."""
    with (out / "vllm.log").open("wb") as log:
        if not model.exists():
            make_model(case.read("config"), model)
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
        command += ["--load-format", "dummy", "--served-model-name", "llama", "--host", "127.0.0.1"]
        command += ["--port", str(PORT), "--dtype", "bfloat16", "--max-model-len", "4096", "--max-num-seqs", "256"]
        command += ["--max-num-batched-tokens", "8192", "--no-enable-prefix-caching", "--seed", "0", *case.arguments]
        began = time.monotonic()
        server = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | OFFLINE)
        try:
            while server.poll() is None and time.monotonic() - began < MOST_START_S:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=2).close()
                    break
                except OSError:
                    time.sleep(1)
            else:
                sys.exit(f"vLLM did not start:\n{(out / 'vllm.log').read_text(errors='replace')[-4000:]}")
            print(f"vLLM serves after {time.monotonic() - began:.0f} s", flush=True)
            yield f"http://127.0.0.1:{PORT}/v1/completions"
        finally:
            server.terminate()
            try:
                server.wait(timeout=15)
            except subprocess.TimeoutExpired:
                server.kill()


def bench(url: str, load: Load, concurrency: int, out: Path) -> Json:
    """One level with `loadproof bench`: its figures, or why it is invalid."""
    from loadproof.bench.imports import read_measured
    from loadproof.errors import InputError

    options = {
        "--target": url,
        "--protocol": "openai",
        "--model": "llama",
        "--tokenizer": out.parent / "model" / "tokenizer.json",
        "--concurrency": concurrency,
        "--requests-per-level": max(FEWEST_REQUESTS, REQUESTS_A_SLOT * concurrency),
        "--input-tokens": load[0],
        "--output-tokens": load[1],
        "--warmup": min(4, concurrency),
        "--out": out,
        "--format": "json",
    }
    words = [str(part) for pair in options.items() for part in pair]
    done = subprocess.run([sys.executable, "-m", "loadproof", "bench", *words], capture_output=True, text=True)
    try:
        (level,) = read_measured(out)
    except InputError as error:
        return {"invalid": reasons_of(out) or f"{error}; {done.stderr[-500:]}"}
    return {key: value for key, value in dataclasses.asdict(level).items() if key in KEPT}


def reasons_of(out: Path) -> str:
    """Why the client called its own run invalid; empty where there is no run."""
    summary = out / "summary.json"
    if not summary.is_file():
        return ""
    return "; ".join(json.loads(summary.read_text(encoding="utf-8"))["verdict"]["reasons"])


def medians_of(levels: list[Json]) -> Measured:
    """(prompt, answer, in flight): the median of its valid runs' means."""
    runs: dict[Key, list[Json]] = {}
    for level in levels:
        if "invalid" not in level:
            runs.setdefault((*level["load"], level["concurrency"]), []).append(level)
    return {key: {name: median(_mean_of(run, name) for run in ran) for name in KEYS} for key, ran in runs.items()}


def _mean_of(level: Json, name: str) -> float:
    value = level[name]
    return float(value["mean"] if isinstance(value, dict) else value)


# ------------------------------------------------------------------------------------------------- what was foretold


def calibrated(case: Case) -> Json:
    """What `loadproof plan` says by what `loadproof calibrate` makes of the suggested levels."""
    with tempfile.TemporaryDirectory() as folder:
        return predicted(case, calibration_in(case, Path(folder)))


def calibration_in(case: Case, folder: Path) -> Path:
    """The calibration that `loadproof calibrate` makes of the suggested levels, written into a folder."""
    measured = medians_of(case.read("measured")["levels"])
    table, written = folder / "measured.csv", folder / "calibration.yaml"
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("input_tokens", "output_tokens", "concurrency", *COLUMNS))
        for key in case.suggested:
            level = measured[key]
            figures = (level["output_tokens_per_s"], level["e2e_ms"] / key[1], level["ttft_ms"], level["tpot_ms"])
            rows.writerow((*key, *figures))
    command = [sys.executable, "-m", "loadproof", "calibrate", str(table), "--profile", str(case.profile)]
    subprocess.run([*command, "--output", str(written)], check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    return written


def predicted(case: Case, calibration: Path | None = None) -> Json:
    """What `loadproof plan` says: the cache's room, and of every level means and the range of each.

    By what its --format json is made of, without the search for other machines: nobody asks for them here.
    """
    from loadproof.advice.document import plan_document
    from loadproof.profiles import load_profile
    from loadproof.simulation import make_plan

    found: Json = {"levels": []}
    for (prompt, answer), concurrencies in case.loads.items():
        with tempfile.TemporaryDirectory() as folder:
            profile = Path(folder) / case.profile.name
            text = case.profile.read_text(encoding="utf-8").replace("input_tokens: 512", f"input_tokens: {prompt}")
            text = text.replace("output_tokens: 128", f"output_tokens: {answer}")
            if calibration is not None:
                shutil.copy(calibration, folder)
                text += f"\ncalibration: {calibration.name}\n"
            profile.write_text(text, encoding="utf-8")
            plan = json.loads(json.dumps(plan_document(make_plan(load_profile(profile)))))
        found["kv_cache_tokens"] = plan["memory"]["kv_token_capacity"]
        for level in plan["levels"]:
            if level["concurrency"] in concurrencies:
                kept = {name: level[name] for name in ("concurrency", *KEYS, "tails", "ranges")}
                found["levels"].append(
                    {"load": [prompt, answer], "grade": plan["grade"], "server": plan["server"], **kept}
                )
    return found


if __name__ == "__main__":
    main()
