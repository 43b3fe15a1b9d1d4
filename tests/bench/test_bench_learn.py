"""Recorded traffic as a workload: what is read of it, what never leaves the reader, what is fitted."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from random import Random

import pytest

from loadproof.bench.learn.fitting import burstiness_of, fit, fit_lengths
from loadproof.bench.learn.reading import read_recorded
from loadproof.errors import InputError

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


CHAT = {"messages": [{"role": "user", "content": SECRET}]}
STREAM = 'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: {"choices": [], "usage": {"prompt_tokens": 31, '
STREAM += '"completion_tokens": 9}}\n\ndata: [DONE]\n\n'
CONVERSE = {"output": {"message": {"content": [{"text": SECRET}]}}, "usage": {"inputTokens": 12, "outputTokens": 34}}


@pytest.mark.parametrize(
    ("prompt", "answer", "lengths", "estimated"),
    [
        (CHAT, '{"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}}', (20, 5), 0),
        (CHAT, STREAM, (31, 9), 0),
        (CHAT, json.dumps(CONVERSE), (12, 34), 0),
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
    found = read_recorded([tmp_path])
    assert (found.input_tokens[0], found.output_tokens[0], found.estimated) == (*lengths, 2 * estimated)
    assert list(found.at_s) == [0, 2]


def test_bedrocks_logs_say_their_counts(tmp_path: Path) -> None:
    """As they lie in the bucket: gzipped, an object a line; one that was refused is counted apart."""
    row = {"schemaType": "ModelInvocationLog", "timestamp": "2026-01-05T08:00:00Z"}
    row |= {"input": {"inputTokenCount": 100}, "output": {"outputTokenCount": 8}}
    rows = [row, row | {"timestamp": "2026-01-05T08:00:04Z"}, row | {"errorCode": "ThrottlingException"}]
    (tmp_path / "log.json.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    found = read_recorded([tmp_path])
    assert (list(found.at_s), list(found.input_tokens), list(found.output_tokens)) == ([0, 4], [100, 100], [8, 8])
    assert found.failed == 1


def test_every_bad_line_has_its_place_and_quotes_nothing(tmp_path: Path) -> None:
    """What is wrong is said, never what was written there."""
    file = tmp_path / "a.jsonl"
    bad = capture(1, CHAT, "{}").replace("2026-01-05T08:00:01Z", SECRET)
    file.write_text(capture(0, CHAT, "{}") + f'{{"{SECRET}\n' + bad + json.dumps({SECRET: 1}) + "\n")
    with pytest.raises(InputError) as raised:
        read_recorded([file])
    assert [line.removeprefix(f"{file}:") for line in str(raised.value).splitlines()] == [
        "1: neither tokens nor texts of a known payload: expected TGI, LMI, OpenAI or Converse",
        "2: not JSON; one object a line",
        "3: eventMetadata.inferenceTime: expected a date such as 2026-01-05T08:00:00Z",
        "4: neither a data capture nor an invocation log",
    ]


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
    found = read_recorded([tmp_path])
    assert (len(found), found.failed) == (2, 2)


def test_a_bucket_is_not_read(tmp_path: Path) -> None:
    """With what to do instead."""
    with pytest.raises(InputError, match="aws s3 sync"):
        read_recorded([Path("s3://bucket/capture")])


def test_lognormal_counts_are_found_to_be_so() -> None:
    """Drawn by the standard library with a median of e⁶ = 403: their mean is e^(6 + 0.5²/2) = 457."""
    draw = Random(3)
    found = fit_lengths([round(draw.lognormvariate(6, 0.5)) for _ in range(20_000)])
    assert found.distribution == "lognormal"
    assert found.mean == pytest.approx(457, rel=0.02)


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


def test_one_moment_has_no_rate(tmp_path: Path) -> None:
    """Two requests of one second say nothing of how often they come."""
    usage = '{"usage": {"prompt_tokens": 2, "completion_tokens": 5}}'
    (tmp_path / "a.jsonl").write_text(capture(0, CHAT, usage) * 2)
    with pytest.raises(InputError, match="no rate"):
        fit(read_recorded([tmp_path]))
