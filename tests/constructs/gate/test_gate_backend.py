"""A deployment in front of a real model server: its adapters are loaded by it, and pass the proof, or do not."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from stacks_cloud import Cloud
from stacks_support import profile

from loadproof.localcloud.local import running

ADAPTED: dict[str, Any] = {
    "container": {"family": "vllm", "version": "0.30.0", "settings": {"max_total_tokens": None, "enable_lora": True}},
    "adapters": [{"name": "legal", "s3_uri": "s3://weights/legal.tar.gz"}],
}
STACK = "loadproof-test-chat"


class Server(BaseHTTPRequestHandler):
    """Answers with the name of the adapter that a request names; a deaf one answers as the base does."""

    deaf = False

    def do_GET(self) -> None:
        self._answer({})

    def do_DELETE(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        named = None if self.deaf else self.headers.get("X-Amzn-SageMaker-Adapter-Identifier")
        self._answer({"choices": [{"text": f"answer of {named}"}]})

    def _answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


class Deaf(Server):
    deaf = True


@pytest.fixture
def cloud(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Cloud]:
    monkeypatch.setenv("LOADPROOF_STATE_DIR", str(tmp_path_factory.mktemp("state")))
    server = ThreadingHTTPServer(("127.0.0.1", 0), request.param)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    with running("adapted", transition_s=0.05, speed=30, backend=url) as local:
        made = Cloud(local)
        made.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="27", Type="String")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.addfile(tarfile.TarInfo("adapter_config.json"))
        made.client("s3").create_bucket(Bucket="weights")
        made.client("s3").put_object(Bucket="weights", Key="legal.tar.gz", Body=packed.getvalue())
        yield made
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("cloud", "status"), [(Server, "CREATE_COMPLETE"), (Deaf, "ROLLBACK_COMPLETE")], indirect=["cloud"]
)
def test_an_adapter_of_a_real_server_passes_the_proof_where_it_takes_part(
    cloud: Cloud, tmp_path: Path, status: str
) -> None:
    """The server is told of it; one that answers for it as its base does fails the deployment."""
    assert cloud.apply(STACK, cloud.template(profile(tmp_path, ADAPTED))) == status, cloud.reasons(STACK)
    reasons = [reason for reason in cloud.reasons(STACK) if reason.startswith("Proof")]
    assert bool(reasons) == (status != "CREATE_COMPLETE")
    assert all("the adapter takes no part in it" in reason for reason in reasons)
