"""`--workload`: a file of a profile's workload keys, or a published shape by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.bench.spec import WorkloadSpec, fixed_tokens
from loadproof.cli.bench.workload import WorkloadOptions, with_workload
from loadproof.errors import InputError

AGENT = Path(__file__).parents[2] / "benchmarks" / "workloads" / "agent.yaml"
GIVEN = WorkloadSpec(fixed_tokens(256), fixed_tokens(64), seed=7)


def asked(name: str, turns: int | None = None) -> WorkloadSpec:
    return with_workload(GIVEN, WorkloadOptions(name=name, turns=turns), chat=True)


def test_a_file_says_what_requests_look_like() -> None:
    """Eight turns of 886 tokens and 184 of answer; the run keeps its seed."""
    found = asked(str(AGENT))
    assert (found.input_tokens, found.output_tokens) == (fixed_tokens(886), fixed_tokens(184))
    assert (found.turns, found.seed) == (8, 7)


def test_an_option_goes_before_the_file() -> None:
    """`--turns 2` beside a file of eight."""
    assert asked(str(AGENT), turns=2).turns == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input_tokens: 5\noutput_tokens: 5\nstreaming: false\n", "it says streaming, which is a profile's"),
        ("input_tokens: 5\noutput_tokens: 5\narrivals: {process: closed}\n", "delete it and give --rate or --phase"),
        ("input_tokens: 5\n", "required key `output_tokens` is missing"),
        ("model: {id: x}\n", "unknown key `model`"),
    ],
)
def test_a_file_that_says_something_else(text: str, message: str, tmp_path: Path) -> None:
    """A run's own options are not hidden in it, and a wrong key has its line."""
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        asked(str(tmp_path / "mine.yaml"))
