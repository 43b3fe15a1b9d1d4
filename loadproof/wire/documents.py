"""Names for JSON whose shape somebody else owns: AWS's answers, a template's properties, a message."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any
Document: TypeAlias = dict[str, Json]
