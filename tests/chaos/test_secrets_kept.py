"""Planted secrets, looked for in every byte that a verb writes or prints: those of the environment, and what a server
that echoes its request, headers and all, says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAPLANTED0KEY0ID00",
    "AWS_SECRET_ACCESS_KEY": "plantedSecret/Access+Key0000000000000000",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luPlantedSessionToken0123456789abcdef",
    "AWS_BEARER_TOKEN_BEDROCK": "ABSKplantedBedrockToken0123456789abcdef",
    "HF_TOKEN": "hf_plantedHubTokenabcdefghijklmnopqrst",
}
ANSWERED = "eyJplanted0cookie0of0the0server0123456789"


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that refuses every request with all that was sent to it, and sets a cookie."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            said = " ".join(f"{name}: {value}" for name, value in reversed(self.headers.items()))
            answer = json.dumps({"message": f"refused: {said}; Authorization: Bearer {ANSWERED}"}).encode()
            self.send_response(400)
            self.send_header("set-cookie", f"session={ANSWERED}")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


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
    done = subprocess.run(
        [sys.executable, "-m", "loadproof", verb, "--target", target, "--endpoint-url", echo, *protocol, *more],
        cwd=tmp_path,
        env={**os.environ, **planted, "AWS_DEFAULT_REGION": "us-east-1", "HOME": str(tmp_path)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    written = {str(file.relative_to(tmp_path)): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    written |= {"stdout": done.stdout, "stderr": done.stderr}
    assert done.returncode in (0, 1, 3, 4) and b"refused" in b"".join(written.values()), done.stderr[-800:]
    for name, secret in {**SECRETS, "answered": ANSWERED}.items():
        assert [file for file, text in written.items() if secret.encode() in text] == [], name
