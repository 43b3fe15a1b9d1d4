"""Image × accelerator × host: which host images run what, from the catalog's rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from profiles_samples import CHAT

from loadproof.catalog import host_images
from loadproof.families.custom import CustomContainer, CustomSettings
from loadproof.families.lmi import LmiContainer
from loadproof.families.tgi import TgiContainer
from loadproof.profiles import check_file
from loadproof.profiles.checks.facts import chosen_host, cuda_of, fitting_hosts
from loadproof.profiles.schema import Endpoint

GPU_12 = [f"al2-ami-sagemaker-inference-gpu-{name}" for name in ("2", "2-1", "3-1")]
GPU_13 = "al2023-ami-sagemaker-inference-gpu-4-1"
NEURON = "al2-ami-sagemaker-inference-neuron-2"
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"


def own(tag: str, cuda: str | None = None) -> CustomContainer:
    return CustomContainer(
        family="custom", image=f"{REGISTRY}/{tag}", cuda=cuda, settings=CustomSettings(protocol="openai")
    )


@pytest.mark.parametrize(
    ("instance_type", "container", "hosts"),
    [
        ("ml.g5.2xlarge", TgiContainer(family="tgi", version="3.3.6"), GPU_12),  # CUDA 12.4
        ("ml.g5.2xlarge", LmiContainer(family="lmi", version="0.38.0"), [GPU_13]),  # CUDA 13.0
        ("ml.g7e.2xlarge", LmiContainer(family="lmi", version="0.35.0"), []),  # 12.8 does not start on Blackwell's host
        ("ml.p6-b300.48xlarge", own("a:1", "12.9"), []),
        ("ml.p6-b300.48xlarge", own("a:1", "13.0"), [GPU_13]),
        ("ml.g7e.2xlarge", own("vllm:0.15.1-gpu-py312-cu129-ubuntu22.04-sagemaker"), [GPU_13]),  # AWS's example runs it
        ("ml.inf2.8xlarge", own("djl-inference:0.29.0-neuronx-sdk2.19.1"), [NEURON]),
        ("ml.inf2.8xlarge", own("a:cu124"), []),  # a CUDA image finds no GPU there
    ],
)
def test_hosts_that_run_it(instance_type: str, container: TgiContainer, hosts: list[str]) -> None:
    """A host starts images of its own CUDA generation; a chip wants a CUDA that knows it."""
    found = fitting_hosts(Endpoint(instance_type=instance_type), [container])
    assert [host.ami_version for host in found] == hosts


def test_images_of_two_generations_share_no_host() -> None:
    """TGI on CUDA 12.4 beside LMI on 13.0."""
    containers = [TgiContainer(family="tgi", version="3.3.6"), LmiContainer(family="lmi", version="0.38.0")]
    assert fitting_hosts(Endpoint(instance_type="ml.g5.12xlarge"), containers) == ()


@pytest.mark.parametrize(
    ("container", "host"),
    [
        (own("a:cu118"), GPU_12[0]),  # the oldest has 12.2
        (own("a:cu121"), GPU_12[0]),
        (TgiContainer(family="tgi", version="3.3.6"), GPU_12[2]),  # 12.4 as the image
        (LmiContainer(family="lmi", version="0.35.0"), GPU_12[2]),  # 12.8: the newest of its generation
        (LmiContainer(family="lmi", version="0.38.0"), GPU_13),
        (own("a:1"), None),  # nothing says its CUDA
    ],
)
def test_the_host_a_template_names(container: TgiContainer, host: str | None) -> None:
    """The oldest whose driver has the image's CUDA, else the newest that starts it: never SageMaker's default."""
    assert chosen_host(Endpoint(instance_type="ml.g5.2xlarge"), [container]) == host


@pytest.mark.parametrize(
    ("container", "cuda"),
    [
        (own("server:1.2-cu130"), "13.0"),
        (own("server:1.2-cuda12.4"), "12.4"),
        (own("server:1.2"), None),
        (own("server:1.2", "12.8"), "12.8"),
        (own("server:1.2-cu130", "12.8"), "12.8"),  # who wrote it knows better than the tag
    ],
)
def test_cuda_of_an_own_image(container: CustomContainer, cuda: str | None) -> None:
    """What the profile says, else what the tag says."""
    assert cuda_of(container) == cuda


def test_every_host_row_has_a_source() -> None:
    """A driver and its CUDA are facts of somebody's."""
    assert all(host.source and host.date for host in host_images().values())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("family: tgi", "family: tgi\n  cuda: '12.4'"), "LP235"),  # the catalog's own image
        (("instance_type: ml.g5.2xlarge", "instance_type: ml.g7e.2xlarge"), "LP324"),  # TGI's 12.4 on Blackwell
        (
            ("family: tgi", f"family: tgi\n  image: {REGISTRY}/djl-inference:0.29.0-neuronx-sdk2.19.1"),
            "LP315",
        ),
    ],
)
def test_what_cannot_run_is_refused(tmp_path: Path, change: tuple[str, str], code: str) -> None:
    """By one rule each, before anything is deployed."""
    (tmp_path / "chat.yaml").write_text(CHAT.replace(*change))
    assert {problem.code for problem in check_file(tmp_path / "chat.yaml").problems} == {code}
