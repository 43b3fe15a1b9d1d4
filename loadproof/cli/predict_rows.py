"""Rows of a CSV file, each with what is predicted for it or the reason why nothing is."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadproof.errors import InputError

if TYPE_CHECKING:
    from loadproof import catalog
    from loadproof.capacity import Deployment
    from loadproof.profiles.schema import Calibration

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
# May be there: tokens of each prompt that the server finds in its prefix cache.
CACHED = "cached_input_tokens"
# May be there: how the weights are stored; empty or `none` for 16 bits.
QUANTIZATION = "quantization"
FIGURES = (
    "predicted_throughput_tok_s",
    "predicted_latency_mean_ms_per_token",
    "predicted_latency_p90_ms_per_token",
    "predicted_ttft_ms",
)
ADDED = (*(f"{name}{end}" for name in FIGURES for end in ("", "_low", "_high")), "grade", "fits", "timeout", "reason")
# Figures named without a version are taken as the version our rows were fitted on.
_FITTED_TGI = "1.1"
# The start of a server's name: AWS's own library for Inferentia and Trainium.
_NEURON = "transformers neuronx"
_SERVERS = {"vllm": "vllm", "lmi": "lmi", "sglang": "sglang", "tgi": "tgi"}
# What JumpStart's TGI images of January 2024 ran with, beside the limits below: as the tables the row was fitted on.
_TGI_1 = {"MAX_CONCURRENT_REQUESTS": "512", "WAITING_SERVED_RATIO": "1.2"}
_TGI_1_REQUEST_TOKENS = 4096


def predict_file(source: Path, target: Path, calibration: Calibration | None = None) -> tuple[int, int]:
    """Write `source`'s rows with the added columns to `target`; (rows predicted, rows with a reason instead).

    `calibration` counts for the rows of its server and accelerator.
    Raises InputError where the file cannot be read, lacks a column, or cannot be written.
    """
    try:
        with source.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle)
            columns = list(reader.fieldnames or ())
            if missing := [name for name in GIVEN if name not in columns]:
                raise InputError(f"{source}:1: no column {', '.join(missing)}; expected at least {', '.join(GIVEN)}")
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{source}: cannot be read as CSV: {error}; give a UTF-8 file with a header line") from None
    answers = [predict_row(row, calibration) for row in rows]
    try:
        with target.open("w", encoding="utf-8", newline="") as handle:
            kept = [name for name in columns if name not in ADDED]
            writer = csv.DictWriter(handle, [*kept, *ADDED], restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows({**row, **answer} for row, answer in zip(rows, answers, strict=True))
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None
    without = sum(bool(answer["reason"]) for answer in answers)
    return len(answers) - without, without


def predict_row(row: Mapping[str, str | None], calibration: Calibration | None = None) -> dict[str, str]:
    """The added columns of one row. Where a figure cannot be given all are empty and `reason` says why."""
    answer = dict.fromkeys(ADDED, "")
    try:
        answer.update(_predicted(row, calibration))
    except InputError as error:
        answer["reason"] = str(error)
    return answer


def _predicted(row: Mapping[str, str | None], calibration: Calibration | None) -> dict[str, str]:
    from loadproof.capacity import memory_fit, predict_run
    from loadproof.capacity.confidence import confidence_of, near_limit
    from loadproof.capacity.curve import batch_capacity
    from loadproof.capacity.deployment import quantized, with_calibration

    input_tokens, output_tokens = _whole(row, "input_tokens"), _whole(row, "output_tokens")
    concurrency = _whole(row, "concurrency")
    deployment = row_deployment(row, input_tokens + output_tokens)
    if calibration is not None:
        deployment = with_calibration(deployment, calibration)
    if quantization := (row.get(QUANTIZATION) or "").strip().casefold():
        deployment = quantized(deployment, quantization)
    memory, confidence = memory_fit(deployment), confidence_of(deployment)
    answer: dict[str, str] = {"fits": memory.fits, "grade": confidence.grade}
    cached = _whole(row, CACHED, least=0) if (row.get(CACHED) or "").strip() else 0
    run = predict_run(deployment, input_tokens, output_tokens, concurrency, cached_tokens=cached)
    if run is None:
        limit = min(memory.kv_token_capacity, deployment.limits.max_request_tokens or memory.kv_token_capacity)
        answer["reason"] = (
            f"cannot be served: a request of {input_tokens + output_tokens} tokens, room for {limit} "
            f"(weights {memory.weights_gib:.1f} of {memory.usable_gib:.1f} GiB an accelerator)"
        )
        return answer
    figures = (
        run.output_tokens_per_s,
        run.latency_mean_ms / output_tokens,
        run.latency_p90_ms / output_tokens,
        run.ttft_mean_ms,
    )
    in_flight = concurrency / min(concurrency, deployment.copies)
    queue_in_doubt = near_limit(in_flight, batch_capacity(deployment, input_tokens, output_tokens))
    for name, value in zip(FIGURES, figures, strict=True):
        ttft = name == "predicted_ttft_ms"
        near = queue_in_doubt and (ttft or name == "predicted_latency_p90_ms_per_token")
        low, high = confidence.interval(value, ttft=ttft, near_limit=near)
        answer |= {name: f"{value:.4g}", f"{name}_low": f"{low:.4g}", f"{name}_high": f"{high:.4g}"}
    answer["timeout"] = "yes" if run.timeout else "no"
    if run.refused:
        answer["reason"] = f"{run.refused} of {concurrency} requests in flight are refused; the figures are the others'"
    return answer


def row_deployment(row: Mapping[str, str | None], request_tokens: int) -> Deployment:
    """The row's machines and server with the server's defaults.

    `instance_count` instances run one copy each, as a plain endpoint of many instances does.
    """
    from loadproof.capacity import deployment_from_container

    if _text(row, "server").casefold().startswith(_NEURON):
        return _neuron_deployment(row)
    family, version = _server(_text(row, "server"))
    variables = _dynamic_batching(_text(row, "server"))
    if family == "tgi":
        longest = max(_TGI_1_REQUEST_TOKENS, request_tokens)
        variables = {
            "MAX_TOTAL_TOKENS": str(longest),
            "MAX_INPUT_TOKENS": str(longest - 1),
            "MAX_BATCH_PREFILL_TOKENS": str(longest),
            **(_TGI_1 if version.startswith(("0", "1")) else {}),
        }
    shape = model_shape(_text(row, "model"))
    return deployment_from_container(
        family=family,  # type: ignore[arg-type]  # one of _SERVERS, each a Family
        version=version,
        variables=variables,
        model_id=shape.hf_id,
        architecture=shape,
        instance_type=_text(row, "instance_type"),
        accelerators_per_copy=_whole(row, "tp_degree"),
        copies=_whole(row, "instance_count"),
    )


def _neuron_deployment(row: Mapping[str, str | None]) -> Deployment:
    """Transformers NeuronX: `tp_degree` counts NeuronCores, each half a chip; sequences as long as memory holds."""
    from loadproof.capacity import deployment_from_container
    from loadproof.capacity.servers import fabric_row, server_row

    shape, server = model_shape(_text(row, "model")), server_row("neuron", "")
    cores = _whole(row, "tp_degree")
    deployment = deployment_from_container(
        family="lmi",
        version="",
        variables={},
        model_id=shape.hf_id,
        architecture=shape,
        instance_type=_text(row, "instance_type"),
        accelerators_per_copy=(cores + 1) // 2,
        copies=_whole(row, "instance_count"),
    )
    chip = deployment.accelerator
    if not chip.name.startswith(("Inferentia", "Trainium")):
        raise InputError(f"server `{_text(row, 'server')}` does not run on {chip.name}; expected ml.inf2, trn1 or trn2")
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


def model_shape(name: str) -> catalog.Architecture:
    """The shape of a model by catalog name (`Llama 2 7B`) or Hugging Face id, in any case; chat and instruct variants
    have their base model's. A name that ends in .json is a model's own config.json. Raises InputError with the nearest
    names, or with what is wrong in that file."""
    from loadproof import catalog
    from loadproof.catalog.config_json import read_config_json

    if name.strip().endswith(".json"):
        return read_config_json(Path(name.strip()))
    found = catalog.architecture(name)
    if found is not None:
        return found
    known = catalog.architectures().values()
    by_key = {key.casefold(): shape for shape in known for key in (shape.name, shape.hf_id, shape.hf_id.split("/")[-1])}
    wanted = name.strip().casefold()
    spaced = re.sub(r"(-instruct|-chat)?(-v\d[\d.]*)?$", "", wanted).replace("-", " ")
    for key in (
        wanted,
        spaced,
        *(wanted.removesuffix(end) for end in (" chat", " instruct", "-instruct", "-chat-hf", "-hf")),
    ):
        for candidate in (key, f"{key}-hf", f"{key}-instruct"):
            if candidate in by_key:
                return by_key[candidate]
    names = {shape.name.casefold(): shape.name for shape in known} | {s.hf_id.casefold(): s.hf_id for s in known}
    near = [names[key] for key in difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)]
    hint = f"did you mean {', '.join(near)}?" if near else "give a catalog name or a Hugging Face id"
    raise InputError(f"unknown model `{name}`; {hint}")


def _server(text: str) -> tuple[str, str]:
    """(family, version) of `TGI`, `tgi 1.1.0`, `vLLM (SageMaker DLC ...)` or `LMI continuous batching`.

    Raises InputError for a server no row speaks of, and for dynamic batching of any but LMI.
    """
    words = text.replace(":", " ").replace("-", " ").split()
    family = _SERVERS.get(words[0].casefold()) if words else None
    if family is None or "neuron" in text.casefold():
        raise InputError(f"server `{text}`: nothing is known of it; expected {', '.join(sorted([*_SERVERS, _NEURON]))}")
    if "dynamic batching" in text.casefold() and family != "lmi":
        raise InputError(f"server `{text}`: dynamic batching is LMI's; expected `lmi dynamic batching`")
    version = words[1].lstrip("v") if len(words) > 1 and words[1].lstrip("v")[:1].isdigit() else ""
    return family, version or (_FITTED_TGI if family == "tgi" else "")


def _dynamic_batching(text: str) -> dict[str, str]:
    """LMI's variables for `LMI dynamic batching (batch_size=4, max_batch_delay=100)`; its defaults for what is left
    out, nothing for any other server."""
    if "dynamic batching" not in text.casefold():
        return {}
    names = {"batch_size": "SERVING_BATCH_SIZE", "max_batch_delay": "SERVING_MAX_BATCH_DELAY"}
    given = dict(re.findall(r"(batch_size|max_batch_delay)\s*=\s*(\d+)", text))
    return {"OPTION_ROLLING_BATCH": "disable", **{names[name]: value for name, value in given.items()}}


def _text(row: Mapping[str, str | None], name: str) -> str:
    value = (row[name] or "").strip()
    if not value:
        raise InputError(f"{name} is empty")
    return value


def _whole(row: Mapping[str, str | None], name: str, least: int = 1) -> int:
    """A count of at least `least`; `256.0` is 256, and a mean such as `601.1` the nearest whole number."""
    text = _text(row, name)
    try:
        value = round(float(text))
    except (ValueError, OverflowError):
        raise InputError(f"{name}: expected a number of at least {least}, found `{text}`") from None
    if value < least:
        raise InputError(f"{name}: expected a number of at least {least}, found `{text}`")
    return value
