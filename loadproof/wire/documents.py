"""The one name for a JSON object whose shape somebody else owns: AWS's answers, a template's properties, a message."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
