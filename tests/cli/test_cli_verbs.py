"""The verbs: each known by one line of help, and imported only when it is asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loadproof.cli.main import VERBS, verb


@pytest.mark.parametrize("name", VERBS)
def test_a_verbs_line_is_the_first_of_its_own_help(name: str) -> None:
    """What `loadproof --help` says of a verb, `loadproof VERB --help` begins with."""
    assert (verb(name).help or "").splitlines()[0] == VERBS[name].line


@pytest.mark.parametrize("arguments", [["--help"], ["chekc"], ["check", "--help"]])
def test_no_other_verb_is_imported(arguments: list[str]) -> None:
    """Help, a misspelt verb and another verb's help load nothing of `bench`."""
    program = (
        "import sys; from loadproof.cli.main import run; run(sys.argv[1:]); "
        "print([name for name in ('loadproof.cli.bench', 'loadproof.bench', 'boto3', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
