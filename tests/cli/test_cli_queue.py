"""`loadproof queue` as a user meets it: sent, looked at, waited for, redriven, refused by line."""

from __future__ import annotations

import io
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from buffer_cloud import BufferCloud, buffer_cloud

from loadproof.cli.main import run
from loadproof.cli.queue.send import Rows, Tally, wait_for


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BufferCloud]:
    with buffer_cloud(tmp_path_factory.mktemp("queue")) as cloud:
        yield cloud


@pytest.fixture
def cloud(shared: BufferCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BufferCloud:
    monkeypatch.chdir(tmp_path)
    shared.received()
    shared.received(dead=True)
    return shared


def lines(*rows: object) -> None:
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    Path("in.jsonl").write_text(text, encoding="utf-8")


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("out.jsonl").read_bytes().splitlines()]


def test_one_prompt_is_queued_in_the_models_own_payload(cloud: BufferCloud, capfd: pytest.CaptureFixture[str]) -> None:
    """The key is printed; the body holds TGI's payload, key and priority as asked."""
    told = ["--key", "k1", "--max-tokens", "7", "--priority", "low", "--tenant", "blue"]
    assert run(["queue", "send", cloud.profile, "hello", *told]) == 0
    assert capfd.readouterr().out == "k1\n"
    (message,) = cloud.received()
    body = json.loads(message["Body"])
    assert (body["key"], body["priority"], body["tenant"]) == ("k1", "low", "blue")
    assert (body["request"]["inputs"], body["request"]["parameters"]["max_new_tokens"]) == ("hello", 7)
    assert message["Attributes"]["MessageGroupId"] == "blue"


def test_stdin_is_a_prompt(cloud: BufferCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument the prompt is read; its last line break is the shell's."""
    monkeypatch.setattr("sys.stdin", io.StringIO("from stdin\n"))
    assert run(["queue", "send", cloud.profile]) == 0
    (message,) = cloud.received()
    assert json.loads(message["Body"])["request"]["inputs"] == "from stdin"


def test_a_files_bad_lines_are_all_told_and_nothing_is_sent(
    cloud: BufferCloud, capfd: pytest.CaptureFixture[str]
) -> None:
    """Six kinds of mistakes in one pass, exit 2, the queue empty; what was asked is not quoted."""
    lines(
        {"prompt": "good"},
        "{not json",
        {"promt": "SECRET", "prompt": "x"},
        {"request": {"inputs": "x"}, "max_tokens": 3},
        {"prompt": "x", "key": "../etc"},
        {"prompt": "x", "deadline_ms": 0, "priority": "high"},
        {"prompt": "x", "key": "twice"},
        {"prompt": "x", "key": "twice"},
    )
    assert run(["queue", "send", cloud.profile, "--input", "in.jsonl"]) == 2
    said = " ".join(capfd.readouterr().err.split())
    for line, words in {
        2: "not strict JSON",
        3: "field `promt`: did you mean `prompt`?",
        4: "max_tokens goes with",
        5: "`key` must be 1..128",
        6: "`deadline_ms` must be a whole number of milliseconds since 1970; `priority` must be normal or low",
        8: "key 'twice' is that of line 7",
    }.items():
        assert f"in.jsonl:{line}: {words}" in said
    assert "in.jsonl:1:" not in said and "SECRET" not in said
    assert cloud.received() == []


def test_a_pipe_as_input_is_refused(cloud: BufferCloud, capfd: pytest.CaptureFixture[str]) -> None:
    """It would be empty when it is read to be sent, after it was checked."""
    os.mkfifo("in.jsonl")
    assert run(["queue", "send", cloud.profile, "--input", "in.jsonl"]) == 2
    assert "--input in.jsonl: is no file but a stream" in capfd.readouterr().err


@pytest.mark.parametrize("ahead_s", [-3600, 0, 3600])
def test_a_files_answers_are_waited_for(
    cloud: BufferCloud, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    """A result that is there, and the reason of a dead letter that is younger than the sending, however far our clock
    is from the queue's; exit 1 for that one."""
    monkeypatch.setattr("loadproof.cli.queue.command.time", SimpleNamespace(time=lambda: time.time() + ahead_s))
    cloud.answer("a1", "first")
    for age_s, reason in ((90, "of an earlier life"), (0, "the model answered 422")):
        cloud.dead_letter(json.dumps({"key": "a2", "request": {"inputs": "x"}}), reason, age_s=age_s)
    lines({"prompt": "one", "key": "a1"}, {"prompt": "two", "key": "a2"})
    command = ["queue", "send", cloud.profile, "--input", "in.jsonl", "--output", "out.jsonl", "--wait"]
    assert run([*command, "--wait-s", "0", "--format", "json"]) == 1
    found = {row["key"]: row for row in rows()}
    assert found["a1"]["result"]["answer"]["choices"][0]["text"] == "first"
    assert (found["a2"]["result"], found["a2"]["error"]) == (None, "dead-lettered: the model answered 422")
    document = json.loads(capfd.readouterr().out)
    assert [document[name] for name in ("sent", "keys", "answered", "dead_lettered", "waiting")] == [2, 2, 1, 1, 0]


def test_those_that_wait_are_looked_at_in_turns() -> None:
    """Of 1,000 keys 256 are looked at a turn; each that is there is looked at once and has one row."""

    class Answered:
        def __init__(self) -> None:
            self.asked = Counter[str]()

        def result(self, key: str) -> dict[str, Any]:
            self.asked[key] += 1
            return {"key": key}

    producer, tally = Answered(), Tally()
    written = io.BytesIO()
    keys = [f"k{number}" for number in range(1000)]
    wait_for(producer, list, keys, Rows(written), tally, 60)  # type: ignore[arg-type]
    assert (tally.answered, tally.waiting, set(producer.asked.values())) == (1000, 0, {1})
    assert [json.loads(line)["key"] for line in written.getvalue().splitlines()] == keys


def test_half_a_surrogate_pair_in_an_answer_is_written_and_printed(
    cloud: BufferCloud, capfd: pytest.CaptureFixture[str]
) -> None:
    """A model may have cut an emoji in two: its row holds the escape, a terminal shows a question mark."""
    cloud.answer("cut", "a\ud83d")
    command = ["queue", "send", cloud.profile, "hi", "--key", "cut", "--wait"]
    assert run([*command, "--output", "out.jsonl"]) == 0
    assert capfd.readouterr().out == "a?\n"
    assert rows()[0]["result"]["answer"]["choices"][0]["text"] == "a\ud83d"
    assert run([*command, "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["result"]["answer"]["choices"][0]["text"] == "a\ud83d"


def test_an_answer_is_printed(cloud: BufferCloud, capfd: pytest.CaptureFixture[str]) -> None:
    """One prompt with --wait is a question and its answer."""
    cloud.answer("said", "hello you")
    assert run(["queue", "send", cloud.profile, "hi", "--key", "said", "--wait"]) == 0
    assert capfd.readouterr().out == "hello you\n"


def test_status_counts_what_is_where(cloud: BufferCloud, capfd: pytest.CaptureFixture[str]) -> None:
    """Waiting, delayed, in flight, dead letters by reason, keys by phase; the pace is the shared record's."""
    places, sqs = cloud.places, cloud.client("sqs")
    for delay_s in (0, 0, 0, 900):  # what stays behind is seen by no other test
        sqs.send_message(QueueUrl=places.queue_url, MessageBody="{}", DelaySeconds=delay_s)
    sqs.receive_message(QueueUrl=places.queue_url, VisibilityTimeout=600)
    cloud.dead_letter("{}", "the model answered 400")
    cloud.claim("done-key", phase="done")
    cloud.claim("#pace", gate="no_capacity", closed_ms=1_000, gate_ms=1_500, probe_ms=2_000)
    assert run(["queue", "status", cloud.profile, "--keys", "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [found[name] for name in ("waiting", "in_flight", "delayed", "dead_letters")] == [2, 1, 1, 1]
    assert found["dead_letters_by_reason"] == {"the model answered 400": 1}
    assert found["pace"] == {"gate": "no_capacity", "share": 0.0, "closed_since_ms": 1000, "next_probe_ms": 2000}
    assert (found["keys"], found["slots"]) == ({"done": 1}, 20)


def test_dead_letters_show_their_bodies_on_request_only(cloud: BufferCloud, capfd: pytest.CaptureFixture[str]) -> None:
    """Age, key, attempts and reason by default; looking takes nothing away."""
    cloud.dead_letter(
        json.dumps({"key": "dead", "request": {"inputs": "CANARY"}}), "the model answered 400", attempts=3
    )
    assert run(["queue", "dlq", cloud.profile]) == 0
    said = capfd.readouterr().out
    assert re.fullmatch(r" +[12]:\d\d  dead  3 attempts  the model answered 400\n", said)
    assert run(["queue", "dlq", cloud.profile, "--bodies"]) == 0
    assert "CANARY" in capfd.readouterr().out


def test_redrive_chooses_by_reason(cloud: BufferCloud, capfd: pytest.CaptureFixture[str]) -> None:
    """Of two reasons one is sent back; the other letter is where it was."""
    cloud.dead_letter(json.dumps({"key": "r1", "request": {"x": 1}}), "the model answered 400")
    cloud.dead_letter(json.dumps({"key": "r2", "request": {"x": 1}}), "no answer in 900 s")
    assert run(["queue", "redrive", cloud.profile, "--reason", "900 s", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"sent": 1, "done": 0, "left": {"not chosen": 1}}
    assert [json.loads(message["Body"])["key"] for message in cloud.received()] == ["r2"]
    assert [json.loads(message["Body"])["key"] for message in cloud.received(dead=True)] == ["r1"]


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["send", "plain.yaml", "x"], 2, "has no buffer; set `buffer: {}` and deploy it"),
        (["send", "chat.yaml", "x", "--input", "in.jsonl"], 2, "give one prompt or --input, not both"),
        (["send", "chat.yaml", "--input", "none.jsonl"], 2, "--input none.jsonl: cannot be read"),
        (["send", "chat.yaml", "--input", "in.jsonl", "--wait"], 2, "--wait with --input needs --output"),
        (["send", "chat.yaml", "x", "--callback", "http://x"], 2, "`callback` must be the ARN of a queue or a topic"),
        (
            ["send", "chat.yaml", "x", "--callback", "arn:aws:sqs:us-east-1:1:q"],
            2,
            "not among the profile's buffer.callbacks",
        ),
        (["status", "chat.yaml", "--env", "other"], 2, "no environment.yaml"),
    ],
)
def test_wrong_usage_is_told(
    cloud: BufferCloud, capfd: pytest.CaptureFixture[str], command: list[str], code: int, words: str
) -> None:
    """Place and mending, no traceback, nothing sent."""
    lines({"prompt": "x"})
    verb, profile, *more = command
    assert run(["queue", verb, str(cloud.folder / "dev" / profile), *more]) == code
    assert words in " ".join(capfd.readouterr().err.split())
    assert cloud.received() == []


def test_a_profile_that_is_not_deployed_is_told(cloud: BufferCloud, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit 3: nothing is wrong with what was given."""
    file = cloud.folder / "dev" / "later.yaml"
    file.write_text((cloud.folder / "dev" / "chat.yaml").read_text("utf-8").replace("name: chat", "name: later"))
    assert run(["queue", "status", str(file)]) == 3
    assert "stack loadproof-dev-later" in capfd.readouterr().err
