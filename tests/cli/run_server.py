"""An OpenAI-compatible model server for the tests of `loadproof run`: it answers `re: <prompt>`, or fails as told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Says = Callable[[str, int], int]  # (prompt, how often it was asked before) -> HTTP status


@dataclass
class ModelServer:
    """`seen` holds the bodies of all requests; `takes_s` is how long an answer takes, `thinks` its reasoning."""

    says: Says = lambda prompt, before: 200
    takes_s: float = 0.0
    thinks: str = ""
    port: int = 0
    seen: list[dict[str, Any]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def completions(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/completions"

    @property
    def chat(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"

    def asked(self) -> list[str]:
        """The prompts, chats by their newest turn."""
        return [prompt_of(body) for body in self.seen]


def prompt_of(body: dict[str, Any]) -> str:
    return str(body["prompt"] if "prompt" in body else body["messages"][-1]["content"])


@contextmanager
def serving(server: ModelServer | None = None) -> Iterator[ModelServer]:
    server = server or ModelServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            prompt = prompt_of(body)
            with server.lock:
                before = server.asked().count(prompt)
                server.seen.append(body)
                server.in_flight += 1
                server.most_in_flight = max(server.most_in_flight, server.in_flight)
            time.sleep(server.takes_s)
            status = server.says(prompt, before)
            chat = "messages" in body
            answer = (
                _stream(f"re: {prompt}", chat, server.thinks)
                if status == 200
                else json.dumps({"error": {"message": "no"}}).encode()
            )
            with server.lock:
                server.in_flight -= 1
            with suppress(ConnectionError):  # whoever asked was killed
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", server.port), Handler)
    listener.daemon_threads = True
    listener.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that was killed
    server.port = listener.server_address[1]
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


def _stream(text: str, chat: bool, thinks: str) -> bytes:
    piece = {"delta": {"content": text}} if chat else {"text": text}
    thought = [{"choices": [{"index": 0, "delta": {"reasoning_content": thinks}}]}] if thinks else []
    events = [
        *thought,
        {"choices": [{"index": 0, **piece, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "text": "", "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3}},
    ]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
