"""Measure a real vLLM on one GPU with our own benchmark, beside what the planner had said: docs/accuracy-gpu.md.

    python3 scripts/vllm_gpu.py measure OUT            # where the GPU is: vLLM in `python3`, no download, no weights
    .venv/bin/python scripts/vllm_gpu.py predict       # before: scripts/real_server/gpu/predicted.json
    .venv/bin/python scripts/vllm_gpu.py report        # the page, from predicted.json and measured.json beside it

The model has Llama 3.1 8B's shape and random weights: a step's time depends on the shape, not on what the weights say.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
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
ROUNDS: Final = 2
REQUESTS_A_SLOT: Final = 3
FEWEST_REQUESTS: Final = 8
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
    verbs.add_parser("predict")
    verbs.add_parser("report")
    given = parser.parse_args()
    if given.verb == "measure":
        measure(given.out, given.budget_s)
    elif given.verb == "predict":
        write(HOME / "predicted.json", predicted())
    else:
        PAGE.write_text(page(read("predicted.json"), read("measured.json")), encoding="utf-8")
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


def predicted() -> Json:
    """What `loadproof plan` says: the cache's room, and of every level means and the range of each."""
    found: Json = {"levels": []}
    for prompt, answer in LOADS:
        with tempfile.TemporaryDirectory() as folder:
            profile = Path(folder) / PROFILE.name
            text = PROFILE.read_text(encoding="utf-8").replace("input_tokens: 512", f"input_tokens: {prompt}")
            profile.write_text(text.replace("output_tokens: 128", f"output_tokens: {answer}"), encoding="utf-8")
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


def page(said: Json, found: Json) -> str:
    """docs/accuracy-gpu.md."""
    measured = medians_of(found["levels"])
    foretold = {(*level["load"], level["concurrency"]): level for level in said["levels"]}
    both = [key for key in foretold if key in measured]
    where = found["conditions"]
    return f"""\
<!-- Generated by scripts/vllm_gpu.py. Do not edit. -->
# A real vLLM on an H100, and what the planner had said

Llama 3.1 8B's shape with random weights in bf16, vLLM {where["vllm"]} (FlashAttention 3, `torch.compile`, CUDA graphs),
PyTorch {where["torch"]}, {where["gpu"]}; `max_num_seqs` 256,
8,192 tokens a step, no cache of prompts. Driven by `loadproof bench` on the same machine ({where["cores"]} cores),
closed loop, prompts of exactly that many tokens, answers of the length asked for. The predictions were committed
before (`scripts/real_server/gpu/predicted.json`); nothing was fitted to these levels. {rounds_of(found["levels"])}

{findings(foretold, measured, both)}

## Level by level

Means of each level; what was *predicted* in italics, its error in brackets, **bold** where the measurement lies outside
the range that the plan gives.

{table(foretold, measured, both)}
{invalid_of(found["levels"])}
The KV cache: vLLM found room for {found["kv_cache_tokens"]:,} tokens, the plan says {said["kv_cache_tokens"]:,}
({said["kv_cache_tokens"] / found["kv_cache_tokens"] - 1:+.1%}).
"""


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


def findings(foretold: Foretold, measured: Measured, both: list[Key]) -> str:
    lines = ["| levels | " + " | ".join(HEADINGS) + " | inside the ranges |", "|---|" + "---|" * (len(HEADINGS) + 1)]
    for prompt, answer in LOADS:
        keys = [key for key in both if key[:2] == (prompt, answer)]
        held = [inside(foretold[key], measured[key][name], name) for key in keys for name in KEYS]
        cells = [f"{median(map(abs, errors_of(foretold, measured, keys, name))):.0%}" for name in KEYS]
        lines.append(
            f"| {prompt} prompt, {answer} answer tokens | {' | '.join(cells)} | {sum(held)} of {len(held)} figures |"
        )
    few = [key for key in both if key[0] * key[2] <= LITTLE_PREFILL]
    many = [key for key in both if key not in few]
    tokens = {
        name: f"{min(found):+.0%} .. {max(found):+.0%}"
        for name, keys in (("few", few), ("many", many))
        if (found := errors_of(foretold, measured, keys, KEYS[0]))
    }
    return f"""\
Median absolute error of each load:

{chr(10).join(lines)}

**What holds:** decoding. Where prompts in flight come to {LITTLE_PREFILL:,} tokens at most, tokens/s are
{tokens["few"]} off.

**What does not:** the time that prompts take. Beyond that, tokens/s are {tokens["many"]} off, and the more
the longer the prompts: the planner's prefill is fitted to published tables of older servers, and this one's is
faster. A plan of a load with long prompts on this generation of servers is too careful: it rents too much.
Calibrate with levels of your own ([calibrate.md](calibrate.md))."""


def table(foretold: Foretold, measured: Measured, both: list[Key]) -> str:
    lines = ["| prompt | answer | in flight | " + " | ".join(HEADINGS) + " |", "|---|---|---|" + "---|" * len(HEADINGS)]
    for key in both:
        cells = []
        for name in KEYS:
            value, said = measured[key][name], foretold[key][name]
            share = f"{said / value - 1:+.0%}"
            mark = share if inside(foretold[key], value, name) else f"**{share}**"
            digits = 1 if name == "tpot_ms" else 0
            cells.append(f"{value:,.{digits}f}, *{said:,.{digits}f}* ({mark})")
        lines.append(f"| {key[0]:,} | {key[1]} | {key[2]} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
