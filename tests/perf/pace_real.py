"""`loadproof run --concurrency auto` beside fixed numbers on server processes over HTTP; writes into docs/run-pace.md.

    .venv/bin/python tests/perf/pace_real.py [--write]

One is a process of its own that needs 20 ms a token up to 24 in flight and with the square past that; the other is
llama.cpp's own server, of four slots, with a tiny model. All runs of a server follow one another on one machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "bench")]
PAGE = ROOT / "docs" / "run-pace.md"
HEADING = "\n## Server processes over HTTP\n"
KNEE, STEP_S = 24, 0.02
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Slowing:
    """Each step brings every answer under way one token."""

    def __init__(self) -> None:
        self._left: dict[asyncio.StreamWriter, int] = {}

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        while True:
            began_s, n = time.monotonic(), len(self._left)
            for writer in list(self._left):
                self._token(writer)
            await asyncio.sleep(max(0.0, STEP_S * max(1.0, n / KNEE) ** 2 - (time.monotonic() - began_s)))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                writer.write(HEAD)
                self._left[writer] = asked["max_tokens"]
        except (asyncio.IncompleteReadError, ConnectionError):
            self._left.pop(writer, None)
            writer.close()

    def _token(self, writer: asyncio.StreamWriter) -> None:
        self._left[writer] -= 1
        last = not self._left[writer]
        event = {"choices": [{"index": 0, "text": " word", "finish_reason": "length" if last else None}]}
        data = b"data: " + json.dumps(event).encode() + b"\n\n" + (b"data: [DONE]\n\n" if last else b"")
        writer.write(b"%x\r\n%s\r\n" % (len(data), data) + (b"0\r\n\r\n" if last else b""))
        if last:
            del self._left[writer]


@contextmanager
def running(command: list[str]) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(60)


def took_s(url: str, concurrency: str, items: int, tokens: int, folder: Path) -> float:
    """Of the whole list, from the first request to the last answer; start-up left aside."""
    lines, output = folder / "items.jsonl", folder / f"{concurrency}-{time.monotonic_ns()}.jsonl"
    lines.write_text("".join(json.dumps({"prompt": f"number {one}"}) + "\n" for one in range(items)))
    words = ["run", "--target", url, "--protocol", "openai", "--model", "tiny", "--max-tokens", str(tokens)]
    words += ["--input", str(lines), "--output", str(output), "--concurrency", concurrency, "--format", "json"]
    said = subprocess.run(
        [sys.executable, "-c", "from loadproof.cli.main import main; main()", *words],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if said.returncode:
        raise SystemExit(said.stderr)
    totals = json.loads(said.stdout)
    return float(totals["duration_s"])


def rows(name: str, command: list[str], numbers: tuple[int, ...], items: int, tokens: int, folder: Path) -> list[str]:
    with running(command) as url:
        taken = {str(number): took_s(url, str(number), items, tokens, folder) for number in numbers}
        best_s = min(taken.values())
        taken["auto"] = took_s(url, "auto", items, tokens, folder)
    return [f"| {name} | {number} | {one_s:.1f} s | {best_s / one_s:.1%} |" for number, one_s in taken.items()]


def main() -> None:
    if "--serve" in sys.argv:
        asyncio.run(Slowing().serve())
        return
    from tiny_llama import write_tiny_llama

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        slowing = [sys.executable, __file__, "--serve"]
        found = rows("slows with the square past 24", slowing, (12, 24, 48), 1000, 64, folder)
        write_tiny_llama(folder / "tiny.gguf")
        llama = [sys.executable, str(ROOT / "tests" / "bench" / "llama_cpp_server.py"), str(folder / "tiny.gguf"), "4"]
        found += rows("llama.cpp, four slots", llama, (1, 4, 16), 150, 200, folder)
    text = HEADING + TEXT.format(rows="\n".join(found), cores=os.cpu_count(), load=os.getloadavg()[1])
    print(text)
    if "--write" in sys.argv:
        PAGE.write_text(PAGE.read_text(encoding="utf-8").split(HEADING)[0] + text, encoding="utf-8")


TEXT = """
Written by `tests/perf/pace_real.py`: whole lists, `auto` and fixed numbers one after another on a machine of {cores}
cores with a load average of {load:.1f}, which slows both sides. 1,000 answers of 64 tokens from a process that slows
with the square, 150 of 200 from llama.cpp's server with a tiny model.

| server | in flight | took | of the best fixed |
| --- | --- | --- | --- |
{rows}
"""


if __name__ == "__main__":
    main()
