"""Options of `loadproof bench` that let other machines, or another engine, send the load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from loadproof.errors import InputError

Engine = Literal["loadproof", "aiperf"]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options as given."""

    HEADING: ClassVar = "Several hosts, another engine"

    remote: Annotated[
        bool,
        typer.Option("--remote", help="send from a SageMaker Processing job of --hosts instances"),
    ] = False
    hosts: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="instances of the job; without --remote hosts on this machine: a rehearsal"),
    ] = None
    results: Annotated[str | None, typer.Option(help="s3://BUCKET[/PREFIX] where hosts meet and results stay")] = None
    job_role: Annotated[str | None, typer.Option(help="ARN of the job's role: S3 and the endpoint")] = None
    job_image: Annotated[str | None, typer.Option(help="container image of the job (docs/benchmark-remote.md)")] = None
    job_instance_type: Annotated[str, typer.Option(help="instance type of the job's hosts")] = "ml.c7i.2xlarge"
    job_subnet: Annotated[list[str] | None, typer.Option(help="subnet of the job's hosts, repeatable")] = None
    job_security_group: Annotated[
        list[str] | None, typer.Option(help="security group of the job's hosts, repeatable")
    ] = None
    engine: Annotated[
        Engine,
        typer.Option(help="who sends: Loadproof, or AWS's managed benchmark job (AIPerf) where the account has it"),
    ] = "loadproof"
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print the requests to AWS as JSON; ask and send nothing")
    ] = False

    @property
    def wanted(self) -> bool:
        """Does somebody else than this process send the load?"""
        return self.remote or self.hosts is not None or self.engine == "aiperf"

    def check(self, resume: Path | None) -> None:
        """Refuse what is missing or does not go together, all of it at once. Raises InputError."""
        if not self.wanted:
            if self.dry_run or self.results or self.job_role or self.job_image:
                raise InputError("--dry-run, --results, --job-role and --job-image go with --remote or --engine aiperf")
            return
        if resume is not None:
            raise InputError("--resume sends from this machine; leave out --remote, --hosts and --engine")
        needed = {"--results s3://BUCKET/PREFIX": self.results}
        if self.remote or self.engine == "aiperf":
            needed["--job-role ARN"] = self.job_role
        if self.remote and self.engine == "loadproof":
            needed["--job-image URI"] = self.job_image
        if missing := [name for name, value in needed.items() if value is None]:
            raise InputError(
                f"needs {', '.join(missing)}: where hosts meet, and what the job runs as (docs/benchmark-remote.md)"
            )
        if self.results is not None:
            from loadproof.bench.s3_store import parse_uri  # noqa: PLC0415  brings boto3 along

            parse_uri(self.results)
        if self.engine == "aiperf" and self.hosts is not None:
            raise InputError("--engine aiperf is a job of AWS's own: leave out --hosts")
