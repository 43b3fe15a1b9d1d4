"""Whether a service may assume a role."""

from __future__ import annotations

from moto.backends import get_backend


def role_problem(account: str, role_arn: str, service: str) -> str | None:
    """Why a service cannot assume a role: it is missing, or its trust policy does not name the service."""
    role = next((one for one in get_backend("iam")[account]["aws"].roles.values() if one.arn == role_arn), None)
    if role is None:
        return "no such role"
    if service not in str(role.assume_role_policy_document):
        return f"its trust policy does not name {service}"
    return None
