"""SQS (ours) and S3 and DynamoDB (moto's), each on a port of its own in this process: `python chaos_stores.py`.

Prints one line: `{"sqs": url, "aws": url}`; runs until stdin ends.
"""

from __future__ import annotations

import json
import logging
import os
import sys

from emulator.queue.sqs.server import running


def main() -> None:
    os.environ["MOTO_ACCOUNT_ID"] = "123456789012"
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    with running() as sqs:
        print(
            json.dumps({"sqs": sqs.endpoint_url, "aws": f"http://127.0.0.1:{moto.get_host_and_port()[1]}"}), flush=True
        )
        sys.stdin.read()
    moto.stop()


if __name__ == "__main__":
    main()
