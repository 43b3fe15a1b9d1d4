"""The deploy profile, typed and strict: every key an operator may write, with unit, bounds and meaning.

The models declare, and are frozen; files are read by the grammar compiled from them. Positions, YAML pitfalls and
cross-field rules live beside this folder (`reader.py`, `shapes.py`, `building.py`, `checks/`).
`deploy_profiles/schema.json` is generated from here, and so are the container's environment variables.
"""

from loadproof.profiles.schema.calibration import (
    CalibratedServer,
    CalibratedSpeculation,
    Calibration,
    CalibrationError,
    CalibrationSource,
    FabricParameters,
    OwnHardware,
    ServerParameters,
)
from loadproof.profiles.schema.container import Container, Family
from loadproof.profiles.schema.endpoint import (
    Adapter,
    Ami,
    AsyncInference,
    BlueGreenUpdate,
    Copies,
    CopiesUpdate,
    Endpoint,
    RollingUpdate,
    Routing,
)
from loadproof.profiles.schema.environment import BenchmarkJob, Environment, Network
from loadproof.profiles.schema.model import ArchitectureOverride, HubSource, JumpStartSource, Model, S3Source
from loadproof.profiles.schema.profile import Bedrock, Component, Profile, ProvisionedThroughput
from loadproof.profiles.schema.proving import Buffer, Objectives, Phase
from loadproof.profiles.schema.scaling import (
    Scaling,
    ScalingMetric,
    ScheduledScaling,
    SimpleScaling,
    StepScaling,
    TargetTracking,
    ToZero,
)
from loadproof.profiles.schema.workload import (
    Arrivals,
    TokenDistribution,
    Workload,
    WorkloadClass,
    WorkloadStep,
)
from loadproof.vocabulary import Part

__all__ = [
    "Adapter",
    "Ami",
    "ArchitectureOverride",
    "Arrivals",
    "AsyncInference",
    "Bedrock",
    "BenchmarkJob",
    "BlueGreenUpdate",
    "Buffer",
    "CalibratedServer",
    "CalibratedSpeculation",
    "Calibration",
    "CalibrationError",
    "CalibrationSource",
    "Component",
    "Container",
    "Copies",
    "CopiesUpdate",
    "Endpoint",
    "Environment",
    "FabricParameters",
    "Family",
    "HubSource",
    "JumpStartSource",
    "Model",
    "Network",
    "Objectives",
    "OwnHardware",
    "Part",
    "Phase",
    "Profile",
    "ProvisionedThroughput",
    "RollingUpdate",
    "Routing",
    "S3Source",
    "Scaling",
    "ScalingMetric",
    "ScheduledScaling",
    "ServerParameters",
    "SimpleScaling",
    "StepScaling",
    "TargetTracking",
    "ToZero",
    "TokenDistribution",
    "Workload",
    "WorkloadClass",
    "WorkloadStep",
]
