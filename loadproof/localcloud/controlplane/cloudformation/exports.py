"""Which exports of other stacks a template imports."""

from __future__ import annotations

from collections.abc import Iterator

from loadproof.localcloud.controlplane.cloudformation.template import Resolver, Template
from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Document, Json


def imported_names(template: Template, parameters: Document) -> set[str]:
    """Names of `Fn::ImportValue`; they are made of parameters alone, never of resources."""

    def lookup(name: str, attribute: str | None) -> Json:
        raise AwsError("ValidationError", f"The name of an import cannot depend on the resource {name}")

    resolver = Resolver(template, parameters, lookup, lambda name: name)
    wanted = _imports({"resources": template.resources, "outputs": template.section("Outputs")})
    return {str(resolver.resolve(one)) for one in wanted}


def _imports(value: Json) -> Iterator[Json]:
    if isinstance(value, list):
        for item in value:
            yield from _imports(item)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name == "Fn::ImportValue":
                yield inner
            else:
                yield from _imports(inner)
