"""Whose a key is, and what a local cloud does not read to say so."""

from __future__ import annotations

import subprocess
import sys

from moto.iam.models import iam_backends

from loadproof.localcloud.owners import owner_of


def test_a_key_is_its_accounts_whatever_its_partition() -> None:
    backend = iam_backends["210987654321"]["aws-cn"]
    backend.create_user("us-east-1", "somebody")
    key = backend.create_access_key("somebody")
    assert owner_of(key.access_key_id) == "210987654321"


def test_to_ask_makes_no_iam_of_another_partition() -> None:
    """Each would hold more than a thousand of AWS's policies. A key that nobody knows is the home account's."""
    account = iam_backends["310987654321"]
    assert account["aws"].access_keys == {}
    assert owner_of("AKIANOBODY") == "123456789012"
    assert list(account) == ["aws"]


def test_a_start_reads_nothing_of_the_machines_of_every_region() -> None:
    """moto's EC2 reads them all when it is imported: a third of what a start cost."""
    code = "import sys, loadproof.localcloud.server; print([one for one in sys.modules if one.startswith('moto.ec2')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
