"""The twin behind a Bedrock model. Bedrock shows no machines: what stands in for them was chosen, not found out.

A model whose weights are open gets its own shape on a deployment that serves it well; any other gets the shape of
Llama 3.3 70B. So the figures say how a client behaves against an endpoint of this kind, never how fast Bedrock is.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import cache
from typing import Final

from loadproof.capacity import PlannedDeployment, StepTimes, deployment_from_container
from loadproof.capacity.memory import batch_limits
from loadproof.localcloud.bedrock.errors import BedrockError
from loadproof.localcloud.bedrock.models import Target
from loadproof.localcloud.model_server.clock import Clock
from loadproof.localcloud.model_server.container import ContainerDiedError
from loadproof.localcloud.model_server.engine import Engine, Generation, RejectedError
from loadproof.simulation import ContinuousBatcher


@dataclass(frozen=True, slots=True)
class StandIn:
    """One copy of vLLM, and how many such copies all on-demand requests of a model share."""

    hf_id: str
    instance_type: str
    accelerators: int
    copies: int


_SMALL: Final = StandIn("meta-llama/Llama-3.1-8B", "ml.p4d.24xlarge", 1, 8)
_LARGE: Final = StandIn("meta-llama/Llama-3.3-70B-Instruct", "ml.p4d.24xlarge", 8, 4)
_STAND_INS: Final = {
    "meta.llama3-8b-instruct-v1:0": StandIn("meta-llama/Meta-Llama-3-8B", "ml.p4d.24xlarge", 1, 8),
    "meta.llama3-1-8b-instruct-v1:0": _SMALL,
    "meta.llama3-1-70b-instruct-v1:0": StandIn("meta-llama/Llama-3.1-70B", "ml.p4d.24xlarge", 8, 4),
    "mistral.mistral-7b-instruct-v0:2": StandIn("mistralai/Mistral-7B-v0.1", "ml.p4d.24xlarge", 1, 8),
    "openai.gpt-oss-20b-1:0": StandIn("openai/gpt-oss-20b", "ml.p4d.24xlarge", 2, 4),
    "openai.gpt-oss-120b-1:0": StandIn("openai/gpt-oss-120b", "ml.p4d.24xlarge", 8, 4),
    "qwen.qwen3-32b-v1:0": StandIn("Qwen/Qwen3-32B", "ml.p4d.24xlarge", 4, 4),
    # Closed models that are sold as small and fast.
    "amazon.nova-micro-v1:0": _SMALL,
    "amazon.nova-lite-v1:0": _SMALL,
    "anthropic.claude-haiku-4-5-20251001-v1:0": _SMALL,
}


def stand_in_of(model_id: str) -> StandIn:
    return _STAND_INS.get(model_id, _LARGE)


class Pools:
    """The copies behind each model that somebody invoked. Belongs to one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._copies: dict[str, list[Engine]] = {}

    @contextlib.asynccontextmanager
    async def generating(self, target: Target, input_tokens: int, output_tokens: int) -> AsyncGenerator[Generation]:
        """One generation on the copy with the fewest requests; it is cancelled when the block ends before it does.

        A prompt longer than the stand-in's context takes as long as the longest it can read.
        Raises BedrockError when every copy's queue is full.
        """
        engine = min(self._engines(target), key=lambda one: one.outstanding)
        longest = _deployment(stand_in_of(target.model.model_id)).architecture.context
        try:
            generation = engine.submit(min(input_tokens, longest - output_tokens), output_tokens)
        except RejectedError:
            raise _full(target) from None
        try:
            yield generation
        except ContainerDiedError as died:
            raise BedrockError("ModelErrorException", f"The model did not finish: {died}") from None
        finally:
            engine.cancel(generation)

    async def close(self) -> None:
        for engines in self._copies.values():
            for engine in engines:
                await engine.close()

    def _engines(self, target: Target) -> list[Engine]:
        """On demand: as many copies as the stand-in has. Provisioned: one a model unit."""
        stand_in = stand_in_of(target.model.model_id)
        wanted = stand_in.copies if target.units is None else target.units
        key = target.model.model_id if target.units is None else target.key
        engines = self._copies.setdefault(key, [])
        while len(engines) < wanted:
            deployment = _deployment(stand_in)
            engines.append(Engine(ContinuousBatcher(StepTimes(deployment), batch_limits(deployment)), self._clock))
        return engines[:wanted]


def _full(target: Target) -> BedrockError:
    if target.units is not None:
        return BedrockError("ThrottlingException", "Too many requests, please wait before trying again.")
    return BedrockError("ServiceUnavailableException", "Too many connections, please wait before trying again.")


@cache
def _deployment(stand_in: StandIn) -> PlannedDeployment:
    return deployment_from_container(
        family="vllm",
        version="",
        variables={},
        model_id=stand_in.hf_id,
        architecture=None,
        instance_type=stand_in.instance_type,
        accelerators_per_copy=stand_in.accelerators,
        copies=1,
    )
