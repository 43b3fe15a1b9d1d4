"""Values that a profile may write as the command line's options take them, and what they stand for.

`input_tokens: normal:512:64`, `concurrency: 1..64`, `rate: 1,2.5`, `phases: ["process=poisson,requests_per_s=2,..."]`.
A text of the wrong form is a problem of its key, as any other value is.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from loadproof.vocabulary import Form

_RATE = r"(0\.[0-9]{0,5}[1-9]|[1-9][0-9]{0,4}(\.[0-9]{1,6})?)"
_COUNT = r"[1-9][0-9]{0,7}"

ShortLevels = Annotated[
    str,
    StringConstraints(pattern=r"^[1-9][0-9]{0,5}((, ?[1-9][0-9]{0,5}){0,31}|\.\.[1-9][0-9]{0,5})$"),
    Form("levels such as 1,2,4, or 1..64, which doubles", '"1,2,4"'),
]
ShortRates = Annotated[
    str,
    StringConstraints(pattern=rf"^{_RATE}((, ?{_RATE}){{0,31}}|\.\.{_RATE})$"),
    Form("requests per second such as 1,2.5, or 1..64, which doubles", '"1,2.5"'),
]
ShortTokens = Annotated[
    str,
    StringConstraints(pattern=rf"^(normal|lognormal|uniform):{_COUNT}:{_COUNT}$"),
    Form("tokens such as 256, normal:512:64, lognormal:512:64 or uniform:128:1024", "normal:512:64"),
]
_SETTING = (
    r"(process=(closed|constant|poisson|gamma|trace)|trace=[^,]{1,1024}"
    r"|(concurrency|requests)=[1-9][0-9]{0,8}"
    r"|(ramp_s|requests_per_s|from_requests_per_s|burstiness|duration_s)=[0-9]{1,8}(\.[0-9]{1,6})?)"
)
ShortPhase = Annotated[
    str,
    StringConstraints(pattern=rf"^{_SETTING}(,{_SETTING}){{0,8}}$"),
    Form("a phase's settings such as process=gamma,requests_per_s=2,requests=90", "concurrency=4,duration_s=60"),
]


def levels_of(given: tuple[float, ...] | float | str) -> tuple[float, ...]:
    """`8`, `1,2,4` and `1..64` (which doubles) as the levels they stand for."""
    if isinstance(given, tuple):
        return given
    lowest, _, highest = str(given).partition("..")
    if not highest:
        return tuple(_number(level) for level in lowest.split(","))
    levels, most = [_number(lowest)], _number(highest)
    if most < levels[-1]:  # said to be out of order, as any list is
        return (*levels, most)
    while levels[-1] < most:
        levels.append(min(2 * levels[-1], most))
    return tuple(levels)


def tokens_of(text: str) -> dict[str, str | int | float]:
    """`normal:512:64` as the distribution it stands for: mean and standard deviation, or lowest and highest."""
    kind, first, second = text.split(":")
    if kind == "uniform":
        return {"distribution": kind, "min": int(first), "max": int(second)}
    return {"distribution": kind, "mean": float(first), "stddev": float(second)}


def phase_of(text: str) -> dict[str, str | int | float]:
    """`process=gamma,requests_per_s=2` as the settings it stands for."""
    found: dict[str, str | int | float] = {}
    for setting in text.split(","):
        name, _, value = setting.partition("=")
        found[name] = value if name in ("process", "trace") else _number(value)
        if name not in ("process", "trace", "concurrency", "requests"):
            found[name] = float(found[name])
    return found


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
