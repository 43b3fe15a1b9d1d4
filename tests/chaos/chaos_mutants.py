"""The consumer with one thing broken, to show that the suite's checks see it."""

from __future__ import annotations

import shutil
from pathlib import Path

from chaos_world import RUNTIME

# By name: a file of the package, what stands there, and what stands there instead.
MUTANTS = {
    "delete first": (
        "handler.py",
        "            self._lease.add([delivery.receipt for delivery in deliveries])\n",
        "            self._lease.add([delivery.receipt for delivery in deliveries])\n"
        "            for delivery in deliveries:\n"
        '                _client("sqs").delete_message('
        "QueueUrl=self._settings.queue_url, ReceiptHandle=delivery.receipt)\n",
    ),
    "no claim": (
        "claims.py",
        "        now_s = self._clock.now_s()\n        try:\n",
        '        return Taken("ours", Claim(key, owner, fresh=True))\n'
        "        now_s = self._clock.now_s()\n        try:\n",
    ),
    "no heartbeat": ("lease.py", "            self._lease.beat()", "            pass"),
    "unconditional put": ("results.py", '                    IfNoneMatch="*",\n', ""),
    "retry inside botocore": (
        "handler.py",
        'retries={"total_max_attempts": 1}',
        'retries={"total_max_attempts": 3, "mode": "standard"}',
    ),
}


def mutant(name: str, folder: Path) -> Path:
    """A copy of the runtime with that patch, to be given as `Setting.runtime`."""
    file, good, bad = MUTANTS[name]
    copy = folder / "mutant"
    shutil.copytree(RUNTIME, copy)
    place = copy / "consumer" / file
    source = place.read_text()
    assert source.count(good) == 1, f"{file} no longer holds the line that `{name}` breaks"
    place.write_text(source.replace(good, bad))
    return copy
