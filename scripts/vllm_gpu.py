"""Measure a real vLLM on one GPU with our own benchmark, beside what the planner had said: docs/accuracy-gpu.md.

    python3 scripts/vllm_gpu.py measure OUT            # where the GPU is: vLLM in `python3`, no download, no weights
    .venv/bin/python scripts/vllm_gpu.py predict       # before: scripts/real_server/gpu/predicted.json
    .venv/bin/python scripts/vllm_gpu.py now           # what the planner says since: now.json
    .venv/bin/python scripts/vllm_gpu.py calibrate     # after: calibrated.json, by the SUGGESTED levels measured
    .venv/bin/python scripts/vllm_gpu.py report        # the page, from the four files

The model has Llama 3.1 8B's shape and random weights: a step's time depends on the shape, not on what the weights say.
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
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "scripts" / "real_server")]

Json = dict[str, Any]
Key = tuple[int, int, int]  # prompt tokens, answer tokens, requests in flight
Foretold = dict[Key, Json]
Measured = dict[Key, dict[str, float]]
HOME: Final = REPOSITORY / "scripts" / "real_server" / "gpu"
PROFILE: Final = HOME / "llama-3-1-8b.yaml"
PAGE: Final = REPOSITORY / "docs" / "accuracy-gpu.md"
# (prompt tokens, answer tokens): requests in flight of each level, in the order of measuring.
LOADS: Final = {
    (512, 128): (1, 2, 4, 8, 16, 32, 64, 128, 256),
    (2048, 128): (1, 4, 16, 64),
    (128, 512): (1, 16, 64, 256),
}
# `loadproof calibrate --suggest scripts/real_server/gpu/llama-3-1-8b.yaml` names them.
SUGGESTED: Final = ((512, 128, 2), (512, 128, 64))
ROUNDS: Final = 2
REQUESTS_A_SLOT: Final = 3
FEWEST_REQUESTS: Final = 8
COLUMNS: Final = (
    "measured_throughput_tok_s",
    "measured_latency_mean_ms_per_token",
    "measured_ttft_ms",
    "measured_tpot_ms",
)
FILES: Final = ("predicted.json", "now.json", "calibrated.json", "measured.json")
LITTLE_PREFILL: Final = 4096  # tokens in flight: half a step's
MOST_START_S: Final = 300
PORT: Final = 8123
KEYS: Final = ("output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms")
KEPT: Final = {*KEYS, "itl_ms", "input_tokens", "output_tokens", "requests", "errors", "date"}
HEADINGS: Final = ("tokens/s", "TTFT ms", "TPOT ms", "E2E ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("out", type=Path)
    measuring.add_argument("--budget-s", type=float, default=400.0, help="for levels: none begins later")
    for verb in ("predict", "now", "calibrate", "report"):
        verbs.add_parser(verb)
    given = parser.parse_args()
    if given.verb == "measure":
        measure(given.out, given.budget_s)
    elif given.verb == "predict":
        write(HOME / "predicted.json", predicted())
    elif given.verb == "now":
        write(HOME / "now.json", predicted())
    elif given.verb == "calibrate":
        with tempfile.TemporaryDirectory() as folder:
            write(HOME / "calibrated.json", predicted(calibration(Path(folder), read("measured.json"))))
    else:
        PAGE.write_text(page(*map(read, FILES)), encoding="utf-8")
        print(f"written: {PAGE}")


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}", flush=True)


def read(name: str) -> Json:
    content: Json = json.loads((HOME / name).read_text(encoding="utf-8"))
    return content


# ------------------------------------------------------------------------------------------------------ measuring


def measure(out: Path, budget_s: float) -> None:
    """Every level of every load, ROUNDS times or until the time is over; `measured.json` grows as levels end."""
    out.mkdir(parents=True, exist_ok=True)
    found: Json = {"conditions": conditions(), "levels": []}
    with tempfile.TemporaryDirectory() as runs, served(out, Path(runs) / "model") as url:
        room = re.search(r"GPU KV cache size: ([\d,]+) tokens", (out / "vllm.log").read_text(errors="replace"))
        found["kv_cache_tokens"] = int(room[1].replace(",", "")) if room else None
        bench(url, (512, 16), 32, Path(runs) / "warm")
        until = time.monotonic() + budget_s
        for number in range(ROUNDS):
            for load, levels in LOADS.items():
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


def make_model(folder: Path) -> None:
    """A folder that vLLM loads with `--load-format dummy`: the shape and a tokenizer whose 1,024 tokens are followed by
    words without a merge, so that every token a random model may say is text."""
    from tiny_model import SPECIAL, make_tokenizer

    tokenizer = json.loads(make_tokenizer(0).to_str())
    shape: dict[str, int] = {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
    }
    known = tokenizer["model"]["vocab"]
    known.update({f"Ġw{number}": number for number in range(len(known), shape["vocab_size"])})
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **shape,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **special,
    }
    names = dict(zip(("bos_token", "eos_token", "pad_token"), SPECIAL, strict=True))
    files = {
        "tokenizer.json": tokenizer,
        "config.json": config,
        "generation_config.json": special,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **names},
    }
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


@contextmanager
def served(out: Path, model: Path) -> Iterator[str]:
    """vLLM with the profile's settings, ended with this block: the URL for requests."""
    with (out / "vllm.log").open("wb") as log:
        make_model(model)
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
        command += ["--load-format", "dummy", "--served-model-name", "llama", "--host", "127.0.0.1"]
        command += ["--port", str(PORT), "--dtype", "bfloat16", "--max-model-len", "4096", "--max-num-seqs", "256"]
        command += ["--max-num-batched-tokens", "8192", "--no-enable-prefix-caching", "--seed", "0"]
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        offline["VLLM_USE_FLASHINFER_SAMPLER"] = "0"  # greedy; FlashInfer is a gigabyte of its own
        began = time.monotonic()
        server = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | offline)
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


def bench(url: str, load: tuple[int, int], concurrency: int, out: Path) -> Json:
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


# ------------------------------------------------------------------------------------------------- what was foretold


def calibration(folder: Path, found: Json) -> Path:
    """What `loadproof calibrate` makes of the SUGGESTED levels."""
    measured = medians_of(found["levels"])
    table, written = folder / "measured.csv", folder / "calibration.yaml"
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("input_tokens", "output_tokens", "concurrency", *COLUMNS))
        for key in SUGGESTED:
            level = measured[key]
            figures = (level["output_tokens_per_s"], level["e2e_ms"] / key[1], level["ttft_ms"], level["tpot_ms"])
            rows.writerow((*key, *figures))
    command = [sys.executable, "-m", "loadproof", "calibrate", str(table), "--profile", str(PROFILE)]
    subprocess.run([*command, "--output", str(written)], check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    return written


def predicted(calibration: Path | None = None) -> Json:
    """What `loadproof plan` says: the cache's room, and of every level means and the range of each."""
    found: Json = {"levels": []}
    for prompt, answer in LOADS:
        with tempfile.TemporaryDirectory() as folder:
            profile = Path(folder) / PROFILE.name
            text = PROFILE.read_text(encoding="utf-8").replace("input_tokens: 512", f"input_tokens: {prompt}")
            text = text.replace("output_tokens: 128", f"output_tokens: {answer}")
            if calibration is not None:
                shutil.copy(calibration, folder)
                text += f"\ncalibration: {calibration.name}\n"
            profile.write_text(text, encoding="utf-8")
            command = [sys.executable, "-m", "loadproof", "plan", str(profile), "--format", "json"]
            plan = json.loads(
                subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout
            )
        found["kv_cache_tokens"] = plan["memory"]["kv_token_capacity"]
        for level in plan["levels"]:
            if level["concurrency"] in LOADS[prompt, answer]:
                kept = {name: level[name] for name in ("concurrency", *KEYS, "tails", "ranges")}
                found["levels"].append(
                    {"load": [prompt, answer], "grade": plan["grade"], "server": plan["server"], **kept}
                )
    return found


# ------------------------------------------------------------------------------------------------------- the page


def page(before: Json, now: Json, calibrated: Json, found: Json) -> str:
    """docs/accuracy-gpu.md."""
    measured, foretold, said, after = medians_of(found["levels"]), by_key(before), by_key(now), by_key(calibrated)
    both = [key for key in foretold if key in measured]
    little, much = ([key for key in both if is_little(key) is few] for few in (True, False))
    unseen = [key for key in both if key not in SUGGESTED]
    middle = median(map(abs, errors_of(after, measured, unseen, KEYS[0])))
    where, seen = found["conditions"], " and ".join(str(key[2]) for key in SUGGESTED)
    return f"""\
<!-- Generated by scripts/vllm_gpu.py. Do not edit. -->
# A real vLLM on an H100, and what the planner says

Llama 3.1 8B's shape with random weights in bf16, vLLM {where["vllm"]} (FlashAttention 3, `torch.compile`, CUDA graphs),
PyTorch {where["torch"]}, {where["gpu"]}; `max_num_seqs` 256,
8,192 tokens a step, no cache of prompts. Driven by `loadproof bench` on the same machine ({where["cores"]} cores),
closed loop, prompts of exactly that many tokens, answers of the length asked for, {REQUESTS_A_SLOT} requests a slot and
{FEWEST_REQUESTS} at least. {rounds_of(found["levels"])}

- *Foretold*: the prediction, committed before anything was measured (`scripts/real_server/gpu/predicted.json`).
- *As shipped*: what the planner says now (`now.json`). These levels are in no fit, but who mended it had seen them.
- *Calibrated*: by {seen} in flight of the first load alone, the two levels that
  `loadproof calibrate --suggest` names for this profile; everything else here it has not seen.

## What came of it

{findings(foretold, measured, both, "foretold")}

{findings(said, measured, both, "as shipped")}

{findings(after, measured, unseen, "calibrated, levels not seen")}

**Foretold, decoding held and prompts did not.** Where prompts in flight come to {LITTLE_PREFILL:,} tokens at most,
tokens/s were {spread(foretold, measured, little)} off. Beyond that they were {spread(foretold, measured, much)} off,
the more the longer the prompts. Two causes stood in the model and in what it was fitted to:

- every prompt token was scored against the vocabulary, where servers score a prompt's last alone: 7% of this model's
  compute, a sixth of gpt-oss-20b's;
- what prompts of dense models reach on Hopper came from six published bursts of an H100 PCIe that is called an SXM
  ([how one sees it](accuracy.md#vllm-and-sglang-on-a100-h100-and-h200-published-2025-12-to-2026-01)). TensorRT-LLM's
  published prompts on H100 and H200 stand in their place ([decision 43](decisions/0043-prompts-on-hopper.md)).

**As shipped, they are nearer and still too slow.** Tokens/s are {spread(said, measured, little)} off with few prompts
in flight and {spread(said, measured, much)} off with many. TensorRT-LLM computes its prompts in 8 bits; how much of
their speed is the 8 bits' and how much its own no published row tells apart, and priors from NVIDIA's measured matrix
products share it out. The grade is B, for no published row is of this vLLM.

**Two levels of one's own mend it.** Calibrated, tokens/s of the levels not seen are
{spread(after, measured, unseen)} off, {middle:.1%} at the median, prompts and answers four times as long included.

## Level by level

Means of each level: measured, *as shipped*, calibrated. In brackets the error, **bold** where the measurement lies
outside the range that the plan gives.

{table(said, after, measured, both)}
{invalid_of(found["levels"])}
The KV cache: vLLM found room for {found["kv_cache_tokens"]:,} tokens, the plan says {now["kv_cache_tokens"]:,}
({now["kv_cache_tokens"] / found["kv_cache_tokens"] - 1:+.1%}).
"""


def by_key(plans: Json) -> Foretold:
    return {(*level["load"], level["concurrency"]): level for level in plans["levels"]}


def is_little(key: Key) -> bool:
    return key[0] * key[2] <= LITTLE_PREFILL


def spread(foretold: Foretold, measured: Measured, keys: list[Key]) -> str:
    """Of the errors in tokens/s."""
    errors = errors_of(foretold, measured, keys, KEYS[0])
    return f"{min(errors):+.0%} .. {max(errors):+.0%}"


def medians_of(levels: list[Json]) -> Measured:
    """(prompt, answer, in flight): the median of its valid runs' means."""
    runs: dict[Key, list[Json]] = {}
    for level in levels:
        if "invalid" not in level:
            runs.setdefault((*level["load"], level["concurrency"]), []).append(level)
    return {key: {name: median(mean_of(run, name) for run in ran) for name in KEYS} for key, ran in runs.items()}


def mean_of(level: Json, name: str) -> float:
    value = level[name]
    return float(value["mean"] if isinstance(value, dict) else value)


def errors_of(foretold: Foretold, measured: Measured, keys: list[Key], name: str) -> list[float]:
    return [foretold[key][name] / measured[key][name] - 1 for key in keys]


def inside(level: Json, value: float, name: str) -> bool:
    return bool(level["ranges"][name]["low"] <= value <= level["ranges"][name]["high"])


def findings(foretold: Foretold, measured: Measured, both: list[Key], title: str) -> str:
    """A table: the median absolute error of each load, and how many figures lie in their ranges."""
    heads = [f"median error, {title}", *HEADINGS, "inside the ranges"]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---|" * (len(HEADINGS) + 1)]
    for prompt, answer in LOADS:
        keys = [key for key in both if key[:2] == (prompt, answer)]
        held = [inside(foretold[key], measured[key][name], name) for key in keys for name in KEYS]
        cells = [f"{median(map(abs, errors_of(foretold, measured, keys, name))):.0%}" for name in KEYS]
        inside_of = f"{sum(held)} of {len(held)} figures"
        lines.append(f"| {prompt:,} prompt, {answer} answer tokens | {' | '.join(cells)} | {inside_of} |")
    return "\n".join(lines)


def table(said: Foretold, after: Foretold, measured: Measured, both: list[Key]) -> str:
    lines = ["| prompt | answer | in flight | " + " | ".join(HEADINGS) + " |", "|---|---|---|" + "---|" * len(HEADINGS)]
    for key in both:
        cells = []
        for name in KEYS:
            value, digits = measured[key][name], 1 if name == "tpot_ms" else 0
            plans = [f"{one[key][name]:,.{digits}f}" for one in (said, after)]
            shares = [share_of(one[key], value, name) for one in (said, after)]
            cells.append(f"{value:,.{digits}f}, *{plans[0]}* ({shares[0]}), {plans[1]} ({shares[1]})")
        lines.append(f"| {key[0]:,} | {key[1]} | {key[2]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def share_of(level: Json, value: float, name: str) -> str:
    share = f"{level[name] / value - 1:+.0%}"
    return share if inside(level, value, name) else f"**{share}**"


def rounds_of(levels: list[Json]) -> str:
    rounds = 1 + max(level["round"] for level in levels)
    return "Each level was measured once." if rounds == 1 else f"Medians of up to {rounds} runs."


def invalid_of(levels: list[Json]) -> str:
    return "".join(
        f"\nNot in the table: {level['load'][0]} prompt and {level['load'][1]} answer tokens at {level['concurrency']}"
        f" in flight,\na run that the client called invalid ({level['invalid']}).\n"
        for level in levels
        if "invalid" in level
    )


if __name__ == "__main__":
    main()
