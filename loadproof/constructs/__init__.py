"""CDK constructs; one with code of its own to run in the cloud has `infrastructure.py` beside `runtime/`.

What is named here may be used in a CDK app of one's own (docs/constructs.md). Each is imported when it is asked for:
much of what lies below is read where no CDK is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadproof.constructs.buffer.infrastructure import Buffer as Buffer
    from loadproof.constructs.endpoint.execution_role import ExecutionRole as ExecutionRole
    from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint as ModelEndpoint
    from loadproof.constructs.endpoint.proof.infrastructure import Proof as Proof
    from loadproof.constructs.observability.alarms import Alarms as Alarms
    from loadproof.constructs.observability.dashboard import Dashboard as Dashboard
    from loadproof.constructs.own_app import deployment_in as deployment_in
    from loadproof.constructs.scaling.copy_scaling import CopyScaling as CopyScaling
    from loadproof.constructs.scaling.every_copy import scale_copies as scale_copies

_PLACES = {
    "Alarms": "observability.alarms",
    "Buffer": "buffer.infrastructure",
    "CopyScaling": "scaling.copy_scaling",
    "Dashboard": "observability.dashboard",
    "ExecutionRole": "endpoint.execution_role",
    "ModelEndpoint": "endpoint.model_endpoint",
    "Proof": "endpoint.proof.infrastructure",
    "deployment_in": "own_app",
    "scale_copies": "scaling.every_copy",
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("aws_cdk", "constructs"):
            raise
        said = f"{name} needs the CDK, which is not installed: pip install 'loadproof[cdk]'"
        raise ModuleNotFoundError(said, name=missing.name) from None
