"""What one copy of a model can do, predicted: memory, step times, the load curve, its knee, cost.

Pure functions over the catalog's rows. Every figure that leaves this package is a prediction and is labelled so.
"""

from loadproof.capacity.curve import PredictedLevel, predict_level
from loadproof.capacity.deployment import (
    PlannedDeployment,
    architecture_as_tag,
    architecture_from_tag,
    deployment_from_container,
    deployment_of,
)
from loadproof.capacity.memory import MemoryFit, batch_limits, kv_bytes_per_token, memory_fit, weight_bytes
from loadproof.capacity.plan import Plan, make_plan
from loadproof.capacity.runs import PredictedRun, predict_run
from loadproof.capacity.steps import StepTimes
from loadproof.families import BatchLimits
from loadproof.knee import Knee, find_knee

__all__ = [
    "BatchLimits",
    "Knee",
    "MemoryFit",
    "Plan",
    "PlannedDeployment",
    "PredictedLevel",
    "PredictedRun",
    "StepTimes",
    "architecture_as_tag",
    "architecture_from_tag",
    "batch_limits",
    "deployment_from_container",
    "deployment_of",
    "find_knee",
    "kv_bytes_per_token",
    "make_plan",
    "memory_fit",
    "predict_level",
    "predict_run",
    "weight_bytes",
]
