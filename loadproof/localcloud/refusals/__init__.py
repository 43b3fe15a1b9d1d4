"""What AWS refuses and moto would accept: a gate before moto, by botocore's service models and AWS's own documents.

Each service's rules are in a module of their own; they look at the request and at what exists, and change nothing.
"""

from __future__ import annotations

from loadproof.localcloud.refusals.gate import RefusalGate

__all__ = ["RefusalGate"]
