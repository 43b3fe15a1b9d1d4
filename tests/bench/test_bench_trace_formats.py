"""Public formats of recorded traffic: small excerpts of our own making, in the shape that their publishers document."""

from __future__ import annotations

import gzip
import json
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from loadproof.bench.workload.arrivals import schedule_of
from loadproof.bench.workload.conversations import Conversations
from loadproof.bench.workload.played import played
from loadproof.bench.workload.traces import TraceRow, read_trace, trace_notes, trace_of
from loadproof.errors import InputError
from loadproof.loads import Load
from loadproof.simulation.prefixes import BlockCache

MOONCAKE = """\
{"timestamp": 0, "input_length": 1200, "output_length": 52, "hash_ids": [46, 47, 48]}
{"timestamp": 10535, "input_length": 1100, "output_length": 26, "hash_ids": [46, 47, 49]}
"""
AZURE_2023 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.4799600,3180,8
"""
AZURE_2024 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 02:00:01.009930+02:00,2399,6
"""
BURST = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
20,ChatGPT,0,0,0,Conversation log
45,GPT-4,1087,230,1317,Conversation log
"""
LITELLM = """\
request_id,call_type,startTime,endTime,model,prompt_tokens,completion_tokens,total_tokens,status
b,acompletion,2026-01-05 10:00:02.5,2026-01-05 10:00:03,gpt,40,7,47,success
c,acompletion,2026-01-05 10:00:03,2026-01-05 10:00:04,gpt,0,0,0,failure
a,acompletion,2026-01-05 10:00:00,2026-01-05 10:00:09,gpt,12,3,15,success
"""
SDK_SPANS = "\n".join(
    json.dumps(span)
    for span in (
        {
            "name": "chat llama",
            "start_time": "2026-01-05T10:00:00.000000Z",
            "attributes": {"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3},
        },
        {"name": "execute_tool", "start_time": "2026-01-05T10:00:00.500000Z", "attributes": {"gen_ai.tool.name": "x"}},
        {
            "name": "chat llama",
            "start_time": "2026-01-05T10:00:01.250000Z",
            "attributes": {"gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 7},
        },
    )
)


def otlp(*spans: tuple[int, int, int]) -> str:
    """One line as the collector's file exporter writes it."""
    written = [
        {
            "name": "chat",
            "startTimeUnixNano": str(start_ns),
            "attributes": [
                {"key": "gen_ai.usage.input_tokens", "value": {"intValue": str(read)}},
                {"key": "gen_ai.usage.output_tokens", "value": {"intValue": str(made)}},
            ],
        }
        for start_ns, read, made in spans
    ]
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": written}]}]})


CASES = {
    "mooncake.jsonl": (MOONCAKE, [(0, 1200, 52), (10.535, 1100, 26)]),
    "azure-2023.csv": (AZURE_2023, [(0, 4808, 10), (0.5, 3180, 8)]),
    "azure-2024.csv": (AZURE_2024, [(0, 2162, 5), (1, 2399, 6)]),
    "burstgpt.csv": (BURST, [(0, 472, 18), (40, 1087, 230)]),
    "litellm.csv": (LITELLM, [(0, 12, 3), (2.5, 40, 7)]),
    "spans.jsonl": (SDK_SPANS, [(0, 12, 3), (1.25, 40, 7)]),
    "otlp.jsonl": (
        otlp((1_767_607_200_000_000_000, 9, 1), (1_767_607_202_500_000_000, 8, 2)),
        [(0, 9, 1), (2.5, 8, 2)],
    ),
}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", CASES)
def test_a_public_trace_is_read(tmp_path: Path, name: str) -> None:
    """By its fields alone: when each request came, counted from the first, and its two lengths."""
    text, expected = CASES[name]
    rows = read_trace(written(tmp_path, name, text))
    assert [(row.input_tokens, row.output_tokens) for row in rows] == [row[1:] for row in expected]
    assert [row.due_s for row in rows] == pytest.approx([row[0] for row in expected], abs=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_trace_may_be_gzipped_and_begin_with_a_mark(tmp_path: Path, name: str) -> None:
    """As archives and spreadsheets write them, lines ending in two characters."""
    text = CASES[name][0]
    plain, packed = written(tmp_path, name, text), tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()))
    assert trace_of(packed) == trace_of(plain)


@pytest.mark.parametrize("name", ["azure.csv.gz", "mooncake.jsonl.gz"])
def test_a_line_without_an_end_is_refused_before_it_is_read_whole(tmp_path: Path, name: str) -> None:
    """256 MiB that are 256 KiB when gzipped; of them 65 are read."""
    packed = tmp_path / name
    with gzip.open(packed, "wb", compresslevel=1) as file:
        file.write(b"TIMESTAMP,ContextTokens,GeneratedTokens\n" if "csv" in name else b"")
        for _ in range(256):
            file.write(b"0" * 2**20)
    with pytest.raises(InputError, match="64 MiB"):
        trace_of(packed)


def span(second: int, **attributes: object) -> str:
    """A line of an SDK; `__` stands for a dot."""
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return json.dumps({"start_time": f"2026-01-05T10:00:{second:02d}Z", "attributes": named}) + "\n"


def test_spans_of_older_conventions_are_requests_too(tmp_path: Path) -> None:
    """What counts tokens had other names until version 1.26, and has others in OpenLLMetry and OpenInference."""
    lines = [
        span(0, gen_ai__usage__prompt_tokens=10, gen_ai__usage__completion_tokens=1),
        span(1, gen_ai__usage__input_tokens=20, gen_ai__usage__output_tokens=2),
        span(2, llm__usage__prompt_tokens=30, llm__usage__completion_tokens=3),
        span(3, llm__token_count__prompt=40, llm__token_count__completion=4),
    ]
    rows = read_trace(written(tmp_path, "s.jsonl", "".join(lines)))
    assert [(row.due_s, row.input_tokens, row.output_tokens) for row in rows] == [
        (0, 10, 1), (1, 20, 2), (2, 30, 3), (3, 40, 4),
    ]  # fmt: skip


def test_spans_that_ask_no_model_for_an_answer_are_left_out(tmp_path: Path) -> None:
    """An agent's tokens are the sum of its requests'; an embedding has no answer; a request that failed counts none."""
    used = {"gen_ai__usage__input_tokens": 20, "gen_ai__usage__output_tokens": 2}
    lines = [
        span(0, gen_ai__operation__name="chat", gen_ai__conversation__id="c1", **used),
        span(0, gen_ai__operation__name="invoke_agent", gen_ai__usage__input_tokens=40, gen_ai__usage__output_tokens=4),
        span(1, gen_ai__operation__name="embeddings", gen_ai__usage__input_tokens=9),
        span(2, gen_ai__operation__name="chat", gen_ai__usage__input_tokens=20, error__type="timeout"),
        span(3, gen_ai__operation__name="chat", **used),
    ]
    path = written(tmp_path, "s.jsonl", "".join(lines))
    trace = trace_of(path)
    assert [(row.due_s, row.input_tokens, row.output_tokens) for row in trace.rows] == [(0, 20, 2), (3, 20, 2)]
    assert trace_notes(path, trace, blocks_used=True)[:2] == [
        "s.jsonl: 1 rows without tokens are left out: requests that failed",
        "s.jsonl: the conversations that 1 rows name are used: a prompt goes on from the longest it has room for",
    ]


@pytest.mark.parametrize("name", ["otlp.json", "mooncake.json"])
def test_lines_may_be_called_json(tmp_path: Path, name: str) -> None:
    """As the collector's examples name what its file exporter writes."""
    text, expected = CASES[f"{name}l"]
    rows = read_trace(written(tmp_path, name, text))
    assert [(row.input_tokens, row.output_tokens) for row in rows] == [row[1:] for row in expected]


def test_a_span_a_line_may_list_its_attributes(tmp_path: Path) -> None:
    """OTLP's span by itself."""
    whole = json.loads(otlp((1_767_607_200_000_000_000, 9, 1)))
    line = json.dumps(whole["resourceSpans"][0]["scopeSpans"][0]["spans"][0])
    assert read_trace(written(tmp_path, "o.jsonl", line))[0].input_tokens == 9


def test_burstgpts_second_release_names_conversations(tmp_path: Path) -> None:
    """A learned workload without turns does not use them, which is said."""
    text = BURST.replace("Timestamp,", "Timestamp,Session ID,Elapsed time,")
    rows = ["5,a,1.5,ChatGPT,472,18,490,Conversation log", "6,,1.5,ChatGPT,472,18,490,API log"]
    path = written(tmp_path, "b.csv", "\n".join([text.splitlines()[0], *rows]))
    named = "b.csv: the conversations that 1 rows name are"
    assert trace_notes(path, trace_of(path), blocks_used=True) == [
        f"{named} used: a prompt goes on from the longest it has room for"
    ]
    assert trace_notes(path, trace_of(path), blocks_used=False) == [
        f"{named} not used",
        "b.csv: BurstGPT traces tell no prefixes: each prompt is by itself, and no cache finds any of it",
    ]


def turns(rows: Sequence[TraceRow]) -> list[tuple[int, int, int]]:
    """(conversation, turn, what it brought)."""
    conversations = Conversations()
    return [conversations.turn_of(row)[:3] for row in rows]


def test_spans_of_one_conversation_are_its_turns(tmp_path: Path) -> None:
    """100 + 20 tokens, then 150 (30 new), beside another of the same name that begins anew with 40; one has no name."""
    of = [("a", 100, 20), ("b", 90, 5), ("a", 150, 20), ("a", 40, 9), ("", 160, 1), ("a", 200, 20)]
    lines = [
        span(at, gen_ai__usage__input_tokens=prompt, gen_ai__usage__output_tokens=answer, session__id=name)
        for at, (name, prompt, answer) in enumerate(of)
    ]
    rows = read_trace(written(tmp_path, "s.jsonl", "".join(lines)))
    assert turns(rows) == [(1, 1, 100), (2, 1, 90), (1, 2, 30), (3, 1, 40), (0, 0, 160), (1, 3, 30)]


def test_mooncakes_prompts_that_repeat_all_of_another_are_its_next_turn(tmp_path: Path) -> None:
    """Block 0 is a system prompt: prompts of two blocks end with it, and nothing goes on from them. The second turn of
    the first conversation repeats its two full blocks, not the last, begun one; then one more goes on from the same."""
    prompts = [
        (1200, [0, 1, 2]),
        (900, [0, 3]),
        (800, [0, 4]),
        (2500, [0, 1, 5, 6, 7]),
        (2100, [0, 8, 9, 10, 11]),
        (1300, [0, 1, 12]),
        (3100, [0, 1, 5, 6, 13, 14, 15]),
    ]
    lines = [
        json.dumps({"timestamp": at, "input_length": tokens, "output_length": 100, "hash_ids": ids}) + "\n"
        for at, (tokens, ids) in enumerate(prompts)
    ]
    told = turns(read_trace(written(tmp_path, "m.jsonl", "".join(lines))))
    assert [turn for _, turn, _ in told] == [1, 1, 1, 2, 1, 2, 3]
    assert [told[at][2] for at in (3, 5, 6)] == [1200, 1, 500]


def test_bailians_rows_name_the_one_they_go_on_from(tmp_path: Path) -> None:
    """Mooncake's fields, but seconds and blocks of 16 tokens: 40 are three, 90 six."""
    lines = [
        {"chat_id": 7, "parent_chat_id": -1, "timestamp": 61.5, "input_length": 40, "hash_ids": [1, 2, 3]},
        {"chat_id": 8, "parent_chat_id": -1, "timestamp": 62, "input_length": 40, "hash_ids": [1, 2, 4]},
        {"chat_id": 9, "parent_chat_id": 7, "timestamp": 63.5, "input_length": 90, "hash_ids": [1, 2, 5, 6, 7, 8]},
        {"chat_id": 10, "parent_chat_id": 9, "timestamp": 64, "input_length": 95, "hash_ids": [1, 2, 5, 6, 7, 9]},
    ]
    text = "".join(json.dumps({**line, "output_length": 30, "type": "text", "turn": 1}) + "\n" for line in lines)
    trace = trace_of(written(tmp_path, "q.jsonl", text))
    assert trace.format == "Bailian"
    assert [(row.due_s, row.block_tokens) for row in trace.rows] == [(0, 16), (0.5, 16), (2, 16), (2.5, 16)]
    assert turns(trace.rows) == [(1, 1, 40), (2, 1, 40), (1, 2, 20), (1, 3, 1)]


def test_named_conversations_are_found_in_a_cache(tmp_path: Path) -> None:
    """Of a second turn's 1,000 tokens the whole blocks of 16 of the 600 and 50 before it: 40 of them."""
    text = "startTime,prompt_tokens,completion_tokens,session_id\n"
    text += "2026-01-05 10:00:00,600,50,s\n2026-01-05 10:01:00,1000,50,s\n2026-01-05 10:02:00,1000,50,t\n"
    traffic = played(read_trace(written(tmp_path, "l.csv", text)), "a trace")
    blocks = [size[2] for size in traffic.sizes]
    assert traffic.block_tokens == 16
    assert [len({*blocks[0]} & {*one}) for one in blocks[1:]] == [40, 0]


def test_blocks_are_kept(tmp_path: Path) -> None:
    """Two prompts that begin alike."""
    rows = read_trace(written(tmp_path, "m.jsonl", MOONCAKE))
    assert [row.blocks for row in rows] == [(46, 47, 48), (46, 47, 49)]


def test_what_is_not_used_is_said(tmp_path: Path) -> None:
    """A learned workload without turns has prompts that share nothing, whatever the trace's did."""
    path = written(tmp_path, "m.jsonl", MOONCAKE)
    assert trace_notes(path, trace_of(path), blocks_used=False) == [
        "m.jsonl: hash_ids of 2 requests are not used: prompts are sent that share nothing"
    ]


def test_what_a_trace_lacks_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    """BurstGPT's second row has no tokens; it has no column of prefixes or conversations."""
    path = written(tmp_path, "b.csv", BURST)
    assert trace_notes(path, trace_of(path), blocks_used=True) == [
        "b.csv: 1 rows without tokens are left out: requests that failed",
        "b.csv: BurstGPT traces tell neither prefixes nor conversations: each prompt is by itself, and no cache finds "
        "any of it",
    ]


def test_spans_are_sorted_by_when_they_began(tmp_path: Path) -> None:
    """Exporters write a span when it ends: the second line began 2.5 s before the first; played twice as fast."""
    lines = otlp((1_767_607_202_500_000_000, 8, 2)), otlp((1_767_607_200_000_000_000, 9, 1))
    trace = trace_of(written(tmp_path, "o.jsonl", "\n".join(lines)), speed=2.0)
    assert [(row.due_s, row.input_tokens) for row in trace.rows] == [(0, 9), (1.25, 8)]
    assert trace.began_s == 1_767_607_200


@pytest.mark.parametrize(
    ("name", "text", "began_s"),
    [
        ("a.csv", AZURE_2024, 1_715_299_200.00993),
        ("own.csv", "timestamp_s,input_tokens,output_tokens\n1767571200.5,5,5\n", 1_767_571_200.5),
        ("own.csv", "timestamp_s,input_tokens,output_tokens\n30,5,5\n", None),
        ("b.csv", BURST, None),
        ("m.jsonl", MOONCAKE, None),
    ],
)
def test_a_trace_tells_when_it_began_where_its_times_are_dates(
    tmp_path: Path, name: str, text: str, began_s: float | None
) -> None:
    """Dates, and seconds since 1970; what counts from its first request has no date."""
    assert trace_of(written(tmp_path, name, text)).began_s == (began_s and pytest.approx(began_s, abs=1e-4))


def test_a_trace_is_played_twice_as_fast(tmp_path: Path) -> None:
    """10.535 s become 5.2675."""
    path = written(tmp_path, "m.jsonl", MOONCAKE)
    load = Load("trace", trace=str(path), speed=2.0)
    assert list(schedule_of(load, 0, 0).due_ns) == [0, 5_267_500_000]
    assert load.words == "trace m.jsonl at 2 times its speed"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.csv", "when,in,out\n1,2,3\n", "columns of no known trace: when, in, out; expected timestamp_s"),
        ("a.jsonl", '{"when": 1}\n', "fields of no known trace: when; expected timestamp_s"),
        ("a.csv", AZURE_2023.replace("2023-11-16 18:17:04.4799600", "noon"), ":3: TIMESTAMP 'noon': expected a date"),
        ("a.jsonl", MOONCAKE.replace("10535", "-1"), ":2: timestamp -1 after 0; sort the rows by time"),
        ("a.jsonl", MOONCAKE.replace("[46, 47, 49]", '"x"'), ":2: hash_ids 'x': expected a list of whole numbers"),
        (
            "a.jsonl",
            MOONCAKE.replace("[46, 47, 49]", "[46]"),
            ":2: hash_ids: 1 ids, but 1,100 tokens are 3 blocks of 512; expected an id of each, or none of the field",
        ),
        (
            "a.jsonl",  # Bailian's of the same fields: seconds, and blocks of 16
            json.dumps({"timestamp": 61.1, "input_length": 521, "output_length": 9, "hash_ids": [*range(33)]}),
            ":1: hash_ids: 33 ids, but 521 tokens are 2 blocks of 512; expected an id of each",
        ),
        ("a.jsonl", MOONCAKE.replace("[46, 47, 49]", "[46, 47, true]"), ":2: hash_ids '[46, 47, True]': expected a li"),
        ("a.csv", AZURE_2023.replace("3180", "3,180"), ":3: more values than columns: ['8']; quote what has a comma"),
        ("a.jsonl", otlp((1, 9, 1)).replace('"1"', '"soon"', 1), ":1: start_time 'soon': expected a date, or nanosec"),
        (
            "a.json",
            '[\n{"timestamp": 1},',
            ":1: not JSON (unexpected end of data: line 2 column 1 (char 2)); one object a line; `jq -c '.[]' FILE`",
        ),
        ("a.jsonl", '[{"timestamp": 1}]', ":1: one object a line; `jq -c '.[]' FILE` makes them of a list"),
        ("a.json", '{\n  "name": "chat"\n}\n', "; one object a line; `jq -c . FILE` makes them"),
        ("a.jsonl", '{"captureData": {}}\n', ":1: a data capture or invocation log; `loadproof learn` reads it"),
        ("a.jsonl", MOONCAKE.replace("1100", "true"), ":2: input_length True: expected a whole number from 1"),
        ("a.jsonl", SDK_SPANS.replace("2026-01-05T10:00:01.250000Z", "1e999"), ":3: start_time '1e999': expected a da"),
    ],
)
def test_a_bad_row_is_told_with_its_place(tmp_path: Path, name: str, text: str, told: str) -> None:
    """File, line, field, what was found and what is allowed."""
    with pytest.raises(InputError) as raised:
        read_trace(written(tmp_path, name, text))
    assert told in str(raised.value)


def test_a_trace_of_failures_alone_has_no_rows(tmp_path: Path) -> None:
    """BurstGPT's rows without tokens are requests that failed."""
    text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n20,ChatGPT,0,0,0,API log\n"
    with pytest.raises(InputError, match="no rows"):
        read_trace(written(tmp_path, "b.csv", text))


def test_found_blocks_are_those_of_a_plain_replay() -> None:
    """Against an LRU of blocks with all before them, as servers name them: 2,000 prompts over trees of prefixes whose
    ids come again after others, room for 64 blocks."""
    chance, cache, plain = Random(7), BlockCache(), OrderedDict[tuple[int, ...], bool]()
    for _ in range(2_000):
        root = chance.randrange(6)
        prompt = [root * 1000 + depth * 10 + chance.randrange(2) for depth in range(chance.randrange(1, 12))]
        named = [tuple(prompt[: end + 1]) for end in range(len(prompt))]
        expected = 0
        for block in named:
            if block not in plain:
                break
            expected += 1
        for block in reversed(named):
            plain.pop(block, None)
            plain[block] = True
        while len(plain) > 64:
            plain.popitem(last=False)
        assert cache.hold(prompt) == expected
        cache.release(prompt, len(prompt), len(prompt))
        cache.shrink(64)


def test_rows_compare_by_what_they_say() -> None:
    """A row without blocks is one of before."""
    assert TraceRow(0, 10, 3) == TraceRow(0.0, 10, 3, ())


AGENT = {
    "id": "one", "models": ["m"], "block_size": 64, "tool_tokens": 64, "system_tokens": 64,
    "requests": [
        {"t": 0.0, "type": "s", "in": 192, "out": 20, "hash_ids": [1, 2, 3], "stop": "tool_use"},
        {"t": 9.0, "type": "s", "in": 320, "out": 30, "hash_ids": [1, 2, 3, 4, 5], "stop": ""},
        {"t": 4.5, "type": "subagent", "requests": [{"t": 5.0, "type": "n", "in": 64, "out": 5, "hash_ids": [1]}]},
    ],
}  # fmt: skip


def agents(folder: Path, *changes: dict[str, object]) -> Path:
    """A conversation a file, each as `AGENT` with these keys in place of its own."""
    for number, change in enumerate(changes):
        (folder / f"trace_{number}.json").write_text(json.dumps(AGENT | change))
    return folder


def test_agents_conversations_are_read_with_their_blocks_and_sub_agents(tmp_path: Path) -> None:
    """By time; ids of one conversation are no other's, unless they are global."""
    rows = read_trace(agents(tmp_path, {}, {}))
    assert [(row.due_s, row.input_tokens, row.session) for row in rows] == [
        (0, 192, 0), (0, 192, 1), (5, 64, 0), (5, 64, 1), (9, 320, 0), (9, 320, 1),
    ]  # fmt: skip
    assert rows[0].block_tokens == 64
    assert rows[4].blocks[:3] == rows[0].blocks != rows[1].blocks
    shared = read_trace(agents(tmp_path, *[{"hash_id_scope": "global"}] * 2), speed=3)
    assert shared[0].blocks == shared[1].blocks == (1, 2, 3)
    assert shared[-1].due_s == 3


def test_conversations_may_be_lines_of_one_file(tmp_path: Path) -> None:
    """As data sets hold them; what is wrong with one has its line."""
    path = written(tmp_path, "traces.jsonl", f"{json.dumps(AGENT)}\n{json.dumps(AGENT)}\n")
    (folder := tmp_path / "files").mkdir()
    assert read_trace(path) == read_trace(agents(folder, {}, {}))
    path.write_text(f"{json.dumps(AGENT)}\n{json.dumps(AGENT | {'block_size': 0})}\n")
    with pytest.raises(InputError, match=r"traces\.jsonl:2: block_size 0: expected"):
        read_trace(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"block_size": 0}, "block_size 0: expected a whole number from 1"),
        ({"requests": 3}, "no list `requests`"),
        ({"requests": [{"t": "x", "in": 1, "out": 1}]}, "request 1: t 'x': expected seconds"),
        ({"requests": [{"t": 1, "in": 0, "out": 1}]}, "request 1: in 0: expected a whole number from 1"),
        ({"requests": [{"requests": [{"t": 1, "in": 1, "out": 1, "hash_ids": 3}]}]}, "request 1, request 1: hash_ids"),
    ],
)
def test_what_is_wrong_with_an_agents_conversation_has_its_place(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    """The file, and which of its requests."""
    with pytest.raises(InputError, match=r"trace_1.json: ") as caught:
        read_trace(agents(tmp_path, {}, change))
    assert told in str(caught.value)


WINDOWS = "0,2,1.0,Gamma,1.0,0.5\n600,0,0,,0,0\n1200,4,2.0,Weibull,0.5,0.125\n"
COUNTS = {"0": {"input_tokens": "{100: 0.25, 300: 0.75}", "output_tokens": "{10: 1.0}"}}
COUNTS["1200"] = {"input_tokens": "{7: 1.0}", "output_tokens": "{9: 1.0}"}


def servegen(folder: Path, windows: str = WINDOWS, counts: object = COUNTS) -> Path:
    (folder / "chunk-0-trace.csv").write_text(windows)
    (folder / "chunk-0-dataset.json").write_text(json.dumps(counts))
    return folder


def test_a_client_of_servegen_sends_what_its_windows_say(tmp_path: Path) -> None:
    """2/s for ten minutes, nothing for ten, 4/s of other lengths for ten: within chance of 1,200 and 2,400 requests."""
    rows = read_trace(servegen(tmp_path))
    early, late = ([row for row in rows if (row.due_s < 900) is before] for before in (True, False))
    assert len(early) == pytest.approx(1200, rel=0.1)
    assert len(late) == pytest.approx(2400, rel=0.2)
    assert not any(610 < row.due_s < 1190 for row in rows)
    assert sum(row.input_tokens == 300 for row in early) / len(early) == pytest.approx(0.75, abs=0.05)
    assert {(row.input_tokens, row.output_tokens) for row in late} == {(7, 9)}
    assert read_trace(tmp_path) == rows, "always the same"


@pytest.mark.parametrize(
    ("windows", "counts", "told"),
    [
        ("0,2,1\n", COUNTS, "trace.csv:1: 3 values; expected begin, rate"),
        ("0,2,1,Pareto,1,1\n", COUNTS, "trace.csv:1: pattern 'Pareto' of shape 1"),
        ("0,0,0,,0,0\n0,0,0,,0,0\n", COUNTS, "trace.csv:2: begin 0 after 0; sort the windows"),
        (
            WINDOWS,
            {"0": {"input_tokens": "__import__('os')", "output_tokens": "{1: 1}"}},
            "'0': input_tokens: expected",
        ),
        (WINDOWS, {"0": {"input_tokens": "{1e999: 1}", "output_tokens": "{1: 1}"}}, "'0': input_tokens: expected"),
        (WINDOWS, {"0": {"input_tokens": "{7: 0.0}", "output_tokens": "{1: 1}"}}, "a share below 0, or none above it"),
    ],
)
def test_what_is_wrong_with_a_client_has_its_place(tmp_path: Path, windows: str, counts: object, told: str) -> None:
    """The line of its windows, or the second of its counts; nothing in them is run."""
    with pytest.raises(InputError) as caught:
        read_trace(servegen(tmp_path, windows, counts))
    assert told in str(caught.value)


def test_what_a_folder_does_not_tell_is_said(tmp_path: Path) -> None:
    """When conversations began."""
    path = agents(tmp_path, {})
    assert trace_notes(path, trace_of(path), blocks_used=True) == [
        f"{path.name}: nothing tells when its conversations began: all begin together"
    ]
