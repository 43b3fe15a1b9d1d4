"""From deployed resources to a running container, or to the reason why it cannot start.

Nothing here knows of profiles: image, variables, instance type, accelerators and two tags are all there is, as on AWS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from loadproof.capacity import (
    PlannedDeployment,
    StepTimes,
    architecture_from_tag,
    deployment_from_container,
    memory_fit,
)
from loadproof.capacity.memory import batch_limits
from loadproof.errors import LoadproofError
from loadproof.families import FAMILIES, UNLIMITED, family_and_version
from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.arguments import check_arguments, check_shape
from loadproof.localcloud.model_server.clock import Clock
from loadproof.localcloud.model_server.container import CannotStartError, Container
from loadproof.localcloud.model_server.contract import (
    NoSuchRoute,
    Place,
    check_contract,
    ignores_adapters,
    loads_adapters,
)
from loadproof.localcloud.model_server.engine import Engine
from loadproof.localcloud.model_server.payloads import Adapted, dialect_of
from loadproof.localcloud.model_server.payloads.ask import ServerLimits
from loadproof.localcloud.model_server.twin import TwinContainer
from loadproof.profiles.schema import Family
from loadproof.simulation import ContinuousBatcher

MODEL_ID_TAG = "loadproof:model-id"
ARCHITECTURE_TAG = "loadproof:architecture"
# By which TGI, LMI, vLLM's and SGLang's images are told what to load.
_MODEL_VARIABLES = ("HF_MODEL_ID", "OPTION_MODEL_ID", "SM_VLLM_MODEL", "SM_SGLANG_MODEL_PATH", "MODEL_ID")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def check_image(view: ContainerView, place: Place) -> None:
    """Raises CannotStartError for what the image itself refuses, whatever answers in its place."""
    known = family_and_version(view.image)
    if known is not None:
        check_contract(view, place, known[0])
        _check_arguments(view, place, known[0])


def model_id_in(variables: Mapping[str, str]) -> str | None:
    """The model that a container's variables name, None where they name a folder or nothing."""
    named = (variables.get(name, "") for name in _MODEL_VARIABLES)
    return next((value for value in named if _HUB_ID.fullmatch(value)), None)


def _known() -> str:
    """`TGI, LMI (djl-inference), vLLM and SGLang`."""
    *others, last = (family.called for family in FAMILIES.values() if family.image is not None)
    return f"{', '.join(others)} and {last}"


def twin_deployment(view: ContainerView, place: Place) -> tuple[Family, PlannedDeployment]:
    """The planner's view of one copy. Raises CannotStartError with the reason a real container would die of."""
    known = family_and_version(view.image)
    if known is None:
        raise CannotStartError(
            f"the twin knows no model server in image {view.image}; known are {_known()}. "
            "Start the local cloud with --backend URL to put your own server behind it"
        )
    family, version = known
    check_contract(view, place, family)
    _check_arguments(view, place, family)
    model_id = view.tags.get(MODEL_ID_TAG) or model_id_in(view.environment)
    if not model_id:
        raise CannotStartError(
            f"the model has no tag {MODEL_ID_TAG}, and no variable names a model of Hugging Face: the twin cannot know "
            "what the container would load. Tag the AWS::SageMaker::Model or the inference component with its id"
        )
    shape = view.tags.get(ARCHITECTURE_TAG)
    try:
        deployment = deployment_from_container(
            family=family,
            version=version,
            variables=view.environment,
            model_id=model_id,
            architecture=architecture_from_tag(shape) if shape else None,
            instance_type=place.instance_type,
            accelerators_per_copy=place.accelerators_per_copy,
            copies=1,
        )
    except LoadproofError as error:
        raise CannotStartError(str(error)) from None
    check_shape(view, family, deployment.architecture, model_id)
    _check_memory(family, deployment)
    return family, deployment


def _check_arguments(view: ContainerView, place: Place, family: Family) -> None:
    try:
        check_arguments(view, place, family)
    except LoadproofError as error:
        raise CannotStartError(str(error)) from None


def _check_memory(family: Family, deployment: PlannedDeployment) -> None:
    fit = memory_fit(deployment)
    if fit.fits != "no":
        return
    where = f"{deployment.model_id} on {deployment.accelerators} accelerator(s) of {deployment.instance.instance_type}"
    if fit.kv_cache_gib <= 0:
        raise CannotStartError(
            f"CUDA out of memory: {where}: {fit.weights_gib:.1f} GiB of weights on each, {fit.usable_gib:.1f} usable"
        )
    if not FAMILIES[family].holds_longest:
        return
    raise CannotStartError(
        f"{where}: the longest request the server admits, {fit.longest_request_tokens} tokens, is larger than the "
        f"{fit.kv_token_capacity} tokens the KV cache can hold; bound the model length or use more memory"
    )


def start_twin(view: ContainerView, place: Place, clock: Clock) -> Container:
    """One copy of the twin, ready to serve. Raises CannotStartError."""
    family, deployment = twin_deployment(view, place)
    if view.adapter and not loads_adapters(view):
        return NoSuchRoute()
    batcher = ContinuousBatcher(StepTimes(deployment), batch_limits(deployment))
    limits = server_limits(deployment)
    protocol = FAMILIES[family].protocol
    assert protocol is not None  # only containers of nobody's known family say it themselves
    dialect = dialect_of(protocol, limits, deployment.model_id)
    if view.adapter and not ignores_adapters(view):
        dialect = Adapted(dialect, view.model_data_s3_uri or "")
    return TwinContainer(Engine(batcher, clock), dialect, limits.max_admitted_requests)


def server_limits(deployment: PlannedDeployment) -> ServerLimits:
    """What the server's front admits. Unset total: the model's context; never more than the cache holds."""
    limits = deployment.limits
    longest = limits.max_request_tokens or deployment.architecture.context or UNLIMITED
    return ServerLimits(
        max_total_tokens=min(longest, memory_fit(deployment).kv_token_capacity),
        max_input_tokens=limits.max_input_tokens,
        max_admitted_requests=limits.max_admitted_requests,
        max_body_bytes=limits.max_body_bytes,
    )
