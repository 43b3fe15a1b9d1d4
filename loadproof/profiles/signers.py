"""`deploy_profiles/signers.yaml`: whose signatures make a run evidence. What is not listed there is only claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from loadproof.errors import InputError, ProfileError
from loadproof.profiles.building import WRONG, build_part
from loadproof.profiles.reader import read_yaml
from loadproof.profiles.tree import Problems
from loadproof.vocabulary import Form, Part

FILE_NAME: Final = "signers.yaml"
SignerKind = Literal["gate", "person"]

PublicKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^-----BEGIN PUBLIC KEY-----\n[A-Za-z0-9+/=\n]{40,2000}\n-----END PUBLIC KEY-----\n?$",
        max_length=4096,
    ),
    Form("a public key in PEM, as a block of text below `|`", "-----BEGIN PUBLIC KEY-----"),
]


class Signer(Part):
    """One public key or identity, and for whom it speaks."""

    name: Annotated[str, StringConstraints(pattern=r"^[\w.@+-]+( [\w.@+-]+)*$", max_length=80)] = Field(
        description="as verdicts name it: a person, or where the gate runs"
    )
    kind: SignerKind = Field(description="gate: only the gate's job may sign with it; person: somebody at a keyboard")
    public_key: PublicKey | None = Field(
        default=None, description="Ed25519, or ECDSA on P-256 as AWS KMS has it; PEM. Or identity and issuer instead"
    )
    identity: Annotated[str, StringConstraints(min_length=3, max_length=500)] | None = Field(
        default=None,
        description="in place of a key, whom a Sigstore certificate names: a workflow's address at a ref, or an e-mail",
    )
    issuer: Annotated[str, StringConstraints(pattern=r"^https://[\x21-\x7e]+$", max_length=100)] | None = Field(
        default=None,
        description="whose word for that identity counts, as `https://token.actions.githubusercontent.com`",
    )
    environments: tuple[Annotated[str, StringConstraints(min_length=1, max_length=100)], ...] = Field(
        default=(), max_length=100, description="it counts for runs of these environments only; default: all"
    )


class Signers(Part):
    """Everyone whose signature counts. Who stands twice counts as the gate."""

    signers: Annotated[tuple[Signer, ...], Field(max_length=100)] = Field(description="each with its key or identity")
    trusted_root: Annotated[str, StringConstraints(max_length=100_000)] | None = Field(
        default=None, description="Sigstore's trusted_root.json as a block of text, to check identities by"
    )


def is_signers(file: Path) -> bool:
    """True for the file of signers: never a profile."""
    return file.name == FILE_NAME


def signers_of(content: bytes, file: str) -> Signers:
    """Raises ProfileError with every problem, InputError for what does not go together."""
    problems = Problems()
    tree = read_yaml(content, file, problems)
    part = WRONG if tree is None else build_part(Signers, tree, problems)
    if problems.errors or part is WRONG:
        raise ProfileError(problems.found)
    for signer in part.signers:
        by_identity = signer.identity is not None and signer.issuer is not None
        if (signer.public_key is None) != by_identity or (signer.identity is None) != (signer.issuer is None):
            raise InputError(f"{file}: {signer.name}: expected either public_key, or identity and issuer; write one")
        if by_identity and part.trusted_root is None:
            raise InputError(f"{file}: {signer.name}: an identity is checked by trusted_root; add Sigstore's")
    return part


def read_signers(file: Path) -> Signers | None:
    """None where there is no such file. Raises ProfileError, InputError."""
    try:
        return signers_of(file.read_bytes(), str(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); look at its name and permissions") from None
