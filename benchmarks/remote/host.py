"""`python -m benchmarks.remote.host s3://BUCKET/PREFIX/RUN`: what a benchmark job's container runs.

docs/benchmark-remote.md says how its image is made. Images and state machines that are deployed know it by this name.
"""

import sys

from loadproof.bench.remote.host import main

if __name__ == "__main__":
    sys.exit(main())
