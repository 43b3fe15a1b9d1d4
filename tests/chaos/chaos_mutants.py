"""The consumer with one thing broken, to show that the suite's checks see it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from chaos_crashes import CRASH_LOOP, FROZEN, KILLS, LONG, Outcome, Start, crash_loop, frozen, kills, long_generation
from chaos_faults import attempts
from chaos_world import RUNTIME, Setting

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
    "no heartbeat": ("lease.py", "            self._beat()", "            pass"),
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


Arm = Callable[[Start, Path], Outcome]  # the folder is for the mutant's code


def _with(name: str, setting: Setting, arm: Callable[[Start, Setting], Outcome]) -> Arm:
    return lambda start, folder: arm(start, replace(setting, runtime=mutant(name, folder)))


def _kills(start: Start, setting: Setting) -> Outcome:
    return kills(start, setting, messages=80, times=4)


# By mutant: the arm that it is put through, and the check that must fail there.
CAUGHT: dict[str, tuple[Arm, str]] = {
    "delete first": (_with("delete first", KILLS, _kills), "lost"),
    "no claim": (_with("no claim", KILLS, _kills), "unexplained"),
    "no heartbeat": (
        _with("no heartbeat", LONG, lambda start, setting: long_generation(start, setting)),
        "unexplained",
    ),
    "unconditional put": (_with("unconditional put", FROZEN, frozen), "double"),
    "retry inside botocore": (
        _with("retry inside botocore", Setting(processes=1, max_attempts=3), attempts),
        "requests",
    ),
    "max receive 3": (lambda start, _: crash_loop(start, replace(CRASH_LOOP, max_receive_count=3)), "dead"),
}
