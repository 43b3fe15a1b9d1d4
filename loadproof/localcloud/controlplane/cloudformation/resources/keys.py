"""AWS::KMS::Key and Alias, AWS::SSM::Parameter, AWS::ECR::Repository, AWS::SecretsManager::Secret."""

from __future__ import annotations

import json

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    PutType,
    ResourceFailedError,
    ResourceType,
    Work,
    as_text,
    names,
    picked,
    tag_rows,
)
from loadproof.wire.documents import Document


class Key(ResourceType):
    type_name = "AWS::KMS::Key"
    supported = names("Description Enabled EnableKeyRotation KeyPolicy KeySpec KeyUsage PendingWindowInDays Tags")

    def create(self, work: Work, properties: Properties) -> Made:
        kms = work.client("kms")
        policy = {"Policy": as_text(properties["KeyPolicy"])} if "KeyPolicy" in properties else {}
        request = picked(properties, "Description", "KeySpec", "KeyUsage")
        tags = tag_rows(work, properties, "TagKey", "TagValue")
        metadata = kms.create_key(**policy, **request, Tags=tags)["KeyMetadata"]
        self._set_state(work, metadata["KeyId"], {}, properties)
        return Made(metadata["KeyId"], picked(metadata, "Arn", "KeyId"))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        kms = work.client("kms")
        if "KeyPolicy" in new:
            kms.put_key_policy(KeyId=physical_id, PolicyName="default", Policy=as_text(new["KeyPolicy"]))
        kms.update_key_description(KeyId=physical_id, Description=new.get("Description", ""))
        self._set_state(work, physical_id, old, new)
        return {"Arn": work.caller.arn("kms", f"key/{physical_id}"), "KeyId": physical_id}

    def _set_state(self, work: Work, key_id: str, old: Properties, new: Properties) -> None:
        kms = work.client("kms")
        if _is_on(new, "Enabled", True) and not _is_on(old, "Enabled", True):
            kms.enable_key(KeyId=key_id)  # before its rotation, which a disabled key refuses
        if _is_on(new, "EnableKeyRotation"):
            kms.enable_key_rotation(KeyId=key_id)
        elif _is_on(old, "EnableKeyRotation"):
            kms.disable_key_rotation(KeyId=key_id)
        if not _is_on(new, "Enabled", True):
            kms.disable_key(KeyId=key_id)

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        days = int(properties.get("PendingWindowInDays", 30))
        work.client("kms").schedule_key_deletion(KeyId=physical_id, PendingWindowInDays=days)


class KeyAlias(PutType):
    type_name = "AWS::KMS::Alias"
    supported = names("AliasName TargetKeyId")
    name_property = "AliasName"
    deletion = ("kms", "delete_alias", "AliasName")

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        kms = work.client("kms")
        put = kms.update_alias if old else kms.create_alias
        put(AliasName=name, TargetKeyId=new["TargetKeyId"])
        return {}


class Parameter(PutType):
    type_name = "AWS::SSM::Parameter"
    _plain = names("AllowedPattern DataType Description Tier Type")
    supported = _plain | {"Name", "Tags", "Value"}
    name_property = "Name"
    longest_name = 200
    deletion = ("ssm", "delete_parameter", "Name")

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        request = picked(new, *self._plain)
        work.client("ssm").put_parameter(Name=name, Value=str(new["Value"]), Overwrite=bool(old), **request)
        return picked(new, "Type", "Value")


class Repository(ResourceType):
    type_name = "AWS::ECR::Repository"
    supported = names(
        "EmptyOnDelete EncryptionConfiguration ImageScanningConfiguration ImageTagMutability LifecyclePolicy "
        "RepositoryName RepositoryPolicyText Tags"
    )
    name_property = "RepositoryName"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("RepositoryName") or work.generated_name(200).lower()
        work.client("ecr").create_repository(
            repositoryName=name, imageTagMutability=properties.get("ImageTagMutability", "MUTABLE")
        )
        return Made(name, self.update(work, name, {}, properties))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        ecr = work.client("ecr")
        if "RepositoryPolicyText" in new:
            ecr.set_repository_policy(repositoryName=physical_id, policyText=as_text(new["RepositoryPolicyText"]))
        if "LifecyclePolicy" in new:
            text = new["LifecyclePolicy"]["LifecyclePolicyText"]
            ecr.put_lifecycle_policy(repositoryName=physical_id, lifecyclePolicyText=text)
        if "ImageScanningConfiguration" in new:
            scan = {"scanOnPush": bool(new["ImageScanningConfiguration"].get("ScanOnPush"))}
            ecr.put_image_scanning_configuration(repositoryName=physical_id, imageScanningConfiguration=scan)
        found = ecr.describe_repositories(repositoryNames=[physical_id])["repositories"][0]
        return {"Arn": found["repositoryArn"], "RepositoryUri": found["repositoryUri"]}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        force = bool(properties.get("EmptyOnDelete"))
        work.client("ecr").delete_repository(repositoryName=physical_id, force=force)


class Secret(ResourceType):
    """A secret with the value given, or a generated one."""

    type_name = "AWS::SecretsManager::Secret"
    supported = names("Description GenerateSecretString KmsKeyId Name SecretString Tags")
    name_property = "Name"
    longest_name = 512

    def create(self, work: Work, properties: Properties) -> Made:
        arn = work.client("secretsmanager").create_secret(
            Name=self.name(work, properties),
            SecretString=self._value(work, properties),
            Tags=tag_rows(work, properties),
            **picked(properties, "Description", "KmsKeyId"),
        )["ARN"]
        return Made(arn, {"Id": arn})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        told = ("SecretString", "GenerateSecretString")
        same = picked(old, *told) == picked(new, *told)
        value = {} if same else {"SecretString": self._value(work, new)}
        secrets = work.client("secretsmanager")
        secrets.update_secret(SecretId=physical_id, **picked(new, "Description", "KmsKeyId"), **value)
        if tag_rows(work, new):
            secrets.tag_resource(SecretId=physical_id, Tags=tag_rows(work, new))
        return {"Id": physical_id}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("secretsmanager").delete_secret(SecretId=physical_id, ForceDeleteWithoutRecovery=True)

    def _value(self, work: Work, properties: Properties) -> str:
        if "SecretString" in properties and "GenerateSecretString" in properties:
            raise ResourceFailedError("You can't specify both SecretString and GenerateSecretString.")
        if "SecretString" in properties:
            return str(properties["SecretString"])
        wanted = dict(properties.get("GenerateSecretString", {}))
        template, name = wanted.pop("SecretStringTemplate", None), wanted.pop("GenerateStringKey", None)
        generated: str = work.client("secretsmanager").get_random_password(**wanted)["RandomPassword"]
        return json.dumps({**json.loads(template), name: generated}) if template and name else generated


def _is_on(properties: Properties, name: str, default: bool = False) -> bool:
    return str(properties.get(name, default)).lower() == "true"
