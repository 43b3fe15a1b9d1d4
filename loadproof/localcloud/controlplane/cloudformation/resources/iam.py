"""AWS::IAM::Role, Policy, ManagedPolicy, OIDCProvider. Nothing here enforces permissions; they are stored as given."""

from __future__ import annotations

import contextlib

from botocore.client import BaseClient

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    ResourceType,
    Work,
    as_text,
    changed,
    names,
    picked,
    tag_rows,
    tagged,
)
from loadproof.wire.documents import Document


class Role(ResourceType):
    type_name = "AWS::IAM::Role"
    supported = names(
        "AssumeRolePolicyDocument Description ManagedPolicyArns MaxSessionDuration Path PermissionsBoundary Policies "
        "RoleName Tags"
    )
    name_property = "RoleName"

    def create(self, work: Work, properties: Properties) -> Made:
        iam, name = work.client("iam"), self.name(work, properties)
        role = iam.create_role(
            RoleName=name,
            AssumeRolePolicyDocument=as_text(properties["AssumeRolePolicyDocument"]),
            Tags=tag_rows(work, properties),
            **picked(properties, "Description", "MaxSessionDuration", "Path", "PermissionsBoundary"),
        )["Role"]
        self._set_policies(iam, name, {}, properties)
        return Made(name, picked(role, "Arn", "RoleId"))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        iam = work.client("iam")
        trust = as_text(new["AssumeRolePolicyDocument"])
        iam.update_assume_role_policy(RoleName=physical_id, PolicyDocument=trust)
        iam.update_role(RoleName=physical_id, **picked(new, "Description", "MaxSessionDuration"))
        self._set_policies(iam, physical_id, old, new)
        if tag_rows(work, new):
            iam.tag_role(RoleName=physical_id, Tags=tag_rows(work, new))
        return picked(iam.get_role(RoleName=physical_id)["Role"], "Arn", "RoleId")

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        iam = work.client("iam")
        self._set_policies(iam, physical_id, properties, {})
        iam.delete_role(RoleName=physical_id)

    def _set_policies(self, iam: BaseClient, name: str, old: Properties, new: Properties) -> None:
        inline = {policy["PolicyName"]: policy["PolicyDocument"] for policy in new.get("Policies", [])}
        for policy in old.get("Policies", []):
            if policy["PolicyName"] not in inline:
                iam.delete_role_policy(RoleName=name, PolicyName=policy["PolicyName"])
        for policy_name, document in inline.items():
            iam.put_role_policy(RoleName=name, PolicyName=policy_name, PolicyDocument=as_text(document))
        gone, added = changed(old, new, "ManagedPolicyArns")
        for arn in gone:
            iam.detach_role_policy(RoleName=name, PolicyArn=arn)
        for arn in added:
            iam.attach_role_policy(RoleName=name, PolicyArn=arn)


class Policy(ResourceType):
    """An inline policy, embedded in roles, users and groups."""

    type_name = "AWS::IAM::Policy"
    supported = names("Groups PolicyDocument PolicyName Roles Users")
    _kinds = (("Roles", "role", "RoleName"), ("Users", "user", "UserName"), ("Groups", "group", "GroupName"))

    def create(self, work: Work, properties: Properties) -> Made:
        self._put(work, properties)
        return Made(work.generated_name(64), {"Id": properties["PolicyName"]})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        self._put(work, new)
        for listing, kind, key in self._kinds:
            kept = set(new.get(listing, [])) if new["PolicyName"] == old["PolicyName"] else set()
            for name in set(old.get(listing, [])) - kept:
                self._remove(work, kind, key, name, old["PolicyName"])
        return {"Id": new["PolicyName"]}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        for listing, kind, key in self._kinds:
            for name in properties.get(listing, []):
                self._remove(work, kind, key, name, properties["PolicyName"])

    def _put(self, work: Work, properties: Properties) -> None:
        document = as_text(properties["PolicyDocument"])
        for listing, kind, key in self._kinds:
            for name in properties.get(listing, []):
                put = getattr(work.client("iam"), f"put_{kind}_policy")
                put(**{key: name}, PolicyName=properties["PolicyName"], PolicyDocument=document)

    def _remove(self, work: Work, kind: str, key: str, name: str, policy_name: str) -> None:
        iam = work.client("iam")
        # Its role may have gone first, and the policy with it.
        with contextlib.suppress(iam.exceptions.NoSuchEntityException):
            getattr(iam, f"delete_{kind}_policy")(**{key: name}, PolicyName=policy_name)


class ManagedPolicy(ResourceType):
    type_name = "AWS::IAM::ManagedPolicy"
    supported = names("Description ManagedPolicyName Path PolicyDocument Roles")
    name_property = "ManagedPolicyName"
    longest_name = 128

    def create(self, work: Work, properties: Properties) -> Made:
        iam = work.client("iam")
        arn = iam.create_policy(
            PolicyName=self.name(work, properties),
            PolicyDocument=as_text(properties["PolicyDocument"]),
            **picked(properties, "Description", "Path"),
        )["Policy"]["Arn"]
        for role in properties.get("Roles", []):
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
        return Made(arn, {"PolicyArn": arn})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        iam = work.client("iam")
        self._delete_older_versions(iam, physical_id)
        document = as_text(new["PolicyDocument"])
        iam.create_policy_version(PolicyArn=physical_id, PolicyDocument=document, SetAsDefault=True)
        gone, added = changed(old, new, "Roles")
        for role in gone:
            iam.detach_role_policy(RoleName=role, PolicyArn=physical_id)
        for role in added:
            iam.attach_role_policy(RoleName=role, PolicyArn=physical_id)
        return {"PolicyArn": physical_id}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        iam = work.client("iam")
        for role in iam.list_entities_for_policy(PolicyArn=physical_id)["PolicyRoles"]:
            iam.detach_role_policy(RoleName=role["RoleName"], PolicyArn=physical_id)
        self._delete_older_versions(iam, physical_id)
        iam.delete_policy(PolicyArn=physical_id)

    def _delete_older_versions(self, iam: BaseClient, arn: str) -> None:
        for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])


class OidcProvider(ResourceType):
    """An identity provider that roles may trust, such as a CI service's."""

    type_name = "AWS::IAM::OIDCProvider"
    supported = names("ClientIdList Tags ThumbprintList Url")
    deletion = ("iam", "delete_open_id_connect_provider", "OpenIDConnectProviderArn")

    def create(self, work: Work, properties: Properties) -> Made:
        arn = work.client("iam").create_open_id_connect_provider(
            Url=properties["Url"],
            ClientIDList=properties.get("ClientIdList", []),
            ThumbprintList=properties.get("ThumbprintList", []),
            **tagged(work, properties),
        )["OpenIDConnectProviderArn"]
        return Made(arn, {"Arn": arn})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        if old.get("ClientIdList") != new.get("ClientIdList"):
            raise ResourceFailedError("The local cloud does not change ClientIdList of an identity provider.")
        if new.get("ThumbprintList"):
            work.client("iam").update_open_id_connect_provider_thumbprint(
                OpenIDConnectProviderArn=physical_id, ThumbprintList=new["ThumbprintList"]
            )
        return {"Arn": physical_id}
