"""`python -m loadproof.bench.report RUN_DIR`: render the report of a run again, for example with a newer Loadproof."""

from __future__ import annotations

import sys
from pathlib import Path

from loadproof.bench.report.page import render_report
from loadproof.errors import ExitCode, LoadproofError


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m loadproof.bench.report RUN_DIR", file=sys.stderr)
        return ExitCode.OK if arguments in (["-h"], ["--help"]) else ExitCode.BAD_INPUT
    try:
        print(render_report(Path(arguments[0])))
    except LoadproofError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{arguments[0]}: the report cannot be written: {error}", file=sys.stderr)
        return ExitCode.COULD_NOT_RUN
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
