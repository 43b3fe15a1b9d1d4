"""What people see of a buffer: its state, and its dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from loadproof.invocation.buffer import BufferStatus, DeadLetter, PaceNow
from loadproof.pages.durations import duration
from loadproof.pages.wording import counted

_GATES = {"no_capacity": "no copy is up", "unavailable": "nothing is answered"}


def status_lines(
    status: BufferStatus, reasons: Counter[str], claims: Counter[str] | None, slots: int | None, now_s: float
) -> list[str]:
    """A table in plain text, its reasons below it."""
    empty = not (status.waiting or status.in_flight or status.delayed)
    # CloudWatch's age stays for minutes after the last message has gone.
    age = "none" if empty else "none of late" if status.oldest_age_s is None else duration(status.oldest_age_s)
    rows = [
        ("waiting", f"{status.waiting:,}"),
        ("in flight", f"{status.in_flight:,}"),
        ("delayed", f"{status.delayed:,}"),
        ("oldest", age),
        ("pace", pace_words(status.pace, slots, now_s)),
    ]
    if claims is not None:
        rows.append(("keys", ", ".join(f"{count:,} {phase}" for phase, count in sorted(claims.items())) or "none"))
    rows.append(("dead letters", f"{status.dead_letters:,}"))
    return [f"{name:<13} {value}" for name, value in rows] + [
        f"  {count:>7,}  {reason}" for reason, count in reasons.most_common()
    ]


def status_document(
    status: BufferStatus, reasons: Counter[str], claims: Counter[str] | None, slots: int | None
) -> dict[str, object]:
    document: dict[str, object] = asdict(status) | {"dead_letters_by_reason": dict(reasons), "slots": slots}
    return document | ({} if claims is None else {"keys": dict(claims)})


def pace_words(pace: PaceNow, slots: int | None, now_s: float) -> str:
    """`open`, `slowed to 7 of 20 (35%)`, or `closed since 2:10 (no copy is up), next probe in 0:12`."""
    if pace.gate != "open":
        since_s = now_s - (pace.closed_since_ms or 0) / 1000
        probe_s = (pace.next_probe_ms or 0) / 1000 - now_s
        probe = f"in {duration(probe_s)}" if probe_s > 0 else "due"
        return f"closed since {duration(since_s)} ({_GATES[pace.gate]}), next probe {probe}"
    if pace.share >= 1:
        return "open" if slots is None else f"open, {slots:,} in flight at most"
    number = "" if slots is None else f"{max(1, round(pace.share * slots)):,} of {slots:,} "
    percent = f"{pace.share:.0%}"
    return f"slowed to {number}({percent})" if number else f"slowed to {percent}"


def dead_letter_lines(letters: Sequence[DeadLetter], now_s: float) -> list[str]:
    """A line a letter, oldest first; bodies below it where they were asked for."""
    lines = []
    for letter in letters:
        age = duration(now_s - letter.first_sent_ms / 1000)
        tried = counted(letter.attempts, "attempt")
        lines.append(f"{age:>9}  {letter.key or '(no key)'}  {tried}  {letter.reason}")
        if letter.body is not None:
            lines.append(f"{'':>9}  {letter.body}")
    return lines
