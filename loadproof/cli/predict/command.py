"""`loadproof predict`: the planner over rows of a CSV file. Every figure it adds is predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loadproof.errors import ExitCode
from loadproof.profiles import load_calibration
from loadproof.simulation.rows import predict_file


def predict(
    input: Annotated[Path, typer.Option(help="CSV: model, instance_type, instance_count, tp_degree, ...")],
    output: Annotated[Path, typer.Option(help="CSV to write: the same rows with the predictions beside them")],
    calibration: Annotated[
        Path | None, typer.Option(help="from `loadproof calibrate`: counts for rows of its server and accelerator")
    ] = None,
) -> int:
    """Predict each row of a CSV file.

    Throughput, latency and TTFT; a row it cannot predict gets a reason.

    Models, servers and instance types are read as tables write them (Llama-2-7B, tgi1.1.0, g5.2xlarge). A column
    cached_input_tokens, where there is one, says how much of each prompt a prefix cache holds; a column quantization
    how weights are stored, if not as the model's name or its published checkpoint says; columns speculative_method and
    speculative_tokens, how tokens are proposed; a column stream_interval, how many tokens the server sends at once.
    """
    measured = None
    if calibration is not None:
        measured = load_calibration(calibration)
    predicted, without = predict_file(input, output, measured)
    print(f"{output}: {predicted} rows predicted, {without} with a reason to read")
    return ExitCode.OK
