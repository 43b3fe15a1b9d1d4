"""What goes wrong is said in whole words to a terminal, and in whole lines to a pipe."""

from __future__ import annotations

import subprocess
import sys

from bench_pty import Terminal

UNKNOWN = [sys.executable, "-m", "loadproof", "catalog", "show", "Qwen/Qwen3-8Bx"]


def said_in_a_terminal(command: list[str]) -> list[str]:
    terminal = Terminal(command, columns=60)
    terminal.read(lambda: False)
    assert terminal.process.wait() == 2
    return [line for line in terminal.screen.lines if line]


def test_an_error_breaks_between_words_of_a_terminal() -> None:
    """60 columns: the ids that were perhaps meant stay whole."""
    lines = said_in_a_terminal(UNKNOWN)
    assert len(lines) > 1
    assert {"Qwen/Qwen3-8B,", "Qwen/Qwen3-4B,"} <= {word for line in lines for word in line.split()}


def test_an_error_is_one_line_in_a_pipe() -> None:
    """For a program that reads line by line."""
    done = subprocess.run(UNKNOWN, capture_output=True, text=True, check=False)
    assert done.stderr.count("\n") == 1 and len(done.stderr) > 80
