"""The payloads that model servers speak, by name. Each has its module in `invocation/codecs`."""

from __future__ import annotations

from typing import Literal

ContainerProtocol = Literal["tgi", "lmi", "openai", "openai-chat"]  # `openai` also takes chat messages
Protocol = Literal[ContainerProtocol, "converse"]  # what a target may be said to speak
PayloadName = Literal[ContainerProtocol, "converse", "llama", "claude"]  # all that have a codec


def title_of(protocol: ContainerProtocol) -> str:
    """Whose payload it is, for people."""
    match protocol:
        case "tgi":
            return "TGI"
        case "lmi":
            return "LMI"
        case "openai":
            return "OpenAI"
        case "openai-chat":
            return "OpenAI chat"
