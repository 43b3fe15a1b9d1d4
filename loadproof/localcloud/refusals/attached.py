"""What IAM does not delete while something is attached to it: IAM API reference, DeleteConflict."""

from __future__ import annotations

from collections.abc import Iterable

from moto.backends import get_backend

from loadproof.localcloud.refusals.rules import Moto, Rule, require
from loadproof.localcloud.wire import Caller, Params

_OF_SERVICES, _MOST_GROUPS = "/aws-service-role/", 10


def iam_of(caller: Caller) -> Moto:
    """moto's IAM of an account."""
    return get_backend("iam")[caller.account]["aws"]


def _delete_user(caller: Caller, params: Params) -> None:
    """IAM API reference, DeleteUser: a password, keys, certificates, devices, policies, groups."""
    iam = iam_of(caller)
    user = iam.users.get(params["UserName"])
    if user is None:
        return
    groups = [group for group in iam.groups.values() if any(one.name == user.name for one in group.users)]
    _check(
        ("must remove users from group first", groups),
        ("must delete login profile first", user.password),
        ("must delete access keys first", user.access_keys),
        ("must delete SSH public keys first", user.ssh_public_keys),
        ("must delete signing certificates first", user.signing_certificates),
        ("must deactivate MFA devices first", user.mfa_devices),
        ("must detach all policies first", user.managed_policies),
        ("must delete policies first", user.policies),
    )


def _delete_group(caller: Caller, params: Params) -> None:
    group = iam_of(caller).groups.get(params["GroupName"])
    if group is not None:
        _check(
            ("must remove users from group first", group.users),
            ("must detach all policies first", group.managed_policies),
            ("must delete policies first", group.policies),
        )


def _delete_device(caller: Caller, params: Params) -> None:
    used = [user for user in iam_of(caller).users.values() if params["SerialNumber"] in user.mfa_devices]
    require(not used, "DeleteConflict", "MFA VirtualDevice in use. Must deactivate first.", 409)


def _delete_policy(caller: Caller, params: Params) -> None:
    arn, iam = params["PolicyArn"], iam_of(caller)
    known = arn in iam.managed_policies
    require(known, "NoSuchEntity", f"Policy {arn} was not found.", 404)
    attached = iam.managed_policies[arn].attachment_count or _bounds(arn, [*iam.roles.values(), *iam.users.values()])
    require(not attached, "DeleteConflict", "Cannot delete a policy attached to entities.", 409)
    versions = len(iam.managed_policies[arn].versions)
    message = (
        "This policy has more than one version. Before you delete a policy, you must delete the policy's versions. "
        "The default version is deleted with the policy."
    )
    require(versions == 1, "DeleteConflict", message, 409)


def _bounds(arn: str, entities: Iterable[object]) -> bool:
    return any(getattr(one, "permissions_boundary_arn", None) == arn for one in entities)


def unmodifiable(caller: Caller, params: Params) -> None:
    """A service's own role is changed by the service alone: UnmodifiableEntity of the API reference."""
    name = params["RoleName"]
    own = any(one.name == name and one.path.startswith(_OF_SERVICES) for one in iam_of(caller).roles.values())
    message = f"Cannot perform the operation on the protected role '{name}' - this role is only modifiable by AWS"
    require(not own, "UnmodifiableEntity", message)


def _join(caller: Caller, params: Params) -> None:
    """IAM quotas: groups of a user."""
    groups, name = iam_of(caller).groups, params["UserName"]
    joined = [one for one in groups.values() if any(user.name == name for user in one.users)]
    message = f"Cannot exceed quota for GroupsPerUser: {_MOST_GROUPS}"
    there = any(one.name == params["GroupName"] for one in joined)
    require(there or len(joined) < _MOST_GROUPS, "LimitExceeded", message, 409)


def _check(*attached: tuple[str, object]) -> None:
    for words, held in attached:
        require(not held, "DeleteConflict", f"Cannot delete entity, {words}.", 409)


RULES: dict[str, Rule] = {
    "AddUserToGroup": _join,
    "DeleteUser": _delete_user,
    "DeleteGroup": _delete_group,
    "DeletePolicy": _delete_policy,
    "DeleteVirtualMFADevice": _delete_device,
    **dict.fromkeys(
        (
            "AddRoleToInstanceProfile",
            "DeleteRole",
            "DeleteRolePermissionsBoundary",
            "DeleteRolePolicy",
            "DetachRolePolicy",
            "UpdateRole",
        ),
        unmodifiable,
    ),
}
