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
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "scripts" / "real_server")]

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
MOST_START_S: Final = 300
PORT: Final = 8123
KEYS: Final = ("output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms")
HEADINGS: Final = ("tokens/s", "TTFT ms", "TPOT ms", "E2E ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("out", type=Path)
    measuring.add_argument("--budget-s", type=float, default=420.0, help="start no level after that long")
    verbs.add_parser("predict")
    verbs.add_parser("report")
    given = parser.parse_args()
    if given.verb == "measure":
        measure(given.out, time.monotonic() + given.budget_s)
    elif given.verb == "predict":
        write(HOME / "predicted.json", predicted())
    else:
        PAGE.write_text(page(read("predicted.json"), read("measured.json")), encoding="utf-8")
        print(f"written: {PAGE}")


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}", flush=True)


def read(name: str) -> Any:
    return json.loads((HOME / name).read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------------ measuring


def measure(out: Path, until: float) -> None:
    """Every level of every load, ROUNDS times or until the time is over; `measured.json` grows as levels end."""
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"conditions": conditions(), "levels": []}
    with tempfile.TemporaryDirectory() as runs, served(out, Path(runs) / "model") as url:
        bench(url, (512, 16), 32, Path(runs) / "warm")
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


def conditions() -> dict[str, Any]:
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
    gpu = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    from importlib.metadata import version

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


def bench(url: str, load: tuple[int, int], concurrency: int, out: Path) -> dict[str, Any]:
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
        return {"invalid": f"{error}", "said": done.stderr[-1500:]}
    found = dataclasses.asdict(level)
    return {key: value for key, value in found.items() if key not in ("samples_ms", "source")}


# ------------------------------------------------------------------------------------------------- what was foretold


def predicted() -> list[dict[str, Any]]:
    """What `loadproof plan` says of every level: means, and the range of each."""
    found = []
    for prompt, answer in LOADS:
        with tempfile.TemporaryDirectory() as folder:
            profile = Path(folder) / PROFILE.name
            text = PROFILE.read_text(encoding="utf-8").replace("input_tokens: 512", f"input_tokens: {prompt}")
            profile.write_text(text.replace("output_tokens: 128", f"output_tokens: {answer}"), encoding="utf-8")
            command = [sys.executable, "-m", "loadproof", "plan", str(profile), "--format", "json"]
            plan = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout)
        for level in plan["levels"]:
            if level["concurrency"] in LOADS[prompt, answer]:
                kept = {name: level[name] for name in ("concurrency", *KEYS, "tails", "ranges")}
                found.append({"load": [prompt, answer], "grade": plan["grade"], "server": plan["server"], **kept})
    return found


if __name__ == "__main__":
    main()
