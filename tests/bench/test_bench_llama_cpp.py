"""Against a model server that we did not write: llama.cpp, with a model made on the spot.

What is asserted is shape, exact counts and equal texts; never a rate, for this machine has other work.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_llama import vocabulary, write_tiny_llama

from loadproof.bench.connect import open_invoker, parse_target
from loadproof.bench.job import run_benchmark
from loadproof.bench.learn.traced import seen_before
from loadproof.bench.live.lines import Line
from loadproof.bench.measure.records import read_records
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.bench.workload.traces import read_trace
from loadproof.invocation import GenerationRequest
from loadproof.loads import Load

pytest.importorskip("xllamacpp", reason="no wheel for every platform, and it needs libgomp", exc_type=ImportError)
pytestmark = pytest.mark.usefixtures("patient")
SLOTS = 4
OUTPUT_TOKENS = 300
SERVER = Path(__file__).parent / "llama_cpp_server.py"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("model") / "tiny.gguf", str(SLOTS)) as url:
        yield url


@contextmanager
def served(model: Path, *arguments: str) -> Iterator[str]:
    write_tiny_llama(model)
    command = [sys.executable, str(SERVER), str(model), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(60)


def spec_for(server: str, *loads: Load, **more: Any) -> BenchmarkSpec:
    return BenchmarkSpec(
        target=parse_target(server, "openai", streaming=True, model="tiny"),
        workload=WorkloadSpec(fixed_tokens(4), fixed_tokens(OUTPUT_TOKENS)),
        concurrency=(1,),
        requests_per_level=4,
        warmup_requests=2,
        loads=loads,
        **more,
    )


def quiet(line: Line) -> None:
    """No display."""


def test_the_model_is_the_same_to_the_byte(tmp_path: Path) -> None:
    """For a seed; another one makes another."""
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        write_tiny_llama(tmp_path / name, seed)
    one, same, other = ((tmp_path / name).read_bytes() for name in ("one", "same", "other"))
    assert one == same != other
    assert len(vocabulary()) == len(set(vocabulary())) == 259


def test_every_answer_has_the_tokens_asked_for(server: str, tmp_path: Path) -> None:
    """By the server's own count and by ours of what was streamed, below the slots' number and above it."""
    result = run_benchmark(
        spec_for(server, Load(concurrency=2, requests=4), Load(concurrency=8, requests=8)), quiet, tmp_path / "run"
    )
    records = [one for one in read_records(result.folder / "requests.jsonl").records if one.phase == "measured"]
    assert [record.outcome for record in records] == ["ok"] * 12
    assert {(record.output_tokens, record.token_source) for record in records} == {(OUTPUT_TOKENS, "server")}
    assert {sum(record.tokens_at) for record in records} == {OUTPUT_TOKENS}
    assert all(record.input_tokens and record.input_tokens > 4 for record in records), "a token a letter"


def test_texts_do_not_depend_on_how_many_are_in_flight(server: str) -> None:
    """Greedy decoding: eight at once on four slots say word for word what each says alone."""
    prompts = [f"prompt number {number}" for number in range(8)]
    target = parse_target(server, "openai", streaming=True, model="tiny")

    async def texts(at_once: bool) -> list[str | None]:
        invoker = open_invoker(target, 60.0)
        requests = [
            GenerationRequest(one, 48, stream=True, temperature=0.0, ignore_eos=True, keep_text=True) for one in prompts
        ]
        try:
            if at_once:
                found = await asyncio.gather(*(invoker.invoke(request) for request in requests))
            else:
                found = [await invoker.invoke(request) for request in requests]
        finally:
            await invoker.close()
        return [one.text for one in found]

    alone, together = asyncio.run(texts(False)), asyncio.run(texts(True))
    assert alone == together
    assert [len(text or "") for text in alone] == [48] * 8, "a token is a letter"
    assert len(set(alone)) == 8


def test_beyond_its_slots_requests_wait_for_others_answers(server: str, tmp_path: Path) -> None:
    """With one more than slots each waits a quarter of an answer, or, where all slots end together, one in five waits a
    whole one; below, none waits. Times are compared with those of their own level, so no rate is in it."""
    loads = (Load(concurrency=SLOTS, requests=12), Load(concurrency=SLOTS + 1, requests=15))
    levels = run_benchmark(spec_for(server, *loads), quiet, tmp_path / "run").summary.levels
    at_slots, beyond = sorted(levels, key=lambda level: level.concurrency)
    assert at_slots.ttft_ms.p50 < at_slots.e2e_ms.p50 / 5
    assert beyond.ttft_ms.p90 > beyond.e2e_ms.p50 / 5


def turns_in_order(path: Path) -> None:
    """Eight conversations one after the other, of five turns: each repeats all full blocks of 16 tokens of the last."""
    fresh, rows = 100, list[str]()
    for conversation in range(8):
        ids: list[int] = []
        for turn in range(5):
            ids, fresh = [*ids[:-1], *range(fresh, fresh + 3 + (conversation + turn) % 6)], fresh + 20
            row = {"chat_id": fresh, "parent_chat_id": -1, "timestamp": len(rows) * 0.05, "hash_ids": ids}
            rows.append(json.dumps(row | {"input_length": 16 * len(ids) - 3 - turn, "output_length": 2}))
    path.write_text("\n".join(rows))


def test_a_cache_of_prompts_finds_what_a_trace_says(tmp_path: Path) -> None:
    """Within a point, by the server's own count of tokens that it computed; a second run finds nothing of the first."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({one: at for at, one in enumerate(vocabulary())}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    trace = tmp_path / "turns.jsonl"
    turns_in_order(trace)
    rows = read_trace(trace)
    with served(tmp_path / "tiny.gguf", "1", "keeps") as server:
        spec = spec_for(server, Load("trace", trace=str(trace)))
        spec = replace(
            spec, workload=replace(spec.workload, tokenizer=str(tmp_path)), warmup_requests=0, request_timeout_s=300
        )
        before = 0
        for name in ("one", "two"):
            run_benchmark(spec, quiet, tmp_path / name)
            metrics = urllib.request.urlopen(f"{server}/metrics").read().decode()
            found = re.search(r"^llamacpp:prompt_tokens_total (\S+)", metrics, re.MULTILINE)
            assert found is not None
            computed, before = float(found[1]) - before, float(found[1])
            share = 1 - computed / sum(row.input_tokens for row in rows)
            assert share == pytest.approx(seen_before(rows), abs=0.01)
