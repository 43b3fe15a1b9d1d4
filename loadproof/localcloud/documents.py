"""JSON by name. Its shapes are AWS's own, checked at the border by botocore's models."""

from __future__ import annotations

from typing import Any

Json = Any
Document = dict[str, Json]
