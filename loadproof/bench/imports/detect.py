"""From a path to measured levels: the reader is chosen by what the file holds, never by its name."""

from __future__ import annotations

import csv
import errno
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loadproof.bench.imports.aiperf import is_aiperf, read_aiperf
from loadproof.bench.imports.fmbench import is_fmbench, read_fmbench
from loadproof.bench.imports.guidellm import is_guidellm, read_guidellm
from loadproof.bench.imports.levels import MeasuredLevel
from loadproof.bench.imports.llmeter import is_llmeter, read_llmeter
from loadproof.bench.imports.own_runs import is_summary, read_summary
from loadproof.bench.imports.own_table import MEASURED, NEEDED, is_own_table, read_own_table
from loadproof.bench.imports.vllm_bench import is_vllm_bench, read_vllm_bench
from loadproof.bench.plain import MOST_LOG_BYTES, read_plain
from loadproof.errors import InputError

_Document = Mapping[str, object]
_DOCUMENTS: tuple[tuple[Callable[[object], bool], Callable[[_Document, str], list[MeasuredLevel]]], ...] = (
    (is_summary, read_summary),
    (is_aiperf, read_aiperf),
    (is_guidellm, read_guidellm),
    (is_llmeter, read_llmeter),
    (is_vllm_bench, read_vllm_bench),
)
_Rows = Sequence[Mapping[str, object]]
_TABLES: tuple[tuple[Callable[[Sequence[str]], bool], Callable[[_Rows, str], list[MeasuredLevel]]], ...] = (
    (is_own_table, read_own_table),
    (is_fmbench, read_fmbench),
)
# What a folder's levels are in, the first that is there.
_IN_FOLDER = ("stats.json", "summary.json", "profile_export_aiperf.json", "benchmarks.json")
_EXPECTED = (
    "expected a run folder or its summary.json, an export of AIPerf (profile_export_aiperf.json), guidellm "
    "(benchmarks.json), llmeter (stats.json), `vllm bench serve --save-result` or FMBench (all_metrics.csv), or CSV "
    f"with {', '.join(NEEDED)} and one of {', '.join(MEASURED)}"
)


def measured_file(path: Path) -> Path:
    """The file that holds the levels of `path`: itself, or the one in a folder. Raises InputError without one."""
    if not path.is_dir():
        return path
    found = next((path / name for name in _IN_FOLDER if (path / name).is_file()), None)
    if found is None:
        raise InputError(f"{path}: none of {', '.join(_IN_FOLDER)} in this folder; {_EXPECTED}")
    return found


def read_measured(path: Path) -> list[MeasuredLevel]:
    """The levels of one file or folder, in its own order. Raises InputError: unreadable, of no known kind, or empty."""
    file = measured_file(path)
    try:
        data = read_plain(file, MOST_LOG_BYTES, may_be_link=True)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise InputError(
                f"{file}: larger than {MOST_LOG_BYTES >> 20} MiB; give the tool's summary, not its raw log"
            ) from None
        raise InputError(f"{file}: cannot be read: {error.strerror}; look at its name and permissions") from None
    levels = _of_json(data, file) if data.lstrip()[:1] in (b"{", b"[") else _of_csv(data, file)
    if not levels:
        raise InputError(f"{file}: holds no measured level; measure at least one")
    return levels


def _of_json(data: bytes, file: Path) -> list[MeasuredLevel]:
    try:
        document = json.loads(data)  # not orjson: some tools write NaN
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}: not readable as JSON: {error.msg}; {_EXPECTED}") from None
    except (ValueError, RecursionError):  # no text, a number of thousands of digits, thousands of brackets
        raise InputError(f"{file}: not readable as JSON; {_EXPECTED}") from None
    for fits, read in _DOCUMENTS:
        if fits(document):
            return read(document, str(file))
    keys = ", ".join(sorted(map(str, document))[:6]) if isinstance(document, Mapping) else "a list"
    raise InputError(f"{file}: JSON of no known kind ({keys}); {_EXPECTED}")


def _of_csv(data: bytes, file: Path) -> list[MeasuredLevel]:
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        columns, rows = list(reader.fieldnames or ()), list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file}: not readable as CSV: {error}; {_EXPECTED}") from None
    for fits, read in _TABLES:
        if fits(columns):
            return read(rows, str(file))
    raise InputError(f"{file}:1: CSV of no known kind ({', '.join(columns[:6]) or 'empty'}); {_EXPECTED}")
