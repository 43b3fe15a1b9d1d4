"""`python -m stacks.ci`: what the CDK CLI runs. docs/ci/roles.md says how."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # As app.py: Node 20 works, and jsii would greet every command with a banner about its end of life.
    os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
    from stacks.ci.application import main

    sys.exit(main(Path(__file__).resolve().parents[2] / "deploy_profiles"))
