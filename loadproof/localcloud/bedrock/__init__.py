"""Bedrock in the local cloud: its runtime, its control plane and its quotas.

Faithful: paths, payloads, event-stream frames, modelled errors with their status codes, which id may be invoked how,
quotas as token buckets (input + max_tokens on admission, settled at the end with the model's burndown), metrics.
Not here: signatures, guardrails, tools' use by the model, prompt caching, what models know. The text and its times are
the twin's, on a stand-in that somebody chose (`stand_ins.py`): Bedrock shows no machines, so nothing here predicts it.
"""

from loadproof.localcloud.bedrock.runtime import BedrockRuntime
from loadproof.localcloud.bedrock.store import BedrockStore

__all__ = ["BedrockRuntime", "BedrockStore"]
