"""What is packed with a function: its own files, wire as it is, and nothing of this machine."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from pathlib import Path

import pytest
from processes import run_process

import loadproof.wire
from loadproof.constructs.buffer.consumer import RUNTIME
from loadproof.constructs.cdk.packing import inline_text, write_package

WIRE = Path(loadproof.wire.__file__).parent
CONSTRUCTS = Path(loadproof.__file__).parent / "constructs"
INLINE = ["bedrock/proof", "bedrock/quota", "benchmark", "cdk/emptied_bucket", "endpoint/kept_copies", "gate"]
HANDLERS = {
    "endpoint/proof": "proof.handler",
    "bedrock/throughput": "index",
    "staging": "begin",
    "buffer": "consumer.failures",
}


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_wire_is_packed_as_it_is(tmp_path: Path) -> None:
    """Byte by byte, under the name that it has in the library."""
    write_package(RUNTIME, tmp_path)
    packed = {file.name: file.read_bytes() for file in (tmp_path / "loadproof" / "wire").iterdir()}
    assert packed == {file.name: file.read_bytes() for file in WIRE.glob("*.py")}
    assert sorted(file.name for file in (tmp_path / "loadproof").iterdir()) == ["__init__.py", "wire"]


def test_two_packages_are_the_same(tmp_path: Path) -> None:
    """Wherever they are written, and whatever a run has left beside the sources: the asset's hash is of its content."""
    for name in ("one", "other"):
        write_package(RUNTIME, tmp_path / name)
    assert files(tmp_path / "one") == files(tmp_path / "other")
    assert not [name for name in files(tmp_path / "one") if name.endswith(".pyc")]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Lambda's Python brings: boto3 and what that needs, and no Loadproof."""
    folder = tmp_path_factory.mktemp("runtime")
    for name in ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3"):
        (folder / name).symlink_to(Path(str(sys.modules.get(name, __import__(name)).__file__)).parent)
    (folder / "six.py").symlink_to(Path(str(__import__("six").__file__)))
    return folder


def said(code: str, *path: Path) -> str:
    """What a bare interpreter prints that finds modules in `path` alone."""
    ran = run_process(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = sys.argv[1:]; {code}", *map(str, path)],
        env={**os.environ, "AWS_DEFAULT_REGION": "us-east-1"},
    )
    return ran.stdout.strip() or ran.stderr


@pytest.mark.parametrize(("place", "module"), HANDLERS.items(), ids=HANDLERS)
def test_a_package_imports_its_own_wire(place: str, module: str, tmp_path: Path, runtime: Path) -> None:
    """As Lambda finds it: the package first, then what the runtime brings."""
    write_package(CONSTRUCTS / place / "runtime", tmp_path)
    found = said(f"import {module}, loadproof.wire; print(loadproof.wire.__file__)", tmp_path, runtime)
    assert found == str(tmp_path / "loadproof" / "wire" / "__init__.py")


@pytest.mark.parametrize("place", INLINE)
def test_a_file_in_a_template_needs_no_other(place: str, tmp_path: Path, runtime: Path) -> None:
    """The shim stands in front, and the handler is there."""
    (tmp_path / "index.py").write_text(inline_text(CONSTRUCTS / place / "runtime" / "index.py"))
    assert said("import index; print(callable(index.handler))", tmp_path, runtime) == "True"


@pytest.mark.parametrize("place", INLINE)
def test_a_file_in_a_template_is_small(place: str) -> None:
    """CloudFormation takes a zip of 4 MB (4,096 characters until 2022); a template has 1 MB for all it holds."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.py", inline_text(CONSTRUCTS / place / "runtime" / "index.py"))
    assert len(packed.getvalue()) < 8192
