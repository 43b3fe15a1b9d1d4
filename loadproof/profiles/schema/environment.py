"""What `cdk deploy -c env=<folder>` is pointed at: deploy_profiles/<environment>/environment.yaml."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from loadproof.vocabulary import Acknowledged, Arn, Form, InstanceType, Part


class Network(Part):
    """The VPC the containers and the consumer run in."""

    vpc_id: Annotated[
        str, StringConstraints(pattern=r"^vpc-[0-9a-f]{8,17}$"), Form("a VPC id", "vpc-0123456789abcdef0")
    ]
    subnet_ids: Annotated[
        tuple[
            Annotated[
                str,
                StringConstraints(pattern=r"^subnet-[0-9a-f]{8,17}$"),
                Form("a subnet id", "subnet-0123456789abcdef0"),
            ],
            ...,
        ],
        Field(min_length=1),
    ]
    security_group_ids: Annotated[
        tuple[
            Annotated[
                str,
                StringConstraints(pattern=r"^sg-[0-9a-f]{8,17}$"),
                Form("a security group id", "sg-0123456789abcdef0"),
            ],
            ...,
        ],
        Field(min_length=1),
    ]
    vpc_endpoints: bool = Field(
        default=False, description="make the VPC endpoints that containers and consumer need: a stack of their own"
    )
    route_table_ids: tuple[
        Annotated[
            str,
            StringConstraints(pattern=r"^rtb-[0-9a-f]{8,17}$"),
            Form("a route table id", "rtb-0123456789abcdef0"),
        ],
        ...,
    ] = Field(default=(), description="the subnets' route tables, for S3's gateway endpoint")


Email = Annotated[
    str,
    StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=254),
    Form("an e-mail address", "on-call@example.com"),
]


class BenchmarkJob(Part):
    """Where benchmarks run in the cloud: a stack of its own, once for the environment (docs/gate.md)."""

    image: Annotated[
        str,
        StringConstraints(
            pattern=r"^[0-9]{12}\.dkr\.ecr(-fips)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/[a-z0-9._/-]+(:[\w.-]+|@sha256:[0-9a-f]{64})$",
            max_length=255,
        ),
        Form("an image in Amazon ECR with a tag or digest", "123456789012.dkr.ecr.us-east-1.amazonaws.com/bench:1.0"),
    ] = Field(description="image that holds Loadproof's benchmark (docs/benchmark-remote.md)")
    instance_type: InstanceType = Field(default="ml.c7i.2xlarge", description="of the instances that send the load")
    results_retention_days: Annotated[int, Field(ge=1, le=3650)] = 365
    signing_kms_key_arn: (
        Annotated[
            str,
            StringConstraints(
                pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]{1,128}$", max_length=300
            ),
            Form("the ARN of a KMS key", "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"),
        ]
        | None
    ) = Field(default=None, description="key (ECC_NIST_P256, SIGN_VERIFY) that the job signs its runs with")


AccountId: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{12}$"), Form("twelve digits in quotes", "123456789012")
]


class Environment(Part):
    """What `cdk deploy -c env=<folder>` is pointed at."""

    account: AccountId = Field(description="twelve digits, quoted")
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$"), Form("an AWS region", "us-east-1")]
    network: Network | None = None
    kms_key_arn: Arn | None = Field(default=None, description="key for volumes, queues, results and logs")
    alarm_topic_arn: Arn | None = Field(default=None, description="SNS topic that alarms notify")
    alarm_emails: tuple[Email, ...] = Field(
        default=(), max_length=20, description="without alarm_topic_arn: each stack makes a topic that tells these"
    )
    runbook_url: Annotated[str, StringConstraints(min_length=1, max_length=300)] = Field(
        default="docs/runbook.md", description="page that alarms point to, with a section for each of them"
    )
    results_on_destroy: Literal["keep", "delete"] = Field(
        default="keep",
        description="what `cdk destroy` does with the buffer's results: keep the bucket, or delete it with all in it",
    )
    log_retention_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365] = 30
    hub_url: Annotated[
        str,
        StringConstraints(pattern=r"^(https://\S+|http://(127\.0\.0\.1|localhost)(:[0-9]+)?(/\S*)?)$"),
        Form("an https address", "https://huggingface.co"),
    ] = Field(default="https://huggingface.co", description="the hub, or a mirror of it, that weights are staged from")
    weights_accounts: tuple[AccountId, ...] = Field(
        default=(), max_length=20, description="accounts besides this one whose buckets weights may come from"
    )
    acknowledged: Acknowledged = Field(
        default_factory=dict,
        description="rules over templates (docs/template-checks.md) accepted here, each with the reason",
    )
    benchmark: BenchmarkJob | None = Field(
        default=None, description="benchmarks in the cloud: what gates and schedules of profiles need"
    )
    tags: dict[
        Annotated[str, StringConstraints(min_length=1, max_length=128)],
        Annotated[str, StringConstraints(max_length=256)],
    ] = Field(default_factory=dict)
