"""What comes of `run`, `bench`, `queue send` and `learn` in an accident, and its table in docs/accidents.md.

    make accidents, or python tests/chaos/accidents.py [--kills 100] [--seed 0] [--verbs run,bench,queue,learn]

Each kill starts the verb anew in an empty folder and sends SIGKILL after a random time; then what lies on the disk is
held against what the server saw (for `learn`: against a reading that nobody disturbed), the verb is given again, with
--resume where it has that, and must end whole. The page gets the cells of what was played; the others stay.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("cli", "bench", ".")]

from bench_recorded import many
from buffer_cloud import buffer_cloud
from run_server import ModelServer, serving

ITEMS, IN_FLIGHT, LEVELS, REQUESTS = 60, 4, (1, 4), 20
ANSWER_S, SENT_AT_ONCE = 0.02, 10
CAPTURES, CAPTURED, KEPT_EVERY = 4, 2_500, 250  # files, requests in each, and how often a reading is written down
CODES = {0, 1, 2, 3, 4, 130}  # those of docs/design: none of them is a crash
MAIN = "from loadproof.cli.main import main; main()"
JUMPING = """
import random, time
real, real_ns, jump = time.time, time.time_ns, random.Random(1)
time.time = lambda: real() + jump.choice((-86400, -3600, 0, 3600, 86400))
time.time_ns = lambda: real_ns() + int(1e9) * jump.choice((-86400, -3600, 0, 3600, 86400))
"""
KEPT_OFTEN = f"""
import os
from loadproof.bench.learn import reading
reading.KEPT_EVERY = {KEPT_EVERY}
os.dup2(os.open("said.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
"""
KILLED = "killed at a random time"
PAGE = Path(__file__).parents[2] / "docs" / "accidents.md"
LIMITS: dict[str, Callable[[], None]] = {
    "full disk (files of 1,500 bytes)": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)),
    "20 file descriptors": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)),
    "300 MB of data": lambda: resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 300 << 20)),
    "clocks that jump": lambda: None,
}


class LostError(AssertionError):
    """What is on disk and what the server saw do not go together, or a verb ended in a traceback."""


@dataclass(frozen=True, slots=True)
class Verb:
    """How one verb is given in `folder`, how it goes on, and what is to be true after a kill and at the end."""

    begin: list[str]
    again: Callable[[Path], list[str]]
    after_kill: Callable[[Path], str]  # what lies there, in a word
    at_end: Callable[[Path], None]
    before: str = ""  # Python that runs ahead of the command


@contextmanager
def run_verb(folder: Path) -> Iterator[Verb]:
    """`loadproof run`: every line of the output an answer that the server gave, each prompt once at the end."""
    (folder / "in.jsonl").write_text("".join(json.dumps({"prompt": f"p{n}"}) + "\n" for n in range(ITEMS)))
    with serving(ModelServer(takes_s=ANSWER_S)) as server:
        options = ["--protocol", "openai", "--concurrency", str(IN_FLIGHT)]
        files = ["--input", "in.jsonl", "--output", "out.jsonl"]
        begin = ["run", "--target", server.completions, *options, *files]

        def after_kill(folder: Path) -> str:
            rows = lines_of(folder / "out.jsonl")
            unseen = {row["text"] for row in rows} - {f"re: {prompt}" for prompt in server.asked()}
            expect(not unseen, f"stored, but never answered: {unseen}")
            lost = len(server.seen) - len(rows)
            expect(lost <= 2 * IN_FLIGHT, f"{lost} requests were sent and are not stored")
            return kind(len(rows), ITEMS, (folder / "out.jsonl").exists())

        def at_end(folder: Path) -> None:
            keys = [row["key"] for row in lines_of(folder / "out.jsonl")]
            expect(sorted(map(int, keys)) == list(range(1, ITEMS + 1)), f"{len(keys)} rows of {ITEMS}")
            expect(len(server.seen) <= ITEMS + 2 * IN_FLIGHT, f"{len(server.seen)} requests for {ITEMS} prompts")

        def again(folder: Path) -> list[str]:
            return [*begin, *(["--resume"] if (folder / "out.jsonl").exists() else [])]

        yield Verb(begin, again, after_kill, at_end)


@contextmanager
def bench_verb(folder: Path) -> Iterator[Verb]:
    """`loadproof bench`: no record that the server did not see, no summary of a part; whole levels at the end."""
    run = folder / "r"
    with serving(ModelServer(takes_s=ANSWER_S)) as server:
        shape = ["--input-tokens", "8", "--output-tokens", "3", "--answer-length", "at_most", "--warmup", "1"]
        load = ["--concurrency", ",".join(map(str, LEVELS)), "--requests-per-level", str(REQUESTS)]
        begin = ["bench", "--target", server.completions, "--protocol", "openai", *shape, *load, "--out", "r"]

        def after_kill(folder: Path) -> str:
            rows = lines_of(run / "requests.jsonl")
            expect(len(rows) <= len(server.seen), f"{len(rows)} records of {len(server.seen)} requests")
            lost = len(server.seen) - len(rows)
            expect(lost <= 2 * max(LEVELS) + 2, f"{lost} requests were sent and are not recorded")
            whole = (run / "summary.json").exists()
            if whole:
                levels = json.loads((run / "summary.json").read_text())["levels"]
                expect([level["requests"] for level in levels] == [REQUESTS] * len(LEVELS), "a summary of a part")
            return "whole" if whole else kind(len(rows), ITEMS, (run / "plan.json").exists())

        def at_end(folder: Path) -> None:
            levels = json.loads((run / "summary.json").read_text())["levels"]
            expect([level["requests"] for level in levels] == [REQUESTS] * len(LEVELS), f"levels at the end: {levels}")
            code, said = ended(started(folder, ["verify", "r"]))
            expect(code == 0, f"not verified: {said}")

        def again(folder: Path) -> list[str]:
            return ["bench", "--resume", "r"] if (run / "plan.json").exists() else begin

        yield Verb(begin, again, after_kill, at_end)


@contextmanager
def queue_verb(folder: Path) -> Iterator[Verb]:
    """`loadproof queue send`: no row of a message that is not in the queue; given again, every message is in it."""
    (folder / "in.jsonl").write_text(
        "".join(json.dumps({"prompt": f"p{n}", "key": f"k{n}"}) + "\n" for n in range(ITEMS))
    )
    queued = set[str]()
    with buffer_cloud(folder) as cloud:
        send = ["queue", "send", cloud.profile, "--input", "in.jsonl", "--output"]

        def after_kill(folder: Path) -> str:
            queued.update(json.loads(message["Body"])["key"] for message in cloud.received())
            rows = lines_of(folder / "out.jsonl")
            unsent = {row["key"] for row in rows if row["error"] is None} - queued
            expect(not unsent, f"said to be queued, and are not: {unsent}")
            expect(len(queued) - len(rows) <= SENT_AT_ONCE, f"{len(queued)} queued, {len(rows)} rows")
            return kind(len(rows), ITEMS, bool(queued) or (folder / "out.jsonl").exists())

        def at_end(folder: Path) -> None:
            queued.update(json.loads(message["Body"])["key"] for message in cloud.received())
            expect(len(queued) == ITEMS, f"{len(queued)} of {ITEMS} messages are in the queue")

        yield Verb([*send, "out.jsonl"], lambda _: [*send, "again.jsonl"], after_kill, at_end)


@contextmanager
def learn_verb(folder: Path) -> Iterator[Verb]:
    """`loadproof learn`: what it wrote down is what the captures hold; at the end it says what one undisturbed says."""
    (folder / "in").mkdir()
    many(folder / "in", CAPTURES, CAPTURED)
    state, said = folder / "state", folder / "said.json"
    begin = ["learn", "in", "--resume", "state", "--format", "json"]

    def after_kill(folder: Path) -> str:
        if not (state / "state.json").exists():
            whole = said.exists() and said.read_text() == undisturbed()
            return "whole" if whole else kind(0, CAPTURED, state.exists())
        written = json.loads((state / "state.json").read_text())
        read, at = written["read"], f"{written['file']}.{written['line']}"
        expect(read % KEPT_EVERY == 0 < read, f"{read} requests are written down")
        expect(read == written["file"] * CAPTURED + written["line"], f"{read} requests at {at}")
        for name, numbers in captured().items():
            expect((state / f"{name}.{at}").read_bytes() == numbers[:read].tobytes(), f"{name} of {at} is another")
        return "partial"

    def at_end(folder: Path) -> None:
        expect(said.read_text() == undisturbed(), "it says another thing than a reading that nobody disturbed")
        expect(not state.exists(), "all is read, and what it had written down is still there")

    yield Verb(begin, lambda _: begin, after_kill, at_end, KEPT_OFTEN)


@cache
def undisturbed() -> str:
    """What `learn` says of the captures when nobody disturbs it and nothing is written down."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "in").mkdir()
        many(folder / "in", CAPTURES, CAPTURED)
        code, errors = ended(started(folder, ["learn", "in", "--format", "json"], KEPT_OFTEN))
        expect(code == 0, errors)
        return (folder / "said.json").read_text()


@cache
def captured() -> dict[str, array[Any]]:
    """The numbers that the captures hold, in their order: by how they were made, not by how they are read."""
    places = [(file, line) for file in range(CAPTURES) for line in range(CAPTURED)]
    return {
        "at_s": array("d", [1_767_600_000 + line % 60 for _, line in places]),
        "input_tokens": array("q", [30 + (7 * line + file) % 50 for file, line in places]),
        "output_tokens": array("q", [5] * len(places)),
    }


LONGEST_S = {"run": 2.5, "bench": 4.0, "queue": 6.0, "learn": 1.8}  # on a busy machine most of it is Python starting
BY_CPU = ("learn",)  # it waits for nothing: so many seconds of the processor's, whatever else the machine does
VERBS = {"run": run_verb, "bench": bench_verb, "queue": queue_verb, "learn": learn_verb}


def expect(true: bool, said: str) -> None:
    if not true:
        raise LostError(said)


def kind(rows: int, whole: int, begun: bool) -> str:
    return "nothing yet" if not begun else "begun" if not rows else "partial" if rows < whole else "whole"


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Whole lines; a last one that was cut by the kill is no line."""
    text = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith(b"\n")]


def started(folder: Path, arguments: list[str], before: str = "", limit: Callable[[], object] | None = None) -> Any:
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, "-c", f"{before}\n{MAIN}", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )


def ended(process: Any) -> tuple[int, str]:
    """Exit code and what was said. Raises LostError for a traceback, a code that is none of ours, or two minutes."""
    try:
        said, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise LostError("still at work after two minutes") from None
    expect("Traceback" not in errors, errors[-1500:])
    expect(process.returncode in CODES, f"exit code {process.returncode}: {errors[-500:]}")
    return process.returncode, errors if process.returncode in (1, 2) or "INVALID" not in said else "INVALID"


def _kill(folder: Path, verb: Verb, after_s: float, *, by_cpu: bool) -> None:
    if by_cpu:  # the kernel ends it, with nothing of Python run any more, as by SIGKILL
        timer = partial(signal.setitimer, signal.ITIMER_PROF, after_s)
        started(folder, verb.begin, verb.before, timer).communicate()
        return
    process = started(folder, verb.begin, verb.before)
    time.sleep(after_s)
    process.kill()
    process.communicate()
    time.sleep(3 * ANSWER_S)


def killed(name: str, chance: random.Random) -> str:
    """One kill at a random time, and the way back. Gives what lay there; raises LostError."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, VERBS[name](Path(place)) as verb:
        folder = Path(place)
        _kill(folder, verb, chance.uniform(0.1, LONGEST_S[name]), by_cpu=name in BY_CPU)
        found = verb.after_kill(folder)
        code, errors = ended(started(folder, verb.again(folder), verb.before))
        expect(
            code in (0, 1, 4) or found == "whole" or errors == "INVALID",
            f"exit code {code} of the second time: {errors[-500:]}",
        )
        verb.at_end(folder)
        return found


def limited(name: str, limit: str) -> str:
    """The verb under a limit: its exit code and last line; then without the limit it must end whole."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, VERBS[name](Path(place)) as verb:
        folder = Path(place)
        before = verb.before + (JUMPING if "clock" in limit else "")
        code, errors = ended(started(folder, verb.begin, before, LIMITS[limit]))
        said = ([line for line in errors.splitlines() if line.strip()] or [""])[-1]
        expect(code in (0, 1, 4) or bool(said), "it ended without a word")
        verb.after_kill(folder)
        if code not in (0, 1, 4) and said != "INVALID":
            ended(started(folder, verb.again(folder), verb.before))
            verb.at_end(folder)
        return f"exit {code}" + (f": {said[-300:].replace(f'{folder}/', '')}" if code not in (0, 1, 4) else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbs", default=",".join(VERBS))
    arguments = parser.parse_args()
    chance, wrong = random.Random(arguments.seed), 0
    for name in arguments.verbs.split(","):
        cells, lost = _played(name, arguments.kills, chance)
        wrong += lost
        PAGE.write_text(with_column(PAGE.read_text(encoding="utf-8"), name, cells), encoding="utf-8")
    return 1 if wrong else 0


def _played(name: str, kills: int, chance: random.Random) -> tuple[dict[str, str], int]:
    """The verb's cells of the page by their row, and how many accidents lost something."""
    came, wrong, cells = Counter[str](), 0, {"last seen": f"{datetime.now(UTC):%Y-%m-%d}"}
    for _ in range(kills):
        try:
            came[killed(name, chance)] += 1
        except LostError as error:
            wrong += 1
            print(f"{name}: {error}", flush=True)
    if kills:
        said = ", ".join(f"{n} {what}" for what, n in came.most_common())
        cells[f"{KILLED}, {kills} times"] = f"{said}; **{wrong} lost**"
    for limit in LIMITS:
        try:
            cells[limit] = limited(name, limit)
        except LostError as error:
            wrong += 1
            cells[limit] = f"**LOST**: {str(error)[-300:]}"
    for row, cell in cells.items():
        print(f"{name}, {row}: {cell}", flush=True)
    return cells, wrong


def with_column(page: str, name: str, cells: dict[str, str]) -> str:
    """The page with these cells in the verb's column of its table, and nothing else changed."""
    lines, column = page.split("\n"), 0
    for at, line in enumerate(lines):
        if not line.startswith("|"):
            continue
        row = [cell.strip() for cell in line.strip("|").split("|")]
        column = column or next(place for place, cell in enumerate(row) if cell.strip("`").split()[0] == name)
        cell = next((cell for label, cell in cells.items() if _same(label, row[0])), None)
        if cell is not None:
            row[column] = cell.replace("|", "/").replace("\n", " ")
            lines[at] = f"| {' | '.join(row)} |"
    return "\n".join(lines)


def _same(label: str, row: str) -> bool:
    return label == row or (label.startswith(KILLED) and row.startswith(KILLED))


if __name__ == "__main__":
    sys.exit(main())
