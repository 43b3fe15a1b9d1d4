"""`loadproof run` as a user meets it: input refused by line, results stored once, resumed, in order, by session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_server import ModelServer, serving
from waiting import until

from loadproof.cli.main import run
from loadproof.invocation.journal import Journal
from loadproof.invocation.retry import RetryPolicy


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(*rows: object) -> None:
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    Path("in.jsonl").write_text(text, encoding="utf-8")


def prompts(count: int) -> list[dict[str, Any]]:
    return [{"prompt": f"p{number}"} for number in range(1, count + 1)]


def command(url: str, *more: str) -> list[str]:
    target = ["--target", url, "--protocol", "openai"]
    return ["run", *target, "--input", "in.jsonl", "--output", "out.jsonl", *more]


def results() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("out.jsonl").read_bytes().splitlines()]


def test_every_line_is_answered_and_stored_with_what_it_cost(folder: Path) -> None:
    """Key, text, finish reason, the server's counts, times and attempts; exit code 0."""
    lines({"prompt": "hello", "key": "a", "max_tokens": 7}, {"prompt": "there"})
    with serving() as server:
        assert run(command(server.completions, "--max-tokens", "11")) == 0
    rows = {row["key"]: row for row in results()}
    assert rows["a"]["text"] == "re: hello" and rows["2"]["text"] == "re: there"
    assert (rows["a"]["finish_reason"], rows["a"]["attempts"], rows["a"]["error"]) == ("stop", 1, None)
    assert rows["a"]["usage"] == {"input_tokens": 2, "output_tokens": 3, "counted_by": "server"}
    assert 0 < rows["a"]["timings"]["ttft_ms"] <= rows["a"]["timings"]["e2e_ms"]
    assert sorted(body["max_tokens"] for body in server.seen) == [7, 11]


def test_what_failed_is_kept_beside_what_was_answered(folder: Path) -> None:
    """A poisonous line is asked once, an accident until it is answered; exit code 1."""
    lines(*prompts(4))

    def says(prompt: str, before: int) -> int:
        return 422 if prompt == "p2" else 500 if prompt == "p3" and before < 1 else 200

    with serving(ModelServer(says)) as server:
        assert run(command(server.completions)) == 1
    rows = {row["key"]: row for row in results()}
    assert (rows["2"]["text"], rows["2"]["attempts"]) == (None, 1)
    assert (rows["2"]["error"]["http_status"], rows["2"]["error"]["gave_up"]) == (422, "poison")
    assert (rows["3"]["text"], rows["3"]["attempts"]) == ("re: p3", 2)
    assert len(server.seen) == 5


def test_json_totals_count_what_happened(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One document on stdout and nothing else there."""
    lines(*prompts(6))
    with serving(ModelServer(lambda prompt, before: 422 if prompt == "p2" else 200)) as server:
        assert run(command(server.completions, "--concurrency", "2", "--format", "json")) == 1
    document = json.loads(capfd.readouterr().out)
    assert [document[name] for name in ("items", "answered", "failed", "not_ended", "requests")] == [6, 5, 1, 0, 6]
    assert (document["output_tokens"], document["most_in_flight"]) == (15, 2)
    assert document["failures"] == {"HTTP 422": 1}


def test_ordered_results_stand_as_the_input_does(folder: Path) -> None:
    """Whatever the order in which they end."""
    lines(*prompts(40))
    with serving(ModelServer(takes_s=0.01)) as server:
        assert run(command(server.completions, "--ordered")) == 0
    assert [row["key"] for row in results()] == [str(number) for number in range(1, 41)]


# ---------------------------------------------------------------------------------------------------- resuming


def test_resume_sends_only_what_has_no_result(folder: Path) -> None:
    """Three of five are stored, and half a line of a fourth: two go out."""
    lines(*prompts(5))
    with serving() as server:
        assert run(command(server.completions)) == 0
        whole = Path("out.jsonl").read_bytes().splitlines(keepends=True)
        kept = {json.loads(line)["key"] for line in whole[:3]}
        Path("out.jsonl").write_bytes(b"".join(whole[:3]) + whole[3][:20])
        server.seen.clear()
        assert run(command(server.completions, "--resume")) == 0
    assert sorted(server.asked()) == sorted({f"p{n}" for n in range(1, 6)} - {f"p{key}" for key in kept})
    assert sorted(row["key"] for row in results()) == ["1", "2", "3", "4", "5"]


def test_what_failed_is_sent_again_only_when_asked(folder: Path) -> None:
    """Resume leaves a final failure as it is, exit code 1; --retry-failed replaces it."""
    lines(*prompts(3))
    with serving(ModelServer(lambda prompt, before: 422 if prompt == "p2" and before == 0 else 200)) as server:
        assert run(command(server.completions)) == 1
        assert run(command(server.completions, "--resume")) == 1
        assert len(server.seen) == 3
        assert run(command(server.completions, "--resume", "--retry-failed")) == 0
    assert len(server.seen) == 4
    assert sorted((row["key"], row["text"]) for row in results()) == [(f"{n}", f"re: p{n}") for n in (1, 2, 3)]


def test_an_output_is_never_overwritten(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing is sent, and the message names --resume."""
    lines(*prompts(1))
    Path("out.jsonl").write_text("mine")
    with serving() as server:
        assert run(command(server.completions)) == 2
    assert Path("out.jsonl").read_text() == "mine" and not server.seen
    assert "--resume" in capfd.readouterr().err


def test_an_input_that_changed_is_not_resumed(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A result belongs to the request it answered: the line that differs is named."""
    lines(*prompts(3))
    with serving() as server:
        assert run(command(server.completions)) == 0
        lines({"prompt": "p1"}, {"prompt": "another"}, {"prompt": "p3"}, {"prompt": "p4"})
        assert run(command(server.completions, "--resume")) == 2
    said = capfd.readouterr().err
    assert "1 lines ask something else" in said and "(lines 2)" in said
    assert len(server.seen) == 3


def start(url: str, *more: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "loadproof", *command(url, *more)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_killed_run_goes_on_without_paying_twice(folder: Path) -> None:
    """After `kill -9` whatever was stored is not asked again; only what was in flight at the kill is."""
    lines(*prompts(120))
    with serving(ModelServer(takes_s=0.05)) as server:
        process = start(server.completions, "--concurrency", "4")
        until(lambda: Path("out.jsonl").exists() and Path("out.jsonl").read_bytes().count(b"\n") >= 20)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
        until(lambda: not server.in_flight)
        asked_before, stored = len(server.seen), Path("out.jsonl").read_bytes().count(b"\n")
        assert run(command(server.completions, "--resume")) == 0
    assert asked_before - stored <= 4 + 4, "those in flight, and those whose answer had come but was not written"
    assert len(server.seen) == asked_before + 120 - stored
    assert sorted(int(row["key"]) for row in results()) == list(range(1, 121))


def test_ctrl_c_waits_for_what_is_in_flight_and_leaves_the_rest(folder: Path) -> None:
    """Exit code 130; every request that went out has its result, and --resume does the others."""
    lines(*prompts(100))
    with serving(ModelServer(takes_s=0.3)) as server:
        process = start(server.completions, "--concurrency", "3")
        until(lambda: len(server.seen) >= 7)
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=120)
        assert process.returncode == 130, complained
        assert len(results()) == len(server.seen) < 20
    assert "waiting for 3 in flight" in complained and "--resume" in said and "Traceback" not in complained


def test_a_second_ctrl_c_drops_what_is_in_flight(folder: Path) -> None:
    """At once, with what was stored before; what was dropped has no result."""
    lines(*prompts(10))
    with serving(ModelServer(lambda prompt, before: 200, takes_s=8)) as server:
        process = start(server.completions, "--concurrency", "2")
        until(lambda: len(server.seen) >= 2)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "waiting for 2 in flight" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        assert process.returncode == 130
    assert not Path("out.jsonl").exists(), "nobody waited for an answer, and nothing is in the way of the same command"


# ---------------------------------------------------------------------------------------------------- sessions


def test_a_sessions_lines_carry_what_was_said_before(folder: Path) -> None:
    """Two sessions side by side; each second turn brings its own first one and the answer."""
    rows = [{"prompt": f"{who} {turn}", "who": who} for turn in (1, 2) for who in ("ann", "bob")]
    lines(
        {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "ann 0"}], "who": "ann"},
        *rows,
    )
    with serving() as server:
        assert run(command(server.chat, "--chain-by", "who")) == 0
    said = {body["messages"][-1]["content"]: [m["content"] for m in body["messages"][:-1]] for body in server.seen}
    assert said["ann 2"] == ["be brief", "ann 0", "re: ann 0", "ann 1", "re: ann 1"]
    assert said["bob 2"] == ["bob 1", "re: bob 1"]
    assert {row["session"] for row in results()} == {"ann", "bob"}


def test_reasoning_is_kept_apart_from_the_answer(folder: Path) -> None:
    """It has a field of its own, and the session's next turn does not bring it as what was said."""
    lines(*({"prompt": f"t{n}", "who": 7} for n in (1, 2)))
    with serving(ModelServer(thinks="HM. ")) as server:
        assert run(command(server.chat, "--chain-by", "who")) == 0
    assert [(row["text"], row["reasoning"]) for row in results()] == [("re: t1", "HM. "), ("re: t2", "HM. ")]
    assert [message["content"] for message in server.seen[1]["messages"]] == ["t1", "re: t1", "t2"]


def test_a_resumed_session_knows_its_stored_answers(folder: Path) -> None:
    """The first two turns come from the file; only the third is sent, with both before it."""
    lines(*({"prompt": f"t{n}", "who": 7} for n in (1, 2, 3)))
    with serving() as server:
        assert run(command(server.chat, "--chain-by", "who")) == 0
        Path("out.jsonl").write_bytes(b"".join(Path("out.jsonl").read_bytes().splitlines(keepends=True)[:2]))
        server.seen.clear()
        assert run(command(server.chat, "--chain-by", "who", "--resume")) == 0
    [body] = server.seen
    assert [message["content"] for message in body["messages"]] == ["t1", "re: t1", "t2", "re: t2", "t3"]


def test_a_session_that_broke_says_so_for_its_later_lines(folder: Path) -> None:
    """They are results without a request, and are tried with --retry-failed in their order."""
    lines(*({"prompt": f"t{n}", "who": "x"} for n in (1, 2, 3)))
    with serving(ModelServer(lambda prompt, before: 422 if prompt == "t2" and before == 0 else 200)) as server:
        assert run(command(server.chat, "--chain-by", "who")) == 1
        assert [(row["error"] or {}).get("code") for row in results()] == [None, "HTTP 422", "ChainBroken"]
        assert run(command(server.chat, "--chain-by", "who", "--resume", "--retry-failed", "--ordered")) == 0
    assert server.asked() == ["t1", "t2", "t2", "t3"]
    assert [row["text"] for row in results()] == ["re: t1", "re: t2", "re: t3"]


# ---------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "expected an object"),
        ("{}", "expected either `prompt`, a text, or `messages`"),
        ({"timestamp": 1}, 'or `messages`, a list; found ["timestamp"]'),
        ({"prompt": "a", "messages": []}, "expected either `prompt`"),
        ({"prompt": " "}, "expected a text that is not empty"),
        ({"prompt": 7}, "expected a text that is not empty, found 7"),
        ('{"prompt": "\\ud800"}', "not JSON"),
        ('{"prompt": NaN}', "not JSON"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens 0: expected a whole number from 1 to 1,000,000"),
        ({"prompt": "a", "max_tokens": True}, "max_tokens true"),
        ({"prompt": "a", "max_token": 5}, "did you mean `max_tokens`?"),
        ({"prompt": "a", "key": "a b"}, "expected 1 to 128 of A-Z a-z 0-9 . _ -"),
        ({"prompt": "a", "key": 5}, "key 5"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 'role "robot": expected system, user, assistant'),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "the last one must be the user's"),
        ({"messages": [{"role": "user", "content": None}]}, "item 1: content: expected a text"),
    ],
)
def test_a_bad_line_is_named_with_what_is_allowed(
    folder: Path, capfd: pytest.CaptureFixture[str], line: object, said: str
) -> None:
    """Line 2 of in.jsonl, before anything is sent; exit code 2 and no output file."""
    lines({"prompt": "fine"}, line)
    with serving() as server:
        assert run(command(server.chat)) == 2
    complained = capfd.readouterr().err
    assert "in.jsonl:2: " in complained and said in complained
    assert not server.seen and not Path("out.jsonl").exists()


def test_all_bad_lines_are_told_in_one_pass(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Twenty are shown and the others counted; a repeated key names both lines."""
    lines({"prompt": "a", "key": "k"}, {"prompt": "b", "key": "k"}, *(["{"] * 30))
    assert run(command("http://127.0.0.1:9/v1/completions")) == 2
    complained = capfd.readouterr().err
    assert "in.jsonl:2: key 'k' is that of line 1 already" in complained
    assert complained.count("in.jsonl:") == 20 and "… and 11 more" in complained


def test_a_line_above_the_payload_limit_is_refused_with_the_limit(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """6,291,456 bytes are SageMaker's."""
    lines({"prompt": "x" * 6_291_456})
    assert run(command("http://127.0.0.1:9/v1/completions")) == 2
    assert "at most 6,291,456" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--concurrency", "many"], "--concurrency 'many': expected auto or a whole number"),
        (["--concurrency", "0"], "expected auto or a whole number from 1"),
        (["--retry-failed"], "--retry-failed goes with --resume"),
        (["--chain-by", "who"], "--chain-by needs a text or whole number in each line"),
    ],
)
def test_bad_usage_is_refused_before_anything_is_sent(
    folder: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Exit code 2."""
    lines({"prompt": "a"})
    assert run(command("http://127.0.0.1:9/v1/completions", *arguments)) == 2
    assert said in " ".join(capfd.readouterr().err.split())


def test_a_stream_as_input_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is read several times; from a pipe the second reading finds nothing, and nothing would be sent."""
    os.mkfifo("in.jsonl")
    assert run(command("http://127.0.0.1:9/v1/completions")) == 2
    assert "--input in.jsonl: is no file but a stream" in capfd.readouterr().err


def test_lines_that_are_gone_since_the_check_are_no_success(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The input is cut off to one line after it was checked: that one is answered, and exit code 3 says the rest."""
    lines(*prompts(3))
    opened = Journal.__init__

    def cut(journal: Journal, path: Path, *, resume: bool) -> None:
        lines(*prompts(1))
        opened(journal, path, resume=resume)

    monkeypatch.setattr(Journal, "__init__", cut)
    with serving() as server:
        assert run(command(server.completions)) == 3
    assert [row["text"] for row in results()] == ["re: p1"]
    assert "in.jsonl: 2 lines are gone since it was checked" in " ".join(capfd.readouterr().err.split())


def test_messages_need_a_target_that_takes_them(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A completions URL has no place for roles."""
    lines({"messages": [{"role": "user", "content": "x"}]})
    assert run(command("http://127.0.0.1:9/v1/completions")) == 2
    assert "/chat/completions" in capfd.readouterr().err


def test_an_endpoint_that_is_not_there_could_not_be_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 3 and the reason; the output is not left behind to be in the way."""
    lines(*prompts(200))
    assert run(command("http://127.0.0.1:9/v1/completions")) == 3
    assert "no connection to 127.0.0.1:9" in " ".join(capfd.readouterr().err.split())
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("chain", [[], ["--chain-by", "who"]])
def test_what_never_got_through_is_sent_by_a_plain_resume(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, chain: list[str]
) -> None:
    """A run against a closed port stores no failures, and leaves what was stored before; once the port answers
    --resume sends all the rest."""
    monkeypatch.setattr("loadproof.invocation.engine.RetryPolicy", lambda: RetryPolicy(base_s=0.001))
    with serving() as server:
        url = server.chat
        lines({"prompt": "p1", "who": 1})
        assert run(command(url, *chain)) == 0
    lines(*({"prompt": f"p{n}", "who": 1} for n in (1, 2, 3)))
    assert run(command(url, *chain, "--resume", "--format", "json")) == 3
    document = json.loads(capfd.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert (document["failed"], document["not_ended"], document["failures"]["refused"] > 0) == (0, 2, True)
    assert [row["key"] for row in results()] == ["1"]
    with serving(ModelServer(port=server.port)) as server:
        assert run(command(url, *chain, "--resume")) == 0
    assert sorted(server.asked()) == ["p2", "p3"]


def test_another_models_answers_are_not_mixed_in(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--resume with another --model or URL is refused, exit code 2, and both are named; what a URL hides is not."""
    lines(*prompts(1))
    with serving() as server:
        assert run(command(server.completions + "?k=SECRET", "--model", "one")) == 0
        lines(*prompts(2))
        for url, model in ((server.completions, "two"), (server.chat, "one")):
            assert run(command(url, "--model", model, "--resume")) == 2
            said = " ".join(capfd.readouterr().err.split())
            assert f"holds answers of {server.completions} one, and {url} {model} is asked now" in said
        assert run(command(server.completions, "--model", "one", "--resume")) == 0
    assert len(server.seen) == 2 and "SECRET" not in Path("out.jsonl").read_text()


def test_help_names_the_exit_codes() -> None:
    """What a script needs to know."""
    done = subprocess.run(
        [sys.executable, "-m", "loadproof", "run", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert "130 interrupted" in done.stdout
