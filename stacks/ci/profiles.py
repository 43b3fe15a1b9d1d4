"""`python -m stacks.ci.profiles ENVIRONMENT`: the environment's profiles, a file a line, as the application has them.

No environment.yaml, and no calibration that lies beside a profile.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from loadproof.errors import InputError
from loadproof.profiles import profile_files

_PROFILES: Final = Path("deploy_profiles")  # of the repository that is worked in


def main(arguments: list[str]) -> int:
    """2 for a name that is no environment, or one without a profile."""
    if len(arguments) != 1:
        print("usage: python -m stacks.ci.profiles ENVIRONMENT", file=sys.stderr)
        return 2
    try:
        files = profile_files(_PROFILES, arguments[0])
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    if not files:
        print(f"no profile in {_PROFILES / arguments[0]}", file=sys.stderr)
        return 2
    print(*files, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
