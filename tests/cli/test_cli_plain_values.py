"""Options that are read without Typer's own models mean what Typer makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer._coercion import build_runtime_param, resolve_type_descriptor
from typer.models import OptionInfo

from loadproof.cli.main import run as loadproof
from loadproof.cli.plain_values import plain_value

KINDS: list[tuple[Any, OptionInfo]] = [
    (str, OptionInfo()),
    (int, OptionInfo()),
    (int, OptionInfo(min=1, max=64)),
    (float, OptionInfo()),
    (float, OptionInfo(min=0, max=10)),
    (Path, OptionInfo()),
    (Literal["text", "json"], OptionInfo()),
    (list[str], OptionInfo()),
    (list[int], OptionInfo()),
]
WORDS = st.one_of(
    st.text(max_size=8),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["json", "text", "007", "-0", "1.50", " 1", "1_000", "٣", "1e3", "nan", "", "/", "0.10"]),
)


def typers(value: object, annotation: Any, info: OptionInfo) -> object:
    read = build_runtime_param(resolve_type_descriptor(annotation, info))
    return read._coerce_value(value, param=None, ctx=None)  # type: ignore[arg-type]


@given(st.sampled_from(KINDS), st.one_of(WORDS, st.lists(WORDS, max_size=3)))
def test_a_plain_value_is_what_typer_reads(kind: tuple[Any, OptionInfo], value: str | list[str]) -> None:
    """Whatever is read at all is the same value of the same type, for every kind of option that verbs have."""
    annotation, info = kind
    if isinstance(value, list) != (annotation in (list[str], list[int])):
        return
    found = plain_value(value, annotation, info)
    if found is not None:
        expected = typers(value, annotation, info)
        assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("value", "annotation", "found"),
    [("64", int, 64), ("2.5", float, 2.5), ("json", Literal["text", "json"], "json"), ("runs/x", Path, Path("runs/x"))],
)
def test_usual_values_need_no_typer(value: str, annotation: Any, found: object) -> None:
    """A number, a choice and a place are read here."""
    assert plain_value(value, annotation, OptionInfo()) == found


@pytest.mark.parametrize(
    ("value", "annotation", "info"),
    [
        ("x", int, OptionInfo()),
        ("65", int, OptionInfo(max=64)),
        ("xml", Literal["text", "json"], OptionInfo()),
        ("gone", Path, OptionInfo(exists=True)),
        ("2", int, OptionInfo(clamp=True)),
        ("a", str, OptionInfo(parser=str.upper)),
    ],
)
def test_what_is_wrong_or_unusual_is_for_typer(value: str, annotation: Any, info: OptionInfo) -> None:
    """Its own words say what is wrong."""
    assert plain_value(value, annotation, info) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "r", "--format", "xml"], "'--format': 'xml' is not one of 'text', 'json'."),
        (["schema", "foo"], "'kind': 'foo' is not one of 'profile', 'environment', 'run', 'live'."),
        (["init", "x", "--p95", "abc"], "'--p95': expected a valid integer, found 'abc'"),
        (["init", "x", "--p95", "0"], "'--p95': expected a number greater than or equal to 1, found '0'"),
        (["report", ""], "'run': expected a path, found none; `.` is the folder you are in"),
    ],
)
def test_what_is_wrong_is_said_in_our_words(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was found is named, and no `Value error`."""
    assert loadproof(arguments) == 2
    assert capsys.readouterr().err.endswith(f"Error: Invalid value for {said}\n")
