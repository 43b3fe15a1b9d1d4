"""The live view on a real pseudo-terminal, from the first frame to the terminal as it was."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_fakes import FakeEndpoint, serving
from bench_pty import Terminal
from processes import run_process

CLI = (sys.executable, "-c", "import sys; from loadproof.cli.main import main; sys.exit(main())")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[FakeEndpoint]:
    with serving(FakeEndpoint(itl_s=0.02)) as endpoint:
        yield endpoint


def bench(endpoint: FakeEndpoint, folder: Path, *more: str) -> list[str]:
    words = f"bench --target {endpoint.url}/invocations --protocol tgi --concurrency 2,4 --requests-per-level 20"
    words += f" --output-tokens 10 --input-tokens 16 --objective ttft_p95_ms=60000 --out {folder / 'run'}"
    return [*CLI, *words.split(), *more]


def watched(terminal: Terminal, words: str) -> list[str]:
    """The screen's lines once the words are on it."""
    terminal.read(lambda: terminal.screen.second and any(words in line for line in terminal.screen.lines))
    return terminal.screen.lines


def as_it_was(terminal: Terminal) -> bool:
    return not terminal.screen.second and terminal.screen.cursor


def test_a_run_on_a_terminal(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    """80 x 24: nothing wraps, all is there; in the end the tables stand on the terminal as it was."""
    terminal = Terminal(bench(endpoint, tmp_path))
    lines = watched(terminal, "> 4 in flight ·")
    terminal.read(lambda: any("█" in line for line in terminal.screen.lines))
    text = "\n".join(lines)
    assert (
        "  2 in flight ·     20/20" in text and "In flight " in text and "Client " in text and "Verdict so far" in text
    )
    assert terminal.screen.coloured
    assert terminal.end() in (0, 1, 3)  # a busy machine's client is late, and says so
    assert as_it_was(terminal) and "Report: " in terminal.text.rpartition("\x1b[?1049l")[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_gives_the_terminal_back(
    endpoint: FakeEndpoint, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C and kill -TERM: exit 130, the terminal as it was, and what there is on it."""
    terminal = Terminal(bench(endpoint, tmp_path))
    watched(terminal, "> 2 in flight ·")
    terminal.process.send_signal(number)
    assert terminal.end() == 130
    assert as_it_was(terminal) and "--resume" in terminal.text.rpartition("\x1b[?1049l")[2]


def test_a_run_that_fails_gives_the_terminal_back(tmp_path: Path) -> None:
    """The endpoint refuses every request of the second level's warm-up: exit 3, and the reason can be read."""
    with serving(FakeEndpoint(itl_s=0.02, fault_of=lambda number: "no_capacity" if number >= 24 else None)) as failing:
        terminal = Terminal(bench(failing, tmp_path))
        assert terminal.end() == 3
    assert as_it_was(terminal) and "no warm-up request got through" in terminal.text.rpartition("\x1b[?1049l")[2]


def test_a_window_that_changes(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    """Narrower and lower on the way: the next frame has the new size, and nothing wraps in it."""
    terminal = Terminal(bench(endpoint, tmp_path), columns=120, rows=40)
    watched(terminal, "> 2 in flight ·")
    terminal.read(lambda: False, 0.3)  # what was drawn for the old size is out of the way
    terminal.resize(64, 18)
    watched(terminal, "> 4 in flight ·")
    assert terminal.end() in (0, 1, 3) and as_it_was(terminal)


def test_no_color(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    """NO_COLOR: the same screen without."""
    terminal = Terminal(bench(endpoint, tmp_path), environment={"NO_COLOR": "1"})
    watched(terminal, "> 4 in flight ·")
    assert not terminal.screen.coloured
    assert terminal.end() in (0, 1, 3)


@pytest.mark.parametrize(("columns", "rows", "name"), [(80, 24, "dumb"), (59, 24, "xterm"), (80, 10, "xterm")])
def test_a_terminal_without_a_full_screen(
    endpoint: FakeEndpoint, tmp_path: Path, columns: int, rows: int, name: str
) -> None:
    """A dumb or a small one has a line for each level, as a log has; none is broken."""
    terminal = Terminal(bench(endpoint, tmp_path), columns, rows, {"TERM": name})
    terminal.end()
    assert "\x1b[?1049h" not in terminal.text
    said = [line for line in terminal.text.splitlines() if line.startswith("level ")]
    assert (
        len(said) >= 2 and all(len(line) <= columns for line in said) and "level 2/2 · 4 in flight · 20/20" in said[-1]
    )


def test_quiet_and_the_stream_on_stdout(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    """Nothing on stderr, and JSON lines alone on stdout, from the start to the end with its exit code."""
    done = run_process(bench(endpoint, tmp_path, "--quiet", "--live", "-", "--workers", "2"))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stderr == "" and [row["seq"] for row in rows] == list(range(len(rows)))
    assert rows[0]["type"] == "start" and rows[-1]["type"] == "end" and rows[-1]["exit_code"] == done.returncode
    shares = [row["client"]["cpu_share"] for row in rows if row["type"] == "progress" and row["phase"] == "measured"]
    assert any(share for share in shares), "the workers' CPU is in it"


def test_one_use_of_stdout(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    """The stream and the summary cannot both have it."""
    command = bench(endpoint, tmp_path, "--live", "-", "--format", "json")
    done = run_process(command)
    assert done.returncode == 2 and "--live -: stdout has one use" in done.stderr
