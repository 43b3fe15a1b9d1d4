"""`bench` and `run` killed at random points and starved, against a server whose own log is the truth.

    .venv/bin/python tests/chaos/accidents.py [--kills 100] [--seed 0]

Every killed run is looked at as it lies there (whole lines, none that the server does not know), resumed, verified, and
its requests counted: each exactly once, with nothing lost but what was in flight. Prints a table of what came of each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from aiohttp import web

SECRET = "planted-5f1d2a77"  # in every header and variable that could end in a file
LEVELS = (2, 4)
REQUESTS = 24  # of each level
TOKENS = 8
ITEMS, IN_FLIGHT = 100, 4  # of `run`
_LOADPROOF = str(Path(sys.executable).with_name("loadproof"))


@dataclass(slots=True)
class Model:
    """Streams eight tokens a request; `answered` is its log of whole answers."""

    port: int = 0
    asked: int = 0
    answered: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        try:
            return await self._streamed(request)
        except ConnectionError:  # its client was killed
            return web.Response()

    async def _streamed(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "x-secret": SECRET})
        await response.prepare(request)
        for at in range(TOKENS):
            await asyncio.sleep(0.01)
            choice = {"index": 0, "text": " a", "finish_reason": "length" if at == TOKENS - 1 else None}
            await response.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        usage = {"prompt_tokens": 16, "completion_tokens": TOKENS, "total_tokens": 16 + TOKENS}
        await response.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        self.answered += 1
        return response

    async def _serve(self, ready: threading.Event) -> None:
        application = web.Application()
        application.router.add_post("/v1/completions", self._complete)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert runner.addresses
        self.port = runner.addresses[0][1]
        ready.set()

    @contextmanager
    def serving(self) -> Iterator[Model]:
        ready = threading.Event()
        self._loop.create_task(self._serve(ready))
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        assert ready.wait(10)
        yield self
        self._loop.call_soon_threadsafe(self._loop.stop)


@dataclass(frozen=True, slots=True)
class Ended:
    """A command, its exit code and all that it said."""

    code: int
    said: str


def command(model: Model, folder: Path, *more: str) -> list[str]:
    return [
        *(_LOADPROOF, "bench", "--target", f"http://127.0.0.1:{model.port}", "--protocol", "openai", "--model", "m"),
        *("--concurrency", ",".join(map(str, LEVELS)), "--requests-per-level", str(REQUESTS), "--warmup", "0"),
        *("--input-tokens", "16", "--output-tokens", str(TOKENS), "--objective", "error_rate_max=0.5", "--quiet"),
        *("--out", str(folder), *more),
    ]


def variables() -> dict[str, str]:
    """A machine's, with something in each that nobody must find again."""
    return {
        **os.environ,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SECRET,
        "HF_TOKEN": SECRET,
        "OPENAI_API_KEY": SECRET,
    }


def ended(arguments: list[str], limits: Callable[[], None] | None = None) -> Ended:
    """Raises subprocess.TimeoutExpired for a command that hangs."""
    done = subprocess.run(
        arguments, env=variables(), capture_output=True, text=True, timeout=120, preexec_fn=limits, check=False
    )
    return Ended(done.returncode, done.stdout + done.stderr)


def killed(arguments: list[str], after_s: float) -> bool:
    """Whether it was still running; it and its children are gone afterwards."""
    process = subprocess.Popen(
        arguments, env=variables(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def problems_of_killed(folder: Path, model: Model) -> Iterator[str]:
    """What is wrong with a killed run as it lies there."""
    file = folder / "requests.jsonl"
    lines = file.read_bytes().split(b"\n") if file.exists() else [b""]
    whole = 0
    for line in lines[:-1]:  # what follows the last line end was being written
        try:
            json.loads(line)
            whole += 1
        except ValueError:
            yield f"a line in the middle is no JSON: {line[:60]!r}"
    if whole > model.asked:
        yield f"{whole} requests recorded, {model.asked} asked"


def problems_of_resumed(folder: Path, done: Ended) -> Iterator[str]:
    """What is wrong with a run that was killed and gone on with."""
    if "Traceback" in done.said:
        yield f"a traceback: {done.said.strip().splitlines()[-1][:120]}"
    if done.code != 0:
        yield f"ended with {done.code}: {done.said.strip().splitlines()[-1][:160] if done.said.strip() else ''}"
        return
    levels = Counter(json.loads(line)["level"] for line in (folder / "requests.jsonl").read_bytes().splitlines())
    if sorted(levels.values()) != [REQUESTS] * len(LEVELS):
        yield f"requests by level: {dict(levels)}"
    verified = ended([_LOADPROOF, "verify", str(folder)])
    if verified.code:
        yield f"verify: {verified.said.strip().splitlines()[-1][:160]}"


def told(folder: Path) -> Iterator[str]:
    """Files in which something planted is found again."""
    for file in folder.rglob("*"):
        if file.is_file() and SECRET.encode() in file.read_bytes():
            yield f"{file.name} holds a planted secret"


def kills(count: int, seed: int, root: Path) -> Counter[str]:
    """Run, kill, look, resume, verify; what came of each."""
    came, chance = Counter[str](), Random(seed)
    with Model().serving() as model:
        for at in range(count):
            folder = root / f"run{at}"
            model.asked = model.answered = 0
            died = killed(command(model, folder), chance.uniform(0.2, 3.0))
            found = list(problems_of_killed(folder, model))
            begun = (folder / "plan.json").exists()
            again = [_LOADPROOF, "bench", "--resume", str(folder), "--quiet"] if begun else command(model, folder)
            done = ended(again) if died else ended([_LOADPROOF, "report", str(folder)])
            found += [*problems_of_resumed(folder, done), *told(folder)]
            kind = "ended before the kill" if not died else "killed before it began" if not begun else "killed, resumed"
            came[f"{kind}: {'; '.join(found) or 'whole, verified'}"] += 1
    return came


def run_kills(count: int, seed: int, root: Path) -> Counter[str]:
    """`run` over a file of items, killed and gone on with: each answered once, and asked twice only if in flight."""
    came, chance = Counter[str](), Random(seed)
    items = root / "items.jsonl"
    items.write_text("".join(json.dumps({"key": f"k{at}", "prompt": "a"}) + "\n" for at in range(ITEMS)))
    with Model().serving() as model:
        for at in range(count):
            output = root / f"results{at}.jsonl"
            model.asked = model.answered = 0
            arguments = [
                *(_LOADPROOF, "run", "--target", f"http://127.0.0.1:{model.port}", "--protocol", "openai"),
                *("--model", "m", "--input", str(items), "--output", str(output)),
                *("--concurrency", str(IN_FLIGHT), "--max-tokens", str(TOKENS)),
            ]
            died = killed(arguments, chance.uniform(0.3, 4.0))
            before = len(output.read_bytes().splitlines()) if output.exists() else 0
            done = (
                ended([*arguments, "--resume"])
                if died and output.exists()
                else ended(arguments)
                if died
                else Ended(0, "")
            )
            found = ["a traceback"] if "Traceback" in done.said else []
            found += [f"ended with {done.code}: {done.said.strip()[-160:]}"] if done.code else []
            keys = Counter(json.loads(line)["key"] for line in output.read_bytes().splitlines())
            found += [f"{len(keys)} of {ITEMS} items"] if len(keys) != ITEMS else []
            found += ["an item twice"] if keys and max(keys.values()) > 1 else []
            # What was in flight, and one line that was being written.
            found += [f"asked {model.asked} times"] if model.asked > ITEMS + IN_FLIGHT + 1 else []
            kind = "ended before the kill" if not died else "killed, resumed" if before else "killed before a result"
            came[f"{kind}: {'; '.join(found) or 'each answered once'}"] += 1
    return came


def little(root: Path) -> Iterator[tuple[str, Ended, list[str]]]:
    """What little there may be of something, and how it ended."""
    cases: dict[str, tuple[int, int]] = {
        "20 file descriptors": (resource.RLIMIT_NOFILE, 20),
        "files of 4 kB (a full disk)": (resource.RLIMIT_FSIZE, 4096),
        "files of 20 kB (a full disk)": (resource.RLIMIT_FSIZE, 20_000),
        "300 MB of data": (resource.RLIMIT_DATA, 300 << 20),
    }
    with Model().serving() as model:
        for name, (limit, most) in cases.items():
            folder = root / f"little{len(name)}{most}"

            def bound(limit: int = limit, most: int = most) -> None:
                resource.setrlimit(limit, (most, most))
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as Python itself does

            done = ended(command(model, folder), bound)
            found = ["a traceback"] if "Traceback" in done.said else []
            yield name, done, found + list(told(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bad = 0
        for words, done, found in little(Path(name)):
            last = done.said.strip().splitlines()[-1] if done.said.strip() else ""
            print(f"{words:32} exit {done.code:3}  {'; '.join(found) or last[:110]}", flush=True)
            bad += bool(found)
        began_s = time.monotonic()
        for verb, came in (("bench", kills), ("run", run_kills)):
            for words, count in came(arguments.kills, arguments.seed, Path(name)).most_common():
                print(f"{verb:6} {count:4}  {words}", flush=True)
                bad += not words.endswith((": whole, verified", ": each answered once"))
        print(f"{time.monotonic() - began_s:,.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
