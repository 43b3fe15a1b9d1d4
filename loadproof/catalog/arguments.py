"""The command-line arguments, quantizations and parsers of the servers, by version, as their own packages list them.

AWS's images of vLLM and SGLang turn each variable with their prefix into an argument (`sagemaker_entrypoint.sh` of
deep-learning-containers: `true` is the bare flag, `false` is left out), and argparse stops at one it does not know.
What is not listed for exactly a version is not known, and refuses nothing.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Final, Literal, NamedTuple

from loadproof.catalog.contracts import software_of
from loadproof.catalog.readers import container_images, table

Kind = Literal["argument", "quantization", "tool_call_parser", "reasoning_parser"]
_PREFIXES: Final = {"vllm": "SM_VLLM_", "sglang": "SM_SGLANG_"}
# Read by the entry point itself: which of SGLang's servers to start, `llm` or one that has other arguments.
_SGLANG_SERVER: Final = "SM_SGLANG_ENGINE"
# AWS's own images, which start the server by its entry point, as they are tagged: vllm:0.11.0-gpu-py312-cu128-...
_AWS_TAG: Final = re.compile(
    r"(^|/)((vllm|sglang):[\d.]+-gpu-py\d+-cu\d+-ubuntu[\d.]+-sagemaker|djl-inference:[\d.]+-lmi[\d.]+-cu\d+)$"
)
# Endings of whole numbers: vllm/utils/argparse_utils.py, sglang/srt/utils/common.py (`human_readable_int`). Where an
# ending is a power of 1,024 no decimals are taken.
_ENDINGS: Final[Mapping[str, Mapping[str, int]]] = {
    "vllm": {
        **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
        **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
    },
    "sglang": {
        **{letter: 1000**power for power, letter in enumerate("kMGT", 1)},
        **{f"{letter}i": 1024**power for power, letter in enumerate("KMGT", 1)},
    },
}
# Arguments that are JSON, and what the server says of anything else: vllm/engine/arg_utils.py (parse_type of
# json.loads), sglang/srt/configs/model_config.py.
_JSON: Final = {
    "SM_VLLM_HF_OVERRIDES": "argument --hf-overrides: Value {value} cannot be converted to <function loads>.",
    "SM_SGLANG_JSON_MODEL_OVERRIDE_ARGS": "json.decoder.JSONDecodeError: --json-model-override-args {value}",
}
# vllm/engine/arg_utils.py (`_expand_json_human_readable_numbers`): {"cpu_bytes_to_use": 80m}, of what is no text.
_SUFFIXED: Final = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)")
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


@cache
def words_of(image: str, software: str, kind: Kind | str) -> frozenset[str] | None:
    """What the server inside the image knows; None for an image of nobody's known, or a version that nobody listed."""
    ours = any(image.endswith(f"{one.repository}:{one.tag}") for one in container_images())
    if not ours and _AWS_TAG.search(image) is None:
        return None
    version = software_of(image).get(software)
    rows = [row for row in server_words() if (row.software, row.kind) == (software, kind) and version in row.versions]
    return frozenset(name for row in rows for name in row.names) if rows else None


def unknown_arguments(image: str, variables: Mapping[str, str]) -> Iterator[UnknownArgument]:
    """Variables at which the image's server stops. Its parser takes the beginning of one argument for it."""
    for software, prefix in _PREFIXES.items():
        # LMI packs a vLLM, and reads none of these variables.
        known = words_of(image, software, "argument") if _is_of(software, image) else None
        for variable, value in variables.items() if known and not _other_server(variables) else ():
            if variable == _SGLANG_SERVER:
                continue
            name = variable.removeprefix(prefix).lower().replace("_", "-")
            meant = sorted(one for one in known or () if one.startswith(name))
            if not variable.startswith(prefix) or value.lower() == "false" or name in meant or len(meant) == 1:
                continue
            switches = any(one.startswith("no-") for one in known or ())
            if not switches and name.removeprefix("no-") in (known or ()):
                continue  # of sources alone it is not known which are switches
            says = f"ambiguous option: --{name} could match --{', --'.join(meant)}"
            near = difflib.get_close_matches(name, known or (), n=1)
            nearest = f"{prefix}{near[0].upper().replace('-', '_')}" if near else None
            yield UnknownArgument(variable, says if meant else f"unrecognized arguments: --{name}", nearest)


def unknown_parsers(image: str, variables: Mapping[str, str]) -> Iterator[UnknownArgument]:
    """Parsers of tool calls and of reasoning that the image's server lacks: it stops before it loads a weight."""
    software, prefix, *_ = _parser_of(image)
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


def whole_number(software: str, text: str) -> int:
    """What vLLM or SGLang makes of `8192`, `8k` (8,000), and of `8K` or `8Ki` (8,192). Raises ValueError."""
    written = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]+)", text.strip())
    unit = _ENDINGS[software].get(written[2]) if written else None
    if written is None or unit is None:
        return int(text)
    if "." in written[1] and unit % 1000:
        raise ValueError(text)
    return int(Decimal(written[1]) * unit)


def unreadable_values(image: str, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables whose value is none that the argument takes, each with what the server's parser says."""
    parser = _parser_of(image)
    for variable, value in {} if _other_server(variables) else variables.items():
        if variable.startswith(parser.prefix) and value.lower() not in parser.off:
            name = variable.removeprefix(parser.prefix).lower().replace("_", "-")
            says = _refused(image, parser, name, None if value.lower() in parser.bare else value)
            if says is not None:
                yield variable, says


def _refused(image: str, parser: _Parser, name: str, value: str | None) -> str | None:
    """What the parser says of an argument's value, None of one that it takes; the value is None where there is none."""

    def has(kind: str) -> bool:
        return name in (words_of(image, parser.software, kind) or ())

    choices = words_of(image, parser.software, f"choices of {name}")
    kind = next(filter(has, _READERS), None)
    if has("flag"):
        return None if value is None else f"unrecognized arguments: {value}"
    if value is None:
        return f"argument --{name}: expected one argument" if choices or kind else None
    if parser.software == "vllm" and value in ("", "None"):
        return None
    if choices and value not in choices:
        return f"argument --{name}: invalid choice: '{value}' (choose from {', '.join(sorted(choices))})"
    if kind is not None and not _reads(lambda text: _READERS[kind](parser.software, text), value):
        named = kind.removeprefix("suffixed_").partition("_")[0]
        return f"argument --{name}: Value {value} cannot be converted to {named}"
    return None


def unreadable_json(image: str, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables that become an argument of JSON and hold none, each with what the image's server stops with."""
    for software, prefix in _PREFIXES.items():
        written = {name: says for name, says in _JSON.items() if name.startswith(prefix) and name in variables}
        for variable, says in written.items() if _is_of(software, image) else ():
            if not _reads(json.loads, variables[variable]):
                yield variable, says.format(value=variables[variable])


def too_few_on_cpu(variables: Mapping[str, str], max_loras: int | None) -> tuple[str, str] | None:
    """The variable that keeps fewer adapters in memory than a batch may have, and what vLLM says of it (LoRAConfig of
    vllm/config.py in 0.3.0 to 0.10.0, of vllm/config/lora.py since)."""
    for variable in ("SM_VLLM_MAX_CPU_LORAS", "OPTION_MAX_CPU_LORAS"):
        written = variables.get(variable, "")
        if written.isdecimal() and int(written) < (max_loras or 1):
            return variable, f"max_cpu_loras ({written}) must be >= max_loras ({max_loras or 1})"
    return None


def _count(software: str, text: str) -> None:
    """Rust's `usize`."""
    if not re.fullmatch(r"\+?\d+", text):
        raise ValueError(text)


# Kinds of values, and what reads them.
_READERS: Final[Mapping[str, Callable[[str, str], object]]] = {
    "int": lambda software, text: int(text),
    "count": _count,
    "float": lambda software, text: float(text),
    "json": lambda software, text: json.loads(text),
    "suffixed_json": lambda software, text: json.loads(_SUFFIXED.sub("1", text)),
    "suffixed_int": whole_number,
    "suffixed_int_or_auto": lambda software, text: text.strip().lower() == "auto" or whole_number(software, text),
}


class _Parser(NamedTuple):
    """Whose parser reads the variables, how they begin, and which values leave an argument bare, or out."""

    software: str
    prefix: str
    bare: tuple[str, ...]
    off: tuple[str, ...]


def _parser_of(image: str) -> _Parser:
    """TGI's launcher reads each as it is. LMI hands them to its vLLM (djl-serving vllm_rb_properties.py,
    construct_vllm_args_list: `--x=value`)."""
    if "tgi" in software_of(image):
        return _Parser("tgi", "", bare=(), off=())
    for software, prefix in _PREFIXES.items():
        if _is_of(software, image):
            return _Parser(software, prefix, bare=("true", ""), off=("false",))
    return _Parser("vllm", "OPTION_", bare=("true",), off=("false",))


def _other_server(variables: Mapping[str, str]) -> bool:
    """SGLang's image starts its server of diffusion models."""
    return variables.get(_SGLANG_SERVER, "").lower() == "diffusion"


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
