"""Planted secrets, looked for in every byte that a verb writes or prints: those of the environment, and what a server
that echoes its request, headers and all, says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from http_servers import Quiet, serving_http

from loadproof.cli.main import run
from loadproof.cli.queue.send import Rows, Tally, open_output, send_all
from loadproof.invocation.buffer import Message, Producer
from loadproof.invocation.buffer.places import Places

ROOT = Path(__file__).parents[2]

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAPLANTED0KEY0ID00",
    "AWS_SECRET_ACCESS_KEY": "plantedSecret/Access+Key0000000000000000",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luPlantedSessionToken0123456789abcdef",
    "AWS_BEARER_TOKEN_BEDROCK": "ABSKplantedBedrockToken0123456789abcdef",
    "HF_TOKEN": "hf_plantedHubTokenabcdefghijklmnopqrst",
}
KILLED = """
import os, signal
from loadproof.bench.learn import reading
reading.KEPT_EVERY = reading.TOLD_EVERY = 100
reading._tell = lambda tell, found, *rest: os.kill(os.getpid(), signal.SIGKILL) if found.read > 200 else None
"""
ANSWERED = "eyJplanted0cookie0of0the0server0123456789"
IN_PATH, IN_QUERY = "Zk3vT9qLm2Xw8RbN4pYc", "planted-word-of-the-query"
SENDING = {
    "bench": ["--concurrency", "1", "--requests-per-level", "2", "--output-tokens", "2", "--warmup", "0", "--out", "r"],
    "run": ["--input", "in.jsonl", "--output", "out.jsonl", "--patience-s", "0"],
}


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that refuses every request with all that was sent to it, and sets a cookie."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            said = " ".join(f"{name}: {value}" for name, value in reversed(self.headers.items()))
            answer = json.dumps({"message": f"refused: {said}; Authorization: Bearer {ANSWERED}"}).encode()
            self.send_response(400)
            self.send_header("set-cookie", f"session={ANSWERED}")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    with serving_http(Handler) as url:
        yield url


@pytest.fixture(params=["quotes", "redirects", "answers"])
def quoting(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that refuses every second request with its path, redirects it, or answers it."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        asked = 0

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            Handler.asked += 1
            status = 200 if Handler.asked % 2 else {"quotes": 400, "redirects": 302, "answers": 200}[request.param]
            said: object = {"error": {"message": f"refused: {self.path}", "type": self.path}}
            if status == 200:
                said = {"choices": [{"index": 0, "text": " a", "finish_reason": "length"}]}
            body = f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n" if status == 200 else json.dumps(said)
            self.send_response(status)
            self.send_header("location", f"http://other.example{self.path}")
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

    with serving_http(Handler) as url:
        yield url


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("run", []),
        ("bench", ["--live", "live.jsonl", "--junit", "j.xml", "--markdown", "m.md", "--csv", "c.csv"]),
        ("bench", ["--workers", "2", "--live", "-"]),
    ],
)
def test_no_file_and_no_line_holds_what_may_be_secret_of_an_address(
    tmp_path: Path, quoting: str, verb: str, more: list[str]
) -> None:
    """Neither the token in its path nor its query, though the server quotes both and redirects to both."""
    (tmp_path / "in.jsonl").write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
    target = f"{quoting}/{IN_PATH}/v1/completions?k={IN_QUERY}"
    command = [verb, "--target", target, "--protocol", "openai", *SENDING[verb], *more]
    written = _written(tmp_path, {}, command)
    assert any("…" in text.decode() for text in written.values())
    for secret in (IN_PATH, IN_QUERY):
        assert [file for file, text in written.items() if secret.encode() in text] == [], secret


@pytest.mark.parametrize("verb", SENDING)
def test_a_credential_in_the_query_is_refused_unseen(tmp_path: Path, echo: str, verb: str) -> None:
    """By both verbs alike, with what mends it."""
    (tmp_path / "in.jsonl").write_text('{"prompt": "one"}\n')
    command = [verb, "--target", f"{echo}/v1/completions?x={SECRETS['HF_TOKEN']}", "--protocol", "openai"]
    written = _written(tmp_path, {}, [*command, *SENDING[verb]], codes=(2,))
    assert b"a proxy on this machine" in b" ".join(written["stderr"].split())
    assert [file for file, text in written.items() if SECRETS["HF_TOKEN"].encode() in text] == []


def test_a_run_whose_address_was_left_out_goes_on_with_its_target(tmp_path: Path, echo: str) -> None:
    """Its plan cannot say whole where it goes: --resume alone says so."""
    command = ["bench", "--target", f"{echo}/{IN_PATH}/v1/completions", "--protocol", "openai", *SENDING["bench"]]
    _written(tmp_path, {}, command)
    records = tmp_path / "r" / "requests.jsonl"
    records.write_bytes(b"".join(records.read_bytes().splitlines(keepends=True)[:1]))
    alone = _written(tmp_path, {}, ["bench", "--resume", "r"], codes=(2,))
    assert b"give the whole command again" in b" ".join(alone["stderr"].split())
    _written(tmp_path, {}, [*command[:-2], "--resume", "r"], codes=(1, 3))
    assert len(records.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("target", ["sagemaker://demo", "bedrock://amazon.nova-lite-v1:0"])
@pytest.mark.parametrize("verb", ["bench", "run"])
def test_no_file_and_no_line_holds_a_credential(tmp_path: Path, echo: str, verb: str, target: str) -> None:
    """Neither key, secret, session token nor bearer token, though the server's error quotes every header."""
    (tmp_path / "in.jsonl").write_text('{"prompt": "one"}\n')
    more = {
        "bench": ["--concurrency", "1", "--requests-per-level", "2", "--output-tokens", "2", "--out", "r"],
        "run": ["--input", "in.jsonl", "--output", "out.jsonl"],
    }[verb]
    protocol = ["--protocol", "tgi"] if target.startswith("sagemaker") else []
    planted = {name: value for name, value in SECRETS.items() if "sagemaker" not in target or "BEDROCK" not in name}
    written = _written(tmp_path, planted, [verb, "--target", target, "--endpoint-url", echo, *protocol, *more])
    assert b"refused" in b"".join(written.values()), written["stderr"][-800:]
    for name, secret in {**SECRETS, "answered": ANSWERED}.items():
        assert [file for file, text in written.items() if secret.encode() in text] == [], name


@pytest.fixture
def in_process(tmp_path: Path, echo: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and the secrets in this process's environment: starting another takes longer."""
    monkeypatch.chdir(tmp_path)
    for name, value in {**SECRETS, "AWS_ENDPOINT_URL": echo, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_no_row_of_a_queue_holds_a_credential(in_process: Path, echo: str) -> None:
    """The queue refuses each message, quoting every header, and the row says why it was not sent."""
    places = Places(f"{echo}/123456789012/requests", "results", "1")
    with open_output(Path("rows.jsonl")) as file:
        send_all(Producer.at(places, "us-east-1", echo), [Message({"inputs": "one"})], Rows(file), Tally(), waits=False)
    row = Path("rows.jsonl").read_text()
    assert "refused" in row
    assert [name for name, secret in {**SECRETS, "answered": ANSWERED}.items() if secret in row] == []


def test_an_answer_that_is_none_of_awss_is_not_quoted(in_process: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """botocore raises what it cannot parse with the whole body, as no error of its own kind: it came as a traceback."""
    shutil.copy(ROOT / "tests/profiles/bad/LP013/environment.yaml", "environment.yaml")
    chat = (ROOT / "tests/profiles/bad/LP013/assistant.yaml").read_text()
    Path("chat.yaml").write_text(f"{chat}buffer: {{}}\n")
    assert run(["queue", "send", "chat.yaml", "one"]) == 3
    said = capsys.readouterr().err
    assert "the answer is none of AWS's" in " ".join(said.split())
    assert [name for name, secret in {**SECRETS, "answered": ANSWERED}.items() if secret in said] == []


def test_a_refused_reading_holds_no_credential(tmp_path: Path, echo: str) -> None:
    """`learn` from a bucket whose server refuses, quoting every header."""
    written = _written(tmp_path, {**SECRETS, "AWS_ENDPOINT_URL": echo}, ["learn", "s3://captures/chat/"])
    assert b"captures" in written["stderr"]
    for name, secret in {**SECRETS, "answered": ANSWERED}.items():
        assert [file for file, text in written.items() if secret.encode() in text] == [], name


@pytest.mark.parametrize(
    "arguments",
    [["learn", "s3://captures/chat/"], ["evidence", "list", "s3://captures/chat/"], ["learn", "{at}/x.json"]],
)
def test_no_error_quotes_the_password_of_an_address(tmp_path: Path, arguments: list[str]) -> None:
    """As libraries do that cannot reach one, and as a path that is one would be."""
    at = "http://me:planted0password@127.0.0.1:1"
    written = _written(
        tmp_path, {**SECRETS, "AWS_ENDPOINT_URL_S3": at}, [one.format(at=at) for one in arguments], codes=(2, 3)
    )
    assert b"***@127.0.0.1:1" in written["stderr"]
    assert [file for file, text in written.items() if b"planted0password" in text] == []


def test_a_reading_that_was_killed_holds_no_word_of_a_capture(tmp_path: Path) -> None:
    """Neither what it wrote down to go on from nor what it says in the end: prompts and answers hold secrets, too."""
    (tmp_path / "in").mkdir()
    prompt = json.dumps({"messages": [{"role": "user", "content": f"my token is {SECRETS['HF_TOKEN']}"}]})
    answer = json.dumps({"choices": [{"message": {"content": f"then sign with {ANSWERED}"}}]})
    sides = {"endpointInput": prompt, "endpointOutput": answer}
    line = {
        "captureData": {side: {"data": data, "encoding": "JSON"} for side, data in sides.items()},
        "eventMetadata": {"inferenceTime": "2026-01-05T08:00:00Z"},
    }
    later = {**line, "eventMetadata": {"inferenceTime": "2026-01-05T08:00:10Z"}}
    (tmp_path / "in" / "a.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(later)}\n" * 200)
    command = ["learn", "in", "--resume", "state", "--format", "json", "--out", "w.diff"]
    first = _written(tmp_path, {}, command, before=KILLED, codes=(-9,))
    assert "state/state.json" in first
    for written in (first, _written(tmp_path, {}, command)):
        for secret in (SECRETS["HF_TOKEN"], ANSWERED, "my token"):
            assert [file for file, text in written.items() if secret.encode() in text] == ["in/a.jsonl"], secret


def _written(
    folder: Path,
    planted: dict[str, str],
    arguments: list[str],
    *,
    before: str = "",
    codes: Sequence[int] = (0, 1, 3, 4),
) -> dict[str, bytes]:
    """Every file below the folder, and what was printed, by name, after a command of Loadproof's."""
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\nfrom loadproof.cli.main import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, **planted, "AWS_DEFAULT_REGION": "us-east-1", "HOME": str(folder)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in codes, done.stderr[-800:]
    written = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return written | {"stdout": done.stdout, "stderr": done.stderr}
