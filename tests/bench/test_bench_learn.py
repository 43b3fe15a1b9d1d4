"""Recorded traffic as a workload: what is read of it, what never leaves the reader, what is fitted."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from math import exp
from pathlib import Path
from random import Random

import boto3
import pytest
from bench_recorded import DAY_SHAPE, SECRET, capture, many, recorded
from moto_server import moto_server

from loadproof.bench.learn import reading
from loadproof.bench.learn.captures import request_of
from loadproof.bench.learn.fitting import burstiness_of, fit, fit_lengths, goes_on, pairs_of, turns_of
from loadproof.bench.learn.reading import Checkpoint, read_recorded
from loadproof.bench.learn.turn_lengths import rank_correlation
from loadproof.errors import CouldNotRunError, InputError
from loadproof.simulation.traffic import week_of

CHAT = {"messages": [{"role": "user", "content": SECRET}]}
STREAM = 'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: {"choices": [], "usage": {"prompt_tokens": 31, '
STREAM += '"completion_tokens": 9}}\n\ndata: [DONE]\n\n'
CONVERSE = {"output": {"message": {"content": [{"text": SECRET}]}}, "usage": {"inputTokens": 12, "outputTokens": 34}}

CACHED = {"inputTokens": 10, "outputTokens": 4, "cacheReadInputTokens": 1000, "cacheWriteInputTokens": 50}
CLAUDE = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 25, "cache_read_input_tokens": 1000}}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "message_delta", "usage": {"output_tokens": 15}},
]

FULL = {"inputs": "x" * 40, "parameters": {"return_full_text": True}}  # TGI's answer then begins with the prompt

# Calls of a tool, 20 characters each: OpenAI's, whole and streamed, and Converse's.
CALL = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"query": "a b"}'}}
CALLED = [
    {"choices": [{"delta": {"role": "assistant", "tool_calls": [{"index": 0, "function": one}]}}]}
    for one in ({"name": "find", "arguments": ""}, {"arguments": '{"query": '}, {"arguments": '"a b"}'})
]
USED = {"toolUseId": "1", "name": "find", "input": {"query": "a  b"}}


@pytest.mark.parametrize(
    ("prompt", "answer", "lengths", "estimated"),
    [
        (CHAT, '{"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}}', (20, 5), 0),
        (CHAT, STREAM, (31, 9), 0),
        (CHAT, json.dumps(CONVERSE), (12, 34), 0),
        (CHAT, json.dumps(CONVERSE | {"usage": CACHED}), (1060, 4), 0),
        (CHAT, "".join(f"event: x\ndata: {json.dumps(one)}\n\n" for one in CLAUDE), (1025, 15), 0),
        (CHAT, json.dumps({"choices": [{"message": {"content": None, "tool_calls": [CALL]}}]}), (4, 5), 1),
        (CHAT, "".join(f"data: {json.dumps(one)}\n\n" for one in CALLED), (4, 5), 1),
        (CHAT, json.dumps({"choices": [{"message": {"content": None, "reasoning_content": "r" * 80}}]}), (4, 20), 1),
        (CHAT, '{"choices": [{"delta": {"reasoning": "rrrr", "reasoning_content": "rrrr"}}]}', (4, 1), 1),
        (CHAT, json.dumps({"output": {"message": {"content": [{"toolUse": USED}]}}}), (4, 5), 1),
        (CHAT, '{"error": null, "choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}}', (20, 5), 0),
        (FULL, json.dumps([{"generated_text": "x" * 40 + "y" * 20}]), (10, 5), 1),
        ({"inputs": "x" * 40}, 'data:{"token": {"text": "a\u2028b\x85"}}\r\n\r\ndata:{"token": {}}\r\n', (10, 2), 1),
        ({"prompt": [5, 6, 7]}, '{"choices": [{"text": "abcd"}]}', (3, 1), 1),
        ({"inputs": "x" * 40}, '[{"generated_text": "y", "details": {"generated_tokens": 7}}]', (10, 7), 1),
        ({"inputs": "x" * 40}, '{"token": {"id": 1}}\n{"token": {"id": 2}}\n{"token": {"id": 3}}\n', (10, 3), 1),
    ],
)
@pytest.mark.parametrize("encoding", ["JSON", "BASE64"])
def test_a_capture_has_the_servers_counts_or_four_characters_a_token(
    tmp_path: Path, prompt: object, answer: str, lengths: tuple[int, int], estimated: int, encoding: str
) -> None:
    """OpenAI, its stream, Converse, TGI's whole answer, LMI's lines."""
    (tmp_path / "a.jsonl").write_text("".join(capture(at, prompt, answer, encoding) for at in (3, 1)))
    found = read_recorded([str(tmp_path)])
    assert (found.input_tokens[0], found.output_tokens[0], found.estimated) == (*lengths, 2 * estimated)
    assert list(found.at_s) == [0, 2]


def test_bedrocks_logs_say_their_counts(tmp_path: Path) -> None:
    """As they lie in the bucket: gzipped, an object a line; one that was refused is counted apart."""
    row = {"schemaType": "ModelInvocationLog", "timestamp": "2026-01-05T08:00:00Z"}
    row |= {"input": {"inputTokenCount": 100}, "output": {"outputTokenCount": 8}}
    rows = [row, row | {"timestamp": "2026-01-05T08:00:04Z"}, row | {"errorCode": "ThrottlingException"}]
    (tmp_path / "log.json.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    found = read_recorded([str(tmp_path)])
    assert (list(found.at_s), list(found.input_tokens), list(found.output_tokens)) == ([0, 4], [100, 100], [8, 8])
    assert found.failed == 1


def test_what_a_cache_had_of_a_prompt_is_part_of_it(tmp_path: Path) -> None:
    """Bedrock counts it apart: 5 new tokens, 1,000 read from the cache and 200 written to it are a prompt of 1,205."""
    row = {"schemaType": "ModelInvocationLog", "timestamp": "2026-01-05T08:00:00Z", "output": {"outputTokenCount": 8}}
    cached = {"inputTokenCount": 5, "cacheReadInputTokenCount": 1000, "cacheWriteInputTokenCount": 200}
    rows = [row | {"input": one} for one in (cached, {"inputTokenCount": 0, "cacheReadInputTokenCount": 70})]
    (tmp_path / "log.json").write_text("\n".join(map(json.dumps, rows)))
    assert list(read_recorded([str(tmp_path)]).input_tokens) == [1205, 70]


def test_a_capture_may_begin_with_a_mark(tmp_path: Path) -> None:
    """Of its encoding, as some tools write it; lines end in two characters."""
    text = "".join(capture(at, CHAT, STREAM) for at in (0, 4)).replace("\n", "\r\n")
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert list(read_recorded([str(tmp_path)]).input_tokens) == [31, 31]


def logged(second: int, model: str = "m", **prompt: object) -> str:
    """A line of Bedrock's log, with an answer of 8 tokens."""
    row = {"schemaType": "ModelInvocationLog", "timestamp": f"2026-01-05T08:00:{second:02d}Z", "modelId": model}
    return json.dumps(row | {"input": prompt, "output": {"outputTokenCount": 8}}) + "\n"


def test_a_bucket_of_bedrocks_logs_has_texts_of_its_own_beside_them(tmp_path: Path) -> None:
    """Those over 100 KB, below `data` of their hour: no log, not opened, and no reason to refuse the log."""
    hour = tmp_path / "AWSLogs/1/BedrockModelInvocationLogs/us-east-1/2026/01/05/08"
    (hour / "data").mkdir(parents=True)
    (hour / "log.json.gz").write_bytes(gzip.compress((logged(0, inputTokenCount=5) * 2).encode()))
    (hour / "data/r_input.json.gz").write_bytes(gzip.compress(json.dumps(CHAT).encode()))
    found = read_recorded([str(tmp_path)])
    assert (len(found), found.notes) == (2, ["1 objects of prompts and answers beside Bedrock's log are not opened"])


def test_models_that_one_log_mixes_are_said(tmp_path: Path) -> None:
    """A log is of an account, not of a model."""
    (tmp_path / "log.json").write_text("".join(logged(at, "ab"[at % 3 == 0], inputTokenCount=5) for at in range(3)))
    assert read_recorded([str(tmp_path)]).notes == [
        "requests of 2 models are learned as one: a (2), b (1); keep one's lines alone"
    ]


def test_a_prompt_that_tells_no_turn_is_none_that_a_turn_brings(tmp_path: Path) -> None:
    """Bedrock leaves texts over 100 KB out of its log: such a prompt of 50,000 tokens has most of them from before."""
    rows = [logged(at, inputTokenCount=30, inputBodyJson=CHAT) for at in range(10)]
    asked = {"role": "assistant", "content": SECRET}
    again = {"messages": [*CHAT["messages"], asked, *CHAT["messages"]]}  # three as long as each other: 30 of 90 are new
    rows += [logged(at, inputTokenCount=90, inputBodyJson=again) for at in range(10, 20)]
    (tmp_path / "log.json").write_text("".join([*rows, logged(20, inputTokenCount=50_000)]))
    learned = fit(read_recorded([str(tmp_path)]))
    assert (learned.turns, learned.input_tokens.min, learned.input_tokens.max) == (2, 30, 30)


def test_every_bad_line_has_its_place_and_quotes_nothing(tmp_path: Path) -> None:
    """What is wrong is said, never what was written there."""
    file = tmp_path / "a.jsonl"
    bad = capture(1, CHAT, "{}").replace("2026-01-05T08:00:01Z", SECRET)
    file.write_text(capture(0, CHAT, "{}") + f'{{"{SECRET}\n' + bad + json.dumps({SECRET: 1}) + "\n")
    with pytest.raises(InputError) as raised:
        read_recorded([str(file)])
    assert [line.removeprefix(f"{file}:") for line in str(raised.value).splitlines()] == [
        "1: neither tokens nor texts of a known payload: expected TGI, LMI, OpenAI or Converse",
        "2: not JSON (cut off, or of another kind); one object a line",
        "3: eventMetadata.inferenceTime: expected a date such as 2026-01-05T08:00:00Z",
        "4: neither a data capture nor an invocation log",
    ]


def test_every_bad_file_of_a_folder_is_told_with_its_line(tmp_path: Path) -> None:
    """One whose only line is cut off, one of other things, one that is good, one with a bad second line."""
    good = capture(0, CHAT, '{"usage": {"prompt_tokens": 2, "completion_tokens": 5}}')
    for name, text in {"a": good[:200], "b": '{"x": 1}', "c": good, "d": good + "{"}.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
    with pytest.raises(InputError) as raised:
        read_recorded([str(tmp_path)])
    assert [line.removeprefix(f"{tmp_path}/") for line in str(raised.value).splitlines()] == [
        "a.jsonl:1: not JSON (cut off, or of another kind); one object a line",
        "b.jsonl:1: no data capture or invocation log, and a trace is learned from alone: put its parts into a folder "
        "of their own, and name that",
        "d.jsonl:2: not JSON (cut off, or of another kind); one object a line",
    ]


def test_a_captures_first_line_may_be_the_bad_one(tmp_path: Path) -> None:
    """It is still no trace."""
    good = capture(0, CHAT, '{"usage": {"prompt_tokens": 2, "completion_tokens": 5}}')
    (tmp_path / "a.jsonl").write_text(f"{good[:200]}\n{good}")
    with pytest.raises(InputError, match=r"a\.jsonl:1: not JSON \(cut off"):
        read_recorded([str(tmp_path / "a.jsonl")])


def test_a_request_without_an_answer_is_left_out_and_counted(tmp_path: Path) -> None:
    """A call that failed is no sample of an answer's length."""
    usage = '{"usage": {"prompt_tokens": 2, "completion_tokens": 5}}'
    lines = [
        capture(0, CHAT, usage),
        capture(1, CHAT, None),
        capture(2, CHAT, '{"error": "x"}'),
        capture(3, CHAT, usage),
    ]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    found = read_recorded([str(tmp_path)])
    assert (len(found), found.failed) == (2, 2)


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        (CHAT, '{"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}'),
        (CHAT, '{"code": 424, "message": "prediction failure"}'),
        (CHAT, '{"token": {"text": ""}, "generated_text": "", "details": {"finish_reason": "error"}}'),
        (CHAT, '{"choices": [{"message": {"content": ""}}], "usage": {"prompt_tokens": 5, "completion_tokens": 0}}'),
        (CHAT, '{"choices": [{"message": {"content": null}}]}'),
        ({"inputs": ""}, '[{"generated_text": "yyyy"}]'),
        ({"inputs": "xxxx"}, '[{"generated_text": ""}]'),
        ({"input": "xxxx"}, '{"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 2, "total_tokens": 2}}'),
    ],
)
def test_errors_and_what_is_empty_are_no_sample_and_no_bad_line(tmp_path: Path, prompt: object, answer: str) -> None:
    """vLLM's and LMI's errors, which have no `error`; answers and prompts of nothing; an embedding."""
    usage = '{"usage": {"prompt_tokens": 2, "completion_tokens": 5}}'
    good = [capture(at, CHAT, usage) for at in (0, 3)]
    (tmp_path / "a.jsonl").write_text(good[0] + capture(1, prompt, answer) + good[1])
    found = read_recorded([str(tmp_path)])
    assert (list(found.output_tokens), found.failed) == ([5, 5], 1)


def test_a_count_that_nothing_holds_is_a_bad_line(tmp_path: Path) -> None:
    """More tokens than any model takes, or a number of this machine has room for."""
    for count in (10_000_001, 2**63 - 1):
        usage = f'{{"usage": {{"prompt_tokens": 2, "completion_tokens": {count}}}}}'
        (tmp_path / "a.jsonl").write_text(capture(0, CHAT, usage))
        with pytest.raises(InputError, match=r"a\.jsonl:1: a request of more than 10,000,000 tokens$"):
            read_recorded([str(tmp_path)])


def test_an_embedding_in_bedrocks_log_is_left_out(tmp_path: Path) -> None:
    """Its prompt has tokens, its answer has none."""
    row = {"schemaType": "ModelInvocationLog", "timestamp": "2026-01-05T08:00:00Z", "input": {"inputTokenCount": 5}}
    rows = [row | {"output": {"outputTokenCount": 8}}] * 2 + [row | {"output": {"outputBodyJson": {"embedding": []}}}]
    (tmp_path / "log.json").write_text("\n".join(map(json.dumps, rows)))
    found = read_recorded([str(tmp_path)])
    assert (len(found), found.failed) == (2, 1)


def conversation(second: int, turn: int, system: str = "be brief") -> str:
    """Turn k of a conversation: ten characters a message, a system prompt of eight."""
    messages = [{"role": "system", "content": system}]
    for _ in range(turn - 1):
        messages += [{"role": "user", "content": "u" * 10}, {"role": "assistant", "content": "a" * 10}]
    messages += [{"role": "user", "content": "u" * 10}]
    tokens = len(system) + 20 * turn - 10  # one a character
    usage = {"prompt_tokens": tokens, "completion_tokens": 10}
    return capture(second, {"messages": messages}, json.dumps({"usage": usage}))


def test_turns_and_the_system_prompt_are_learned(tmp_path: Path) -> None:
    """Four conversations of three turns: 12 requests of 4 first turns; a turn brings 10 tokens, the first 8 more, which
    are the system prompt's."""
    lines = [conversation(4 * turn + at, turn) for turn in (1, 2, 3) for at in range(4)]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    found = read_recorded([str(tmp_path)])
    assert list(found.turns) == [1] * 4 + [2] * 4 + [3] * 4
    assert list(found.new_tokens) == [18] * 4 + [10] * 8
    learned = fit(found)
    assert (learned.turns, learned.shared_prefix_tokens) == (3, 8)
    assert (learned.first_prompts.mean, learned.input_tokens.mean) == (18, 10)


def test_pictures_are_no_part_of_a_system_prompt(tmp_path: Path) -> None:
    """400 characters each of system prompt, first and second question are 100 tokens each, the picture 2,000."""
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{SECRET}"}}
    first = [
        {"role": "system", "content": "s" * 400},
        {"role": "user", "content": [{"type": "text", "text": "q" * 400}, picture]},
    ]
    answer, again = {"role": "assistant", "content": "a" * 40}, {"role": "user", "content": "r" * 400}
    shown = {"role": "user", "content": [{"type": "text", "text": "r" * 400}, picture]}
    asked = {2200: first, 2310: [*first, answer, again], 4310: [*first, answer, shown]}
    usage = '{{"usage": {{"prompt_tokens": {}, "completion_tokens": 10}}}}'
    rows = [capture(at, {"messages": one}, usage.format(count)) for at, (count, one) in enumerate(asked.items())]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    found = read_recorded([str(tmp_path)])
    assert list(found.prefixes.values()) == [[3, 300]]
    assert list(found.new_tokens) == [2200, 100, 100 + 2000]


def test_another_system_prompt_for_each_is_not_shared(tmp_path: Path) -> None:
    """Eight of one length and eight contents."""
    (tmp_path / "a.jsonl").write_text("".join(conversation(at, 1, f"be br{at:03d}") for at in range(8)))
    assert fit(read_recorded([str(tmp_path)])).shared_prefix_tokens == 0


def test_a_file_that_is_neither_capture_nor_trace_is_not_quoted(tmp_path: Path) -> None:
    """Whatever it is: columns of a table, keys and values of rows."""
    for name, text in (
        ("a.csv", f"{SECRET},b\n1,2\n"),
        ("b.jsonl", f'{{"{SECRET}": 1}}\n'),
        ("c.jsonl", f"{SECRET}\n"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError) as raised:
            read_recorded([str(tmp_path / name)])
        assert SECRET not in str(raised.value)
    rows = ["timestamp_s,input_tokens,output_tokens", "0,5,5", f"1,{SECRET},5"]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    with pytest.raises(InputError) as raised:
        read_recorded([str(tmp_path / "d.csv")])
    assert str(raised.value).startswith(f"{tmp_path / 'd.csv'}:3: ")
    assert SECRET not in str(raised.value)


NO_ROW = "neither a data capture, an invocation log nor a row of a trace"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "a.json",
            f'{{"block_size": 64, "requests": [{{"t": "{SECRET}:5: x", "in": 1, "out": 2}}]}}',
            f": request 1: {NO_ROW}",
        ),
        ("a.csv", f'"what\n{SECRET}:7: yes",b\n1,2\n', ":1: columns of no known trace; expected timestamp_s, "),
        ("a.csv", f"TIMESTAMP,ContextTokens,GeneratedTokens\n{SECRET}:3: x,1,2\n", ":2: TIMESTAMP: expected a date"),
    ],
)
def test_what_looks_like_a_place_is_not_quoted_either(tmp_path: Path, name: str, text: str, told: str) -> None:
    """A time, a column's name of two lines: both read as `SECRET:5: `."""
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError) as raised:
        read_recorded([str(file)])
    assert str(raised.value).startswith(f"{file}{told}")
    assert SECRET not in str(raised.value)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a server that is not ours, which speaks S3."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with moto_server() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        boto3.client("s3").create_bucket(Bucket="captures")
        yield "captures"


def test_a_bucket_is_read_as_a_folder_is(bucket: str) -> None:
    """Plain and gzipped objects below a prefix, in any order; others are left alone."""
    usage = '{"usage": {"prompt_tokens": 2, "completion_tokens": 5}}'
    lines = [capture(at, CHAT, usage).encode() for at in range(4)]
    bodies = {"a/2.jsonl": lines[2] + lines[3], "a/1.jsonl.gz": gzip.compress(lines[0] + lines[1]), "b/3.jsonl": b"{"}
    for key, body in bodies.items():
        boto3.client("s3").put_object(Bucket=bucket, Key=f"day/{key}", Body=body)
    found = read_recorded([f"s3://{bucket}/day/a"])
    assert (list(found.at_s), list(found.input_tokens)) == ([0, 1, 2, 3], [2] * 4)
    with pytest.raises(InputError, match=r"s3://captures/day/c: no file ending in"):
        read_recorded([f"s3://{bucket}/day/c"])
    with pytest.raises(CouldNotRunError, match="NoSuchBucket"):
        read_recorded(["s3://nobodys/day"])


def test_a_share_of_requests_stands_for_all(tmp_path: Path) -> None:
    """One in ten captured: ten times the rate."""
    usage = '{"usage": {"prompt_tokens": 2, "completion_tokens": 5}}'
    (tmp_path / "a.jsonl").write_text("".join(capture(at, CHAT, usage) for at in range(0, 50, 5)))
    found = read_recorded([str(tmp_path)])
    assert found.captured
    found.share = 0.1
    assert fit(found).requests_per_s == pytest.approx(2)


def test_a_folder_of_nothing_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file ending in"):
        read_recorded([str(tmp_path)])


def test_lognormal_counts_are_found_to_be_so() -> None:
    """Drawn by the standard library with a median of e⁶ = 403: their mean is e^(6 + 0.5²/2) = 457."""
    draw = Random(3)
    found = fit_lengths([round(draw.lognormvariate(6, 0.5)) for _ in range(20_000)])
    assert found.distribution == "lognormal"
    assert found.mean == pytest.approx(457, rel=0.02)


def test_counts_that_only_look_lognormal_are_sampled() -> None:
    """Gamma counts of shape 4 are 4 points off one; a lognormal's 20,000 would be 1.36/√20,000 = 1 point by chance."""
    draw = Random(3)
    found = fit_lengths([1 + round(draw.gammavariate(4, 130)) for _ in range(20_000)])
    assert found.distance == pytest.approx(0.04, abs=0.005)
    assert found.distribution == "empirical"


def test_counts_of_two_kinds_are_sampled() -> None:
    """A quarter of 20, three quarters of 300: 25 and 75 of the hundred values."""
    found = fit_lengths([20] * 100 + [300] * 300)
    assert found.distribution == "empirical"
    assert found.values == (20,) * 25 + (300,) * 75


def test_gaps_tell_how_arrivals_come() -> None:
    """Gamma gaps of shape 0.5 have a burstiness of 0.5; exponential ones are Poisson."""
    draw = Random(5)
    for shape, expected in ((0.5, 0.5), (1.0, None)):
        times, now = [], 0.0
        for _ in range(20_000):
            now += draw.gammavariate(shape, 1)
            times.append(now)
        assert burstiness_of(times) == (expected and pytest.approx(expected, rel=0.05))


def test_turns_are_no_bursts() -> None:
    """Six turns of a conversation follow each other within two minutes; conversations begin as Poisson's do."""
    learned = fit(recorded(20, 2, rate=0.03, turns=6))
    assert (learned.turns, learned.continues, learned.burstiness) == (6, 1.0, None)


def test_a_shape_is_no_burst() -> None:
    """Counted by it, its requests are Poisson, at the mean of the day; as they are, they come in bursts."""
    traffic = recorded(7, 2, rate=0.03, hours=DAY_SHAPE)
    shaped = fit(traffic, week=week_of(DAY_SHAPE, ()))
    assert (shaped.burstiness, shaped.shaped) == (None, True)
    assert shaped.requests_per_s == pytest.approx(0.03, rel=0.03)
    assert (fit(traffic).burstiness or 1) < 0.5


def test_conversations_that_may_end_are_learned_with_their_chance() -> None:
    """1,000 begin, 500 go on, 250 of these, 125 of these: 4 turns at most, each goes on in a half: 1.875 in all."""
    counts = {1: 1000, 2: 500, 3: 250, 4: 125, 5: 9}  # nine in a thousand are none to expect
    most, mean = turns_of([turn for turn, count in counts.items() for _ in range(count)])
    assert (most, goes_on(mean, [1.0] * most)) == (4, pytest.approx(0.5, abs=0.01))


def test_what_lengths_end_is_no_chance() -> None:
    """Half of all conversations have room for a second turn, a quarter for a third: 1.3125 turns if each goes on in a
    half; 1.75 if all go on, and no chance makes them more."""
    assert goes_on(1.3125, [1.0, 0.5, 0.25]) == pytest.approx(0.5, abs=0.001)
    assert goes_on(2.0, [1.0, 0.5, 0.25]) == 1.0


def test_payloads_without_messages_tell_no_turn(tmp_path: Path) -> None:
    """TGI's text may be a conversation or none."""
    (tmp_path / "a.jsonl").write_text(capture(0, {"inputs": "x"}, '[{"generated_text": "y"}]') * 2)
    assert list(read_recorded([str(tmp_path)]).turns) == [0, 0]


def test_a_folder_of_agents_conversations_tells_turns_by_their_blocks(tmp_path: Path) -> None:
    """Its second request repeats the first's blocks and brings 300 - 192 - 20 tokens; the sub-agent begins anew."""
    requests: list[dict[str, object]] = [
        {"t": 0, "in": 192, "out": 20, "hash_ids": [1, 2, 3]},
        {"t": 9, "in": 300, "out": 30, "hash_ids": [1, 2, 4, 5, 6]},
        {"t": 4, "type": "subagent", "requests": [{"t": 5, "in": 128, "out": 5, "hash_ids": [1, 9]}]},
    ]
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({"block_size": 64, "requests": requests}, indent=2))
    found = read_recorded([str(tmp_path)])
    assert list(zip(found.turns, found.new_tokens, strict=True)) == [(1, 192)] * 2 + [(1, 128)] * 2 + [(2, 88)] * 2


def test_a_folder_of_clients_is_learned_from(tmp_path: Path) -> None:
    """2/s of 300 tokens for ten minutes: 1,200 requests within chance."""
    (tmp_path / "chunk-0-trace.csv").write_text("0,2,1.0,Gamma,1.0,0.5\n")
    counts = {"0": {"input_tokens": "{300: 1.0}", "output_tokens": "{10: 1.0}"}}
    (tmp_path / "chunk-0-dataset.json").write_text(json.dumps(counts))
    found = read_recorded([str(tmp_path)])
    assert len(found) == pytest.approx(1200, rel=0.1)
    assert set(found.input_tokens) == {300} and set(found.turns) == {0}


def test_one_moment_has_no_rate(tmp_path: Path) -> None:
    """Two requests of one second say nothing of how often they come."""
    usage = '{"usage": {"prompt_tokens": 2, "completion_tokens": 5}}'
    (tmp_path / "a.jsonl").write_text(capture(0, CHAT, usage) * 2)
    with pytest.raises(InputError, match="no rate"):
        fit(read_recorded([str(tmp_path)]))


def test_lengths_that_go_together_are_learned_in_pairs(tmp_path: Path) -> None:
    """Answers of twice the prompt: every pair keeps that, and the ranks are those of one another."""
    rows = [
        "timestamp_s,input_tokens,output_tokens",
        *(f"{at},{20 + at % 97},{2 * (20 + at % 97)}" for at in range(970)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    learned = fit(read_recorded([str(tmp_path / "t.csv")]))
    assert learned.correlation == pytest.approx(1)
    assert learned.paired
    pairs = list(zip(learned.input_tokens.values, learned.output_tokens.values, strict=True))
    assert len(pairs) == 200
    assert all(answer == 2 * prompt for prompt, answer in pairs)
    assert sum(prompt for prompt, _ in pairs) / 200 == pytest.approx(68, abs=0.5)


def test_pairs_keep_the_tails_of_both() -> None:
    """Of 20,000 pairs that go together, 200 have both 95th percentiles within 5% and the mean within 2%."""
    chance = Random(8)
    seen = [chance.gauss(0, 1) for _ in range(20_000)]
    prompts = [round(exp(6 + 0.8 * one)) for one in seen]
    answers = [round(exp(4.8 + 0.6 * (0.8 * one + 0.6 * chance.gauss(0, 1)))) for one in seen]
    for whole, taken in zip((prompts, answers), pairs_of(prompts, answers), strict=True):
        assert sum(sorted(taken)[189:191]) / 2 == pytest.approx(sorted(whole)[19_000], rel=0.05)
        assert sum(taken) / 200 == pytest.approx(sum(whole) / 20_000, rel=0.02)


def test_lengths_of_one_kind_are_not_paired(tmp_path: Path) -> None:
    """Drawn by themselves: no correlation to speak of; equal answers have none."""
    draw = Random(9)
    rows = [f"{at},{draw.randint(1, 900)},{draw.randint(1, 900)}" for at in range(3000)]
    (tmp_path / "t.csv").write_text("\n".join(["timestamp_s,input_tokens,output_tokens", *rows]))
    learned = fit(read_recorded([str(tmp_path / "t.csv")]))
    assert abs(learned.correlation) < 0.05
    assert not learned.paired
    assert rank_correlation([1, 2, 3], [5, 5, 5]) == 0


def test_ranks_are_spearmans() -> None:
    """By hand: ranks 1, 2.5, 2.5, 4 and 4, 3, 2, 1 have a correlation of -4.5 / sqrt(4.5 * 5)."""
    assert rank_correlation([1, 2, 2, 9], [40, 30, 20, 10]) == pytest.approx(-4.5 / (4.5 * 5) ** 0.5)


KILLED = """
import os, signal, sys
from pathlib import Path
from loadproof.bench.learn import reading
reading.KEPT_EVERY, reading.TOLD_EVERY = 50, 120
def kill(progress):
    print(progress.words, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
reading.read_recorded([sys.argv[1]], kill, Path(sys.argv[2]))
"""


def test_a_reading_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """Killed with SIGKILL after 120 of 240 requests, of which 100 were written down; then as if it had never been."""
    (tmp_path / "in").mkdir()
    many(tmp_path / "in", 3, 80)
    state = tmp_path / "state"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "in"), str(state)], capture_output=True, text=True, check=False
    )
    assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, "")
    assert killed.stdout.startswith("read 120 requests, 0.00 of 0.00 GB")
    kept = json.loads((state / "state.json").read_text())
    assert (kept["read"], kept["file"], kept["line"]) == (100, 1, 20)
    whole, found = read_recorded([str(tmp_path / "in")]), read_recorded([str(tmp_path / "in")], state=state)
    for name in ("at_s", "input_tokens", "output_tokens", "new_tokens", "turns", "read", "estimated"):
        assert getattr(found, name) == getattr(whole, name)
    assert fit(found).shared_prefix_tokens == fit(whole).shared_prefix_tokens > 0
    assert not state.exists()


def test_a_bad_line_is_told_again_and_read_once_it_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state goes no farther than the line before it."""
    monkeypatch.setattr(reading, "KEPT_EVERY", 20)
    lines = [capture(at % 50, CHAT, STREAM) for at in range(100)]
    log, state = tmp_path / "a.jsonl", tmp_path / "state"
    log.write_text("".join([*lines[:50], lines[50][:40] + "\n", *lines[51:]]))
    for _ in range(2):
        with pytest.raises(InputError, match=r"^[^\n]*a\.jsonl:51: not JSON"):
            read_recorded([str(log)], state=state)
        assert json.loads((state / "state.json").read_text())["line"] == 40
    log.write_text("".join(lines))
    assert read_recorded([str(log)], state=state).at_s == read_recorded([str(log)]).at_s


def test_a_file_that_was_read_whole_may_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "KEPT_EVERY", 20)
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("".join(capture(at, CHAT, STREAM) for at in range(30)))
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write("{\n")
    state = tmp_path.parent / f"{tmp_path.name}-state"
    with pytest.raises(InputError, match=r"b\.jsonl:31: not JSON"):
        read_recorded([str(tmp_path)], state=state)
    (tmp_path / "a.jsonl").write_text(capture(0, CHAT, STREAM))
    with pytest.raises(InputError, match=r"a\.jsonl has changed since it was read; delete the folder and read again"):
        read_recorded([str(tmp_path)], state=state)


@pytest.mark.parametrize("half", [r"\ud83d", r"\uDE00"])
def test_half_a_character_in_a_payload_stops_nothing(tmp_path: Path, half: str) -> None:
    """A client that cuts an emoji in two; Python's own json reads and writes it."""
    messages = [{"role": role, "content": f"be brief{half}"} for role in ("system", "user")]
    prompt = json.dumps({"messages": messages}).replace("\\\\u", "\\u")
    (tmp_path / "a.jsonl").write_text(capture(0, CHAT, STREAM) + capture(1, prompt, STREAM))
    assert len(read_recorded([str(tmp_path / "a.jsonl")])) == 2


def test_a_state_of_another_reading_is_refused(tmp_path: Path) -> None:
    """Other files: which, is said."""
    (tmp_path / "in").mkdir()
    many(tmp_path / "in", 1, 60)
    checkpoint = Checkpoint(tmp_path / "state", {"elsewhere.jsonl": 1}, b"k")
    checkpoint.keep(0, 1)
    with pytest.raises(InputError, match="of another reading, of 1 other files; delete it, or name one"):
        read_recorded([str(tmp_path / "in")], state=tmp_path / "state")


@pytest.mark.parametrize("name", ["notes.txt", "my.data.csv"])
def test_a_folder_of_other_things_is_left_alone(tmp_path: Path, name: str) -> None:
    """`--resume .` by mistake: it is refused, for what a reading wrote down is deleted in the end."""
    (tmp_path / "in").mkdir()
    many(tmp_path / "in", 1, 60)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("mine")
    with pytest.raises(InputError, match=f"mine: holds `{name}`, which no reading writes; name a folder of its own"):
        read_recorded([str(tmp_path / "in")], state=tmp_path / "mine")
    assert [one.name for one in (tmp_path / "mine").iterdir()] == [name]


def test_what_comes_into_the_folder_meanwhile_is_left_there(tmp_path: Path) -> None:
    """The reading ends all the same."""
    checkpoint = Checkpoint(tmp_path / "state", {"a.jsonl": 1}, b"k")
    checkpoint.keep(0, 1)
    (tmp_path / "state" / "my.data.csv").write_text("mine")
    checkpoint.keep(0, 2)
    checkpoint.over()
    assert [one.name for one in (tmp_path / "state").iterdir()] == ["my.data.csv"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sizes": {"a.jsonl": 1}}', '{"sizes": 1}'])
def test_a_damaged_state_is_said(tmp_path: Path, text: str) -> None:
    """No traceback, and what to do."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.json").write_text(text)
    with pytest.raises(InputError, match="state: damaged, nothing can go on from it; delete it"):
        Checkpoint.of(tmp_path / "state", {"a.jsonl": 1})


def test_nothing_that_was_said_is_kept_to_go_on_from(tmp_path: Path) -> None:
    """A state holds numbers, names of files and the key, which only its owner may read."""
    (tmp_path / "a.jsonl").write_text("".join(capture(at, CHAT, STREAM) for at in range(4)))
    checkpoint = Checkpoint(tmp_path / "state", {"a.jsonl": 1}, b"k")
    for line in (tmp_path / "a.jsonl").read_text().splitlines():
        found = request_of(json.loads(line), b"k")
        assert found is not None
        checkpoint.found.add(found)
    checkpoint.keep(0, 4)
    written = b"".join(one.read_bytes() for one in (tmp_path / "state").iterdir())
    assert SECRET.encode() not in written
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_more_requests_than_are_held_are_thinned_by_chance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """4,000 requests where 500 are held: an eighth or a sixteenth stands for all, at the same rate and lengths."""
    monkeypatch.setattr("loadproof.bench.learn.recorded.MOST_HELD", 500)
    many(tmp_path, 4, 1000)
    found = read_recorded([str(tmp_path)])
    assert found.read == 4_000
    assert 150 < len(found) < 500
    assert found.share in (1 / 8, 1 / 16)
    assert len(found) / found.share == pytest.approx(4_000, rel=0.2)
    assert sum(found.input_tokens) / len(found) == pytest.approx(20 + 10 + 24.5, rel=0.05)
    assert fit(found).shared_prefix_tokens > 0
    assert any("4,000 requests are held, drawn by chance" in note for note in found.notes)
