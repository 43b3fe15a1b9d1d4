"""The calibration file: what it was fitted on, and its YAML, plain enough for the strict reader."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from loadproof.cli.calibrate.levels import ObservedLevel
from loadproof.errors import InputError
from loadproof.pages.file import write_whole
from loadproof.profiles.schema import Calibration, CalibrationSource

_HEAD = """\
# Written by `loadproof calibrate`: the planner's parameters as these runs gave them. A profile names this file:
#   calibration: <this file, relative to the profile>
"""


def sources_of(levels: Sequence[ObservedLevel]) -> list[CalibrationSource]:
    """Each file once, with its hash; an absolute path by its last two parts, which say enough and hold nowhere else."""
    return [
        CalibrationSource(
            file="/".join(file.parts[-2:]) if file.is_absolute() else file.as_posix(),
            sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
            levels=count,
        )
        for file, count in Counter(level.file for level in levels).items()
    ]


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write the file whole or not at all. Raises InputError where that cannot be done."""
    try:
        write_whole(calibration_text(calibration), path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; name another with --output") from None


def calibration_text(calibration: Calibration) -> str:
    """The file's content: keys in the schema's order, text quoted, numbers without exponents."""
    return _HEAD + "\n".join(_lines(calibration.model_dump(mode="json", exclude_none=True))) + "\n"


def _lines(values: Mapping[str, object], indent: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list):
            yield f"{indent}{key}:" if value else f"{indent}{key}: []"
            for item in value:
                first, *rest = _lines(item) if isinstance(item, Mapping) else (_scalar(item),)
                yield f"{indent}  - {first}"
                yield from (f"{indent}    {line}" for line in rest)
        else:
            yield f"{indent}{key}: {_scalar(value)}"


def _scalar(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else format(Decimal(str(value)), "f")
