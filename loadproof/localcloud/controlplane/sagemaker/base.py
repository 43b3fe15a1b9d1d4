"""What all SageMaker operations share: the store, tags, paging."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from loadproof.localcloud.controlplane.sagemaker.lifecycle import Startable, settle
from loadproof.localcloud.controlplane.sagemaker.rules import RoleCheck
from loadproof.localcloud.controlplane.sagemaker.store import Store
from loadproof.localcloud.wire import Caller, Params, add_tags, paged, tag_map
from loadproof.wire.documents import Document


class Operations:
    """Set by `SageMakerApi`."""

    store: Store
    roles: RoleCheck
    scaled: Callable[[Caller, str], frozenset[str]]
    startable: Startable

    @property
    def lock(self) -> threading.RLock:
        return self.store.lock

    def settle(self) -> None:
        """Bring every status up to now. The caller holds the store's lock."""
        settle(self.store, self.startable)

    def tag(self, arn: str, tags: list[dict[str, str]] | None) -> None:
        """Before the thing is kept. Raises AwsError for keys that SageMaker refuses."""
        if tags:
            kept = self.store.tags.setdefault(arn, {})
            add_tags(kept, tag_map(tags, "ValidationException"), "ResourceLimitExceeded")


def page(items: Iterable[Document], params: Params, name_key: str, result_key: str) -> Document:
    """One page of a List operation: `NameContains`, newest first by default, `MaxResults` and `NextToken`."""
    contains = params.get("NameContains", "")
    rows = sorted((row for row in items if contains in row[name_key]), key=lambda row: row["CreationTime"])
    if params.get("SortOrder", "Descending") == "Descending":
        rows.reverse()
    return paged(rows, params, result_key, 10)
