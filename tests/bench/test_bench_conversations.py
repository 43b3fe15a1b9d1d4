"""Conversations, datasets and pictures, as the server gets them."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from bench_fakes import FakeEndpoint, serving

from loadproof.bench.connect import parse_target
from loadproof.bench.job import run_benchmark
from loadproof.bench.measure.records import read_records
from loadproof.bench.spec import BenchmarkSpec, ImageSpec, WorkloadSpec, fixed_tokens
from loadproof.bench.workload.datasets import DatasetTurn, read_dataset
from loadproof.bench.workload.images import png
from loadproof.bench.workload.prompts import Prompts
from loadproof.errors import InputError
from loadproof.loads import Load

pytestmark = pytest.mark.usefixtures("patient")


def run(endpoint: FakeEndpoint, folder: Path, path: str = "", *loads: Load, **workload: object) -> list:
    """Records of the measured requests, in the order in which they were due."""
    spec = BenchmarkSpec(
        target=parse_target(endpoint.url + path, "openai", streaming=True),
        workload=WorkloadSpec(fixed_tokens(10), fixed_tokens(4), **workload),  # type: ignore[arg-type]
        concurrency=(2,),
        requests_per_level=6,
        warmup_requests=0,
        loads=loads,
    )
    run_benchmark(spec, lambda progress: None, folder)
    records = read_records(folder / "requests.jsonl").records
    return sorted((record for record in records if record.phase == "measured"), key=lambda record: record.intended_ns)


CHAT = "/v1/chat/completions"


def test_a_turn_carries_all_that_was_said_before(tmp_path: Path) -> None:
    """Two conversations of three turns: each turn holds the last prompt, the answer as it was given, and 10 words."""
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        records = run(endpoint, tmp_path, turns=3)
    prompts = {len(served.prompt.split()): served.prompt for served in endpoint.served}
    assert Counter(len(served.prompt.split()) for served in endpoint.served) == {10: 2, 24: 2, 38: 2}
    assert sorted(Counter(record.turn for record in records).items()) == [(0, 2), (1, 2), (2, 2)]
    assert {record.planned_input_tokens for record in records} == {10, 24, 38} == set(prompts)
    assert all(" word word word word " in prompts[words] for words in (24, 38))


def test_chat_sends_what_was_said_as_messages(tmp_path: Path) -> None:
    """The second turn's messages: user, assistant with the answer's own text, user."""
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        run(endpoint, tmp_path, CHAT, turns=2)
    second = [served.messages for served in endpoint.served if len(served.messages or ()) == 3]
    assert len(second) == 3
    for messages in second:
        assert [message["role"] for message in messages] == ["user", "assistant", "user"]
        assert messages[1]["content"] == " word word word word"
        assert len(messages[2]["content"].split()) == 10


def test_a_next_turn_is_due_when_its_reader_has_thought(tmp_path: Path) -> None:
    """Think time 80 ms: the second turn's intended send is the first one's end and 80 ms, to the ns."""
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        records = run(
            endpoint, tmp_path, "", Load("constant", requests_per_s=40, requests=6), turns=2, think_time_s=0.08
        )
    by_index = {record.index: record for record in records}
    assert sorted(by_index) == [0, 1, 2, 3, 4, 5]
    for first, second in ((0, 1), (2, 3), (4, 5)):
        assert by_index[second].intended_ns - by_index[first].end_ns == 80_000_000


def test_a_conversation_that_broke_off_is_not_continued(tmp_path: Path) -> None:
    """The first turn of one conversation is refused: five requests are sent, one an error."""
    with serving(FakeEndpoint(protocol="openai", fault_of={0: "refuse"}.get)) as endpoint:
        records = run(endpoint, tmp_path, turns=2)
    assert sorted(record.outcome == "ok" for record in records) == [False, True, True, True, True]


SHARE_GPT = [
    {
        "id": "a",
        "conversations": [
            {"from": "gpt", "value": "an answer to nothing"},
            {"from": "human", "value": "one two three"},
            {"from": "gpt", "value": "four five six seven eight nine"},
            {"from": "human", "value": "ten"},
        ],
    },
    {"id": "b", "conversations": [{"from": "system", "value": "nobody asks"}]},
]


def test_share_gpts_conversations_are_the_users_turns(tmp_path: Path) -> None:
    """An answer before any question belongs to none; a row without a question is skipped and counted."""
    path = tmp_path / "sg.json"
    path.write_text(json.dumps(SHARE_GPT))
    dataset = read_dataset(path)
    assert dataset.conversations == (
        (DatasetTurn("one two three", "four five six seven eight nine"), DatasetTurn("ten")),
    )
    assert dataset.skipped == 1


def test_a_dataset_is_sent_as_it_is_and_asks_for_answers_of_the_recorded_length(tmp_path: Path) -> None:
    """Prompts word for word; output tokens as given, or of the answer's 6 words by 1.33, or the workload's 4."""
    path = tmp_path / "own.jsonl"
    rows = [
        {"prompt": "say this", "output_tokens": 2},
        {"prompt": "and that", "answer": "one two three four five six"},
        {"messages": [{"role": "user", "content": "then stop"}]},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        records = run(endpoint, tmp_path / "run", dataset=str(path))
    assert Counter(served.prompt for served in endpoint.served) == {"say this": 2, "and that": 2, "then stop": 2}
    assert sorted(record.planned_output_tokens for record in records) == [2, 2, 4, 4, 8, 8]


def test_a_dataset_may_be_made_unlike_itself(tmp_path: Path) -> None:
    """With unique prompts a row that is sent twice begins differently; its own text follows."""
    path = tmp_path / "own.jsonl"
    path.write_text('{"prompt": "say this"}')
    workload = WorkloadSpec(fixed_tokens(4), fixed_tokens(4), dataset=str(path), unique_prompts=True)
    first, second = (Prompts(workload).planned(number).text for number in (0, 1))
    assert first != second and first.endswith(" say this") and second.endswith(" say this")


def test_repeated_prompts_are_the_same_in_every_level_and_run() -> None:
    """Without uniqueness neither the salt nor the level changes what a request asks, so a cache may help."""
    workload = WorkloadSpec(fixed_tokens(12), fixed_tokens(4), unique_prompts=False)
    runs = [Prompts(replace(workload, salt=salt)) for salt in ("one", "two")]
    texts = {run.planned(number).text for run in runs for number in (5, 5 + 2**24)}
    assert len(texts) == 1


def test_every_bad_row_of_a_dataset_is_told_at_once(tmp_path: Path) -> None:
    """With its place; a file that holds nothing to send says so."""
    path = tmp_path / "bad.jsonl"
    path.write_text(
        '{"prompt": ""}\n{"text": "x"}\n{"prompt": "x", "output_tokens": 0}\n{"messages": [{"role": "user"}]}\n7\n'
    )
    with pytest.raises(InputError) as raised:
        read_dataset(path)
    assert [line.removeprefix(f"{path}:") for line in str(raised.value).splitlines()] == [
        "1: prompt: expected a text that is not empty",
        "2: none of `prompt`, `messages`, `conversations`; found text",
        "3: output_tokens 0: expected a whole number from 1",
        "4: messages: item 1: expected `role` and `content`, a text",
        "5: expected an object with `prompt`, `messages` or `conversations`",
    ]
    path.write_text("[]")
    with pytest.raises(InputError, match="nothing to send"):
        read_dataset(path)


def test_pictures_go_with_the_question(tmp_path: Path) -> None:
    """Two PNG files of 40 x 24 pixels with each request, no two alike, as data: URIs."""
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        run(endpoint, tmp_path, CHAT, images=ImageSpec(40, 24, 2))
    urls = [
        part["image_url"]["url"]
        for served in endpoint.served
        for part in (served.messages or [])[0]["content"]
        if part["type"] == "image_url"
    ]
    assert len(urls) == len(set(urls)) == 12
    for url in urls:
        body = base64.b64decode(url.removeprefix("data:image/png;base64,"))
        assert struct.unpack(">II", body[16:24]) == (40, 24)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (16, 16), (17, 33), (512, 300)])
def test_a_picture_is_a_whole_png(width: int, height: int) -> None:
    """Signature, three chunks with right checksums, and rows of 3 bytes a pixel behind a filter byte."""
    body = png(width, height, "seed")
    assert body[:8] == b"\x89PNG\r\n\x1a\n"
    kinds, at = [], 8
    while at < len(body):
        (length,) = struct.unpack(">I", body[at : at + 4])
        kind, data = body[at + 4 : at + 8], body[at + 8 : at + 8 + length]
        assert struct.unpack(">I", body[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + data),)
        kinds.append((kind, data))
        at += 12 + length
    assert [kind for kind, _ in kinds] == [b"IHDR", b"IDAT", b"IEND"]
    assert len(zlib.decompress(kinds[1][1])) == height * (1 + 3 * width)


def test_pictures_need_chat() -> None:
    """A completion has no place for one; leaving it out would measure something else."""
    with pytest.raises(InputError, match="images need chat messages"):
        Prompts(WorkloadSpec(fixed_tokens(4), fixed_tokens(4), images=ImageSpec(8, 8)))
