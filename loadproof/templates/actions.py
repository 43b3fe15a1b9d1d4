"""Actions that are dangerous on their own, or together with iam:PassRole: one table for each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from loadproof.catalog.readers import rows

# What follows from having one of these -> the actions.
ESCALATING: Final[Mapping[str, tuple[str, ...]]] = {
    "can have any right": (
        *("cognito-identity:SetIdentityPoolRoles", "iam:AddClientIDToOpenIDConnectProvider", "iam:AddUserToGroup"),
        *("iam:AttachGroupPolicy", "iam:AttachRolePolicy", "iam:AttachUserPolicy", "iam:CreateAccessKey"),
        *("iam:CreateLoginProfile", "iam:CreateOpenIDConnectProvider", "iam:CreatePolicyVersion"),
        *("iam:CreateSAMLProvider", "iam:CreateServiceSpecificCredential", "iam:DeleteGroupPolicy"),
        *("iam:DeleteRolePermissionsBoundary", "iam:DeleteRolePolicy", "iam:DeleteUserPermissionsBoundary"),
        *("iam:DeleteUserPolicy", "iam:DetachGroupPolicy", "iam:DetachRolePolicy", "iam:DetachUserPolicy"),
        *("iam:PutGroupPolicy", "iam:PutRolePermissionsBoundary", "iam:PutRolePolicy"),
        *("iam:PutUserPermissionsBoundary", "iam:PutUserPolicy", "iam:ResetServiceSpecificCredential"),
        *("iam:SetDefaultPolicyVersion", "iam:UpdateAccessKey", "iam:UpdateAssumeRolePolicy"),
        *("iam:UpdateLoginProfile", "iam:UpdateOpenIDConnectProviderThumbprint", "iam:UpdateSAMLProvider"),
        "iam:DeactivateMFADevice",
        *(
            "sso:AttachManagedPolicyToPermissionSet",
            "sso:CreateAccountAssignment",
            "sso:PutInlinePolicyToPermissionSet",
        ),
    ),
    "can run his own code with the rights of others": (
        *("cloudformation:ExecuteChangeSet", "cloudformation:UpdateStack", "cloudformation:UpdateStackSet"),
        *("codebuild:StartBuild", "codebuild:StartBuildBatch", "codebuild:UpdateProject", "codecommit:GitPush"),
        *("datapipeline:PutPipelineDefinition", "ec2-instance-connect:SendSSHPublicKey"),
        *("ec2-instance-connect:SendSerialConsoleSSHPublicKey", "ec2:ModifyInstanceAttribute", "ecr:PutImage"),
        *("ecs:ExecuteCommand", "glue:UpdateDevEndpoint", "lambda:PublishLayerVersion", "lambda:UpdateAlias"),
        *("lambda:UpdateFunctionCode", "lambda:UpdateFunctionConfiguration"),
        *("sagemaker:CreatePresignedDomainUrl", "sagemaker:CreatePresignedNotebookInstanceUrl"),
        *("sagemaker:UpdateNotebookInstanceLifecycleConfig", "ssm:ResumeSession", "ssm:SendCommand"),
        *("ssm:StartSession", "ssm:UpdateDocument", "states:UpdateStateMachine"),
    ),
    "can open it to others": (
        *(
            "s3:PutBucketPolicy",
            "dynamodb:PutResourcePolicy",
            "ecr:PutRegistryPolicy",
            "ecr:SetRepositoryPolicy",
            "events:PutPermission",
        ),
        *("kinesis:PutResourcePolicy", "kms:CreateGrant", "kms:PutKeyPolicy", "lambda:AddLayerVersionPermission"),
        *("lambda:AddPermission", "lambda:CreateFunctionUrlConfig", "lambda:PutResourcePolicy"),
        *("lambda:UpdateFunctionUrlConfig", "s3:DeleteAccessPointPolicy", "s3:DeleteBucketPolicy"),
        *("s3:PutAccessPointPolicy", "s3:PutAccountPublicAccessBlock", "s3:PutBucketAcl"),
        *("s3:PutBucketPublicAccessBlock", "s3:PutObjectAcl", "s3:PutObjectVersionAcl"),
        *("secretsmanager:PutResourcePolicy", "sns:AddPermission", "sns:SetTopicAttributes", "sqs:AddPermission"),
        *("sqs:SetQueueAttributes", "ssm:ModifyDocumentPermission", "ssm:PutResourcePolicy"),
    ),
    "can act without being seen": (
        *("cloudtrail:DeleteTrail", "cloudtrail:PutEventSelectors", "cloudtrail:StopLogging", "cloudtrail:UpdateTrail"),
        *("config:DeleteConfigurationRecorder", "config:StopConfigurationRecorder", "guardduty:DeleteDetector"),
        *("organizations:LeaveOrganization",),
    ),
}
# Conditions under which an action is none of these: a grant that only AWS's services use for their own resources.
BOUND_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "kms:CreateGrant": ("kms:GrantIsForAWSResource", "kms:GranteePrincipal", "kms:ViaService"),
}
# What runs a role that is passed to it: with this and iam:PassRole somebody runs his own code as that role. The service
# models have a role's ARN in the input of most; here those that take it by another road, or that IAM calls otherwise.
_BY_OTHER_ROADS: Final = (
    *("cloudformation:CreateStackInstances", "codestar:CreateProject", "datapipeline:CreatePipeline"),
    *("dms:CreateReplicationTask", "elasticbeanstalk:CreateEnvironment", "greengrass:CreateDeployment"),
    *("iam:AddRoleToInstanceProfile", "imagebuilder:CreateInfrastructureConfiguration"),
    *("s3:PutReplicationConfiguration", "ssm:CreateAssociation", "ssm:StartAutomationExecution"),
)


@cache
def running_roles() -> tuple[str, ...]:
    """Every action that is given a role to run with. Rows: `scripts/role_takers.py` writes them."""
    derived = (f"{row['service']}:{name}" for row in rows("role_takers.csv") for name in row["actions"].split())
    return (*derived, *_BY_OTHER_ROADS)


# Policies of AWS's with all of a service, or with what it keeps for everybody.
BROAD_POLICIES: Final = (
    r"(?:.*(?:FullAccess|AdministratorAccess|ReadOnlyAccess)(?:_?[Vv]\d|-\w+|Policy)?|.*(?:Administrator|PowerUser(?:Access)?)"
    r"|AWSGlueServiceRole|AWSLambda(?:Execute|Role|(?:DynamoDB|Kinesis|MSK|SQSQueue)ExecutionRole|Invocation-DynamoDB)"
    r"|Amazon(?:EC2RoleforSSM|ElasticMapReduce(?:forEC2)?Role|SSM(?:AutomationRole|MaintenanceWindowRole))"
    r"|AmazonSSMManagedInstanceCore|SecretsManagerReadWrite|DataScientist|SecurityAudit|SupportUser|ViewOnlyAccess)"
)
