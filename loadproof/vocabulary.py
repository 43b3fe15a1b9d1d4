"""Words and units that container families and every part of a profile share."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints


@dataclass(frozen=True, slots=True)
class Form:
    """A text's pattern in words, for messages: `a lower-case name such as chat-8b`."""

    words: str
    example: str


Name = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=40),
    Form("lower-case letters, digits and single hyphens, a letter first", "chat-8b"),
]
InstanceType = Annotated[
    str,
    StringConstraints(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$", max_length=40),
    Form("a SageMaker instance type", "ml.g5.2xlarge"),
]
S3Uri = Annotated[
    str,
    StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/\S*$", max_length=1024),
    Form("an S3 address", "s3://bucket/prefix/"),
]
Arn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:[0-9]{0,12}:\S+$", max_length=2048),
    Form("an ARN", "arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-a1b2c3"),
]
CommitHash = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{40}$"),
    Form("a commit of 40 hexadecimal digits", "0123456789abcdef0123456789abcdef01234567"),
]
EnvironmentName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,1023}$"),
    Form("a variable name of letters, digits and underscores", "OMP_NUM_THREADS"),
]
EnvironmentValue = Annotated[str, StringConstraints(max_length=1024)]
Acknowledged = dict[
    Annotated[str, StringConstraints(pattern=r"^LS[0-9]{3}$"), Form("a rule over templates", "LS006")],
    Annotated[str, StringConstraints(min_length=10, max_length=300), Form("a reason in words", "no data of persons")],
]
PositiveInt = Annotated[int, Field(ge=1)]
PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]

Dtype = Literal["bf16", "fp16", "fp32"]
Quantization = Literal["none", "fp8", "int8", "awq", "gptq", "mxfp4"]


class Part(BaseModel):
    """Base of every part of a profile."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)
    needed_without: ClassVar[dict[str, str]] = {}  # key -> the key in whose absence it is required


def setting(variable: str, description: str, **bounds: Any) -> Any:
    """An optional container setting: `variable` is the container's own environment variable for it."""
    return Field(default=None, description=description, json_schema_extra={"variable": variable}, **bounds)
