"""The command-line arguments, quantizations and parsers of the servers, by version, as their own packages list them.

AWS's images of vLLM and SGLang turn each variable with their prefix into an argument (`sagemaker_entrypoint.sh` of
deep-learning-containers: `true` is the bare flag, `false` is left out), and argparse stops at one it does not know.
What is not listed for exactly a version is not known, and refuses nothing.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from loadproof.catalog.contracts import software_of
from loadproof.catalog.readers import container_images, table

Kind = Literal["argument", "quantization", "tool_call_parser", "reasoning_parser", "int", "float", "json"]
_PREFIXES: Final = {"vllm": "SM_VLLM_", "sglang": "SM_SGLANG_"}
# Arguments that are JSON, and what the server says of anything else: vllm/engine/arg_utils.py (parse_type of
# json.loads), sglang/srt/configs/model_config.py.
_JSON: Final = {
    "SM_VLLM_HF_OVERRIDES": "argument --hf-overrides: Value {value} cannot be converted to <function loads>.",
    "SM_SGLANG_JSON_MODEL_OVERRIDE_ARGS": "json.decoder.JSONDecodeError: --json-model-override-args {value}",
}


# What turns a parser of tool calls on, without which vLLM never looks at its name; and what brings parsers of its own.
_VLLM_AUTOMATIC: Final = "ENABLE_AUTO_TOOL_CHOICE"
_PLUGINS: Final[dict[Kind, str]] = {
    "tool_call_parser": "TOOL_PARSER_PLUGIN",
    "reasoning_parser": "REASONING_PARSER_PLUGIN",
}


@dataclass(frozen=True, slots=True)
class ServerWords:
    """Names that a server of each of these versions knows."""

    software: str
    versions: tuple[str, ...]
    kind: str
    names: tuple[str, ...]
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class UnknownArgument:
    """A variable that becomes an argument the server does not know, what it says, and the nearest that it does."""

    variable: str
    says: str
    nearest: str | None


@cache
def server_words() -> tuple[ServerWords, ...]:
    """Every row."""
    return tuple(table(ServerWords, "server_arguments.csv"))


def words_of(image: str, software: str, kind: Kind | str) -> frozenset[str] | None:
    """What the server inside the image knows; None for an image of nobody's known, or a version that nobody listed."""
    if not any(image.endswith(f"{one.repository}:{one.tag}") for one in container_images()):
        return None
    version = software_of(image).get(software)
    rows = [row for row in server_words() if (row.software, row.kind) == (software, kind) and version in row.versions]
    return frozenset(name for row in rows for name in row.names) if rows else None


def unknown_arguments(image: str, variables: Mapping[str, str]) -> Iterator[UnknownArgument]:
    """Variables at which the image's server stops. Its parser takes the beginning of one argument for it."""
    for software, prefix in _PREFIXES.items():
        # LMI packs a vLLM, and reads none of these variables.
        known = words_of(image, software, "argument") if _is_of(software, image) else None
        for variable, value in variables.items() if known else ():
            name = variable.removeprefix(prefix).lower().replace("_", "-")
            meant = sorted(one for one in known or () if one.startswith(name))
            if not variable.startswith(prefix) or value.lower() == "false" or name in meant or len(meant) == 1:
                continue
            says = f"ambiguous option: --{name} could match --{', --'.join(meant)}"
            near = difflib.get_close_matches(name, known or (), n=1)
            nearest = f"{prefix}{near[0].upper().replace('-', '_')}" if near else None
            yield UnknownArgument(variable, says if meant else f"unrecognized arguments: --{name}", nearest)


def unknown_parsers(image: str, variables: Mapping[str, str]) -> Iterator[UnknownArgument]:
    """Parsers of tool calls and of reasoning that the image's server lacks: it stops before it loads a weight."""
    software = next((one for one in _PREFIXES if _is_of(one, image)), "vllm")  # LMI packs one
    prefix = _PREFIXES[software] if _is_of(software, image) else "OPTION_"
    for kind in _PLUGINS:
        variable = f"{prefix}{kind.upper()}"
        written, known = variables.get(variable), words_of(image, software, kind)
        if written is None or not known or written in known or f"{prefix}{_PLUGINS[kind]}" in variables:
            continue
        if software == "vllm" and kind == "tool_call_parser" and not _is_on(variables, f"{prefix}{_VLLM_AUTOMATIC}"):
            continue
        near = difflib.get_close_matches(written.lower(), known, n=1)
        said = f"{kind.replace('_', ' ')}: {written} (chose from {{ {','.join(sorted(known))} }})"
        option = f"error: argument --{kind.replace('_', '-')}"
        says = f"KeyError: 'invalid {said}'" if software == "vllm" else f"{option}: invalid choice: {said}"
        yield UnknownArgument(variable, says, near[0] if near else None)


def unreadable_values(image: str, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables whose value is none that the argument of AWS's vLLM image takes, each with what its parser says."""
    readers: dict[str, Callable[[str], object]] = {"int": int, "float": float, "json": json.loads}
    kinds = {name: kind for kind in readers for name in words_of(image, "vllm", kind) or ()}
    prefix = _PREFIXES["vllm"]
    written = [one for one in variables.items() if one[0].startswith(prefix)] if _is_of("vllm", image) else []
    for variable, value in written:
        name = variable.removeprefix(prefix).lower().replace("_", "-")
        if value in ("", "None") or value.lower() in ("true", "false"):  # a bare flag, or none
            continue
        choices = words_of(image, "vllm", f"choices of {name}")
        if choices and value not in choices:
            yield variable, f"argument --{name}: invalid choice: '{value}' (choose from {', '.join(sorted(choices))})"
        elif name in kinds and not _reads(readers[kinds[name]], value):
            yield variable, f"argument --{name}: Value {value} cannot be converted to {kinds[name]}"


def unreadable_json(image: str, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables that become an argument of JSON and hold none, each with what the image's server stops with."""
    for software, prefix in _PREFIXES.items():
        written = {name: says for name, says in _JSON.items() if name.startswith(prefix) and name in variables}
        for variable, says in written.items() if _is_of(software, image) else ():
            if not _reads(json.loads, variables[variable]):
                yield variable, says.format(value=variables[variable])


def _is_of(software: str, image: str) -> bool:
    """AWS's own image of the server."""
    return image.rpartition("/")[2].startswith(f"{software}:")


def _is_on(variables: Mapping[str, str], name: str) -> bool:
    return variables.get(name, "false").lower() == "true"


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True
