"""The deployment that a row of a published table describes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING, get_args

from loadproof.capacity import deployment_from_container
from loadproof.capacity.deployment import quantized, speculating
from loadproof.capacity.row_names import instance_type_of, model_of, server_of
from loadproof.capacity.servers import fabric_row, server_row
from loadproof.errors import InputError
from loadproof.families import FAMILIES, SpeculationMethod, Speculative

if TYPE_CHECKING:
    from loadproof.capacity import PlannedDeployment
    from loadproof.catalog import Architecture

GIVEN = (
    "model",
    "instance_type",
    "instance_count",
    "tp_degree",
    "input_tokens",
    "output_tokens",
    "concurrency",
    "server",
)
# May be there: how the weights are stored, `none` for 16 bits; empty for what the model's name says or its checkpoint.
QUANTIZATION = "quantization"
# May be there: speculative decoding, `none` or empty for none; and the tokens proposed a round.
METHOD, PROPOSED, _PROPOSED = "speculative_method", "speculative_tokens", 3
# More than anyone runs: what lies beyond is a slip, and would take minutes to replay.
_MOST = {PROPOSED: 64, "instance_count": 1_000, "tp_degree": 1_024, "concurrency": 100_000}
_MOST_TOKENS = 10_000_000


def row_deployment(row: Mapping[str, str | None], request_tokens: int) -> PlannedDeployment:
    """The row's machines and server with the server's defaults, the weights stored as row, name or checkpoint say.

    `instance_count` instances run one copy each, as a plain endpoint of many instances does.
    """
    shape, named = model_of(_text(row, "model"))
    written = _text(row, "server")
    server = server_of(written)
    dynamic = _dynamic_batching(written)
    on_neuron = server.family == "neuronx"
    family = "lmi" if on_neuron else server.family
    published = FAMILIES[family].published
    version = server.version or (published.assumed_version if published else "")
    variables = published.variables(version, request_tokens, dynamic) if published else {}
    if variables is None or (dynamic is not None and (on_neuron or published is None)):
        raise InputError(f"server `{written}`: dynamic batching is LMI's; expected `lmi dynamic batching`")
    degree = _count(row, "tp_degree")
    deployment = deployment_from_container(
        family=family,
        version=version,
        variables=variables,
        model_id=shape.hf_id,
        architecture=shape,
        instance_type=instance_type_of(_text(row, "instance_type")),
        accelerators_per_copy=(degree + 1) // 2 if on_neuron else degree,
        copies=_count(row, "instance_count"),
    )
    if on_neuron:
        deployment = _on_neuron(deployment, written, degree)
    elif shape.heads % degree and dynamic is None:
        raise InputError(f"tp_degree {degree} does not divide the {shape.heads} attention heads: no server starts so")
    stored = (row.get(QUANTIZATION) or "").strip().casefold() or named or shape.quantization
    deployment = speculating(deployment, _speculative(row))
    return quantized(deployment, stored) if stored != "none" else deployment


def model_shape(name: str) -> Architecture:
    """The shape alone of a model by any of its names (`predict_names.model_of`)."""
    return model_of(name)[0]


def _on_neuron(deployment: PlannedDeployment, written: str, cores: int) -> PlannedDeployment:
    """Under Transformers NeuronX `tp_degree` counts cores, each half a chip, and only memory limits a request."""
    chip, server = deployment.accelerator, server_row("neuron", "")
    if not chip.name.startswith(("Inferentia", "Trainium")):
        raise InputError(f"server `{written}` does not run on {chip.name}; expected ml.inf2, trn1 or trn2")
    return replace(
        deployment,
        accelerators=cores,
        accelerator=replace(
            chip,
            memory_bytes=chip.memory_bytes // 2,
            bandwidth_gb_per_s=chip.bandwidth_gb_per_s / 2,
            bf16_tflops=chip.bf16_tflops / 2,
        ),
        server=server,
        fabric=fabric_row(deployment.instance.fabric, cores, "neuron"),
        memory_fraction=server.memory_fraction,
        limits=replace(deployment.limits, max_request_tokens=None),
    )


def _speculative(row: Mapping[str, str | None]) -> Speculative | None:
    method = (row.get(METHOD) or "").strip().casefold()
    if method in ("", "none"):
        return None
    planned = [name for name in get_args(SpeculationMethod) if name != "draft_model"]
    if method not in planned:
        raise InputError(f"{METHOD}: expected one of none, {', '.join(planned)}, found `{method}`")
    tokens = _count(row, PROPOSED) if (row.get(PROPOSED) or "").strip() else _PROPOSED
    return Speculative.model_construct(method=method, tokens=tokens)


def _dynamic_batching(text: str) -> dict[str, int] | None:
    """What `LMI dynamic batching (batch_size=4, max_batch_delay=100)` says; None where it says nothing."""
    if "dynamic batching" not in text.casefold():
        return None
    given = re.findall(r"(batch_size|max_batch_delay)\s*=\s*(\d+)", text)
    return {name: int(value) for name, value in given}


def _text(row: Mapping[str, str | None], name: str) -> str:
    value = (row[name] or "").strip()
    if not value:
        raise InputError(f"{name} is empty")
    return value


def whole(row: Mapping[str, str | None], name: str, least: int = 1) -> int:
    """A number of at least `least`, as a whole one: a mean such as `601.1` counts as the nearest."""
    return round(_number(row, name, least))


def _count(row: Mapping[str, str | None], name: str) -> int:
    """A count of machines: `2.0` is 2, a fraction is none."""
    value = _number(row, name, 1)
    if value != int(value):
        raise InputError(f"{name}: expected a whole number, found `{_text(row, name)}`")
    return int(value)


def _number(row: Mapping[str, str | None], name: str, least: int) -> float:
    text, most = _text(row, name), _MOST.get(name, _MOST_TOKENS)
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not value > least - 0.5 or value == inf:
        raise InputError(f"{name}: expected a number of at least {least}, found `{text}`")
    if value > most:
        raise InputError(f"{name}: expected at most {most:,}, found `{text}`")
    return value
