"""CDK's door: `cdk synth|diff|deploy -c env=dev [-c profile=chat,search]`."""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def enter_environment():  # noqa: ANN201  any Python 3 may read this
    """Go on inside `.venv` (from `make setup`), unless some virtual environment is active already.

    cdk.json can then say `python3 app.py` for everybody: an inactive .venv, an activated environment of any name,
    and a container without either. Written for any Python 3, as the outer one may be old.
    """
    python = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if sys.prefix == sys.base_prefix and python.exists():
        os.execv(str(python), [str(python), *sys.argv])


if __name__ == "__main__":
    enter_environment()
    if sys.version_info < (3, 11) or importlib.util.find_spec("aws_cdk") is None:
        message = (
            "loadproof: {} (Python {}.{}) lacks what the stacks need; run `make setup` and leave other environments"
        )
        print(message.format(sys.executable, *sys.version_info[:2]), file=sys.stderr)
        sys.exit(3)
    sys.path.insert(0, str(ROOT))
    # Node 20 works (package.json allows it); jsii would greet every command with a banner about its end of life.
    os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
    from stacks.application import main

    sys.exit(main(ROOT / "deploy_profiles"))
