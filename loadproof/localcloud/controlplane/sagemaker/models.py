"""Models, endpoint configurations and tags."""

from __future__ import annotations

from loadproof.localcloud.controlplane.sagemaker.base import Operations, page
from loadproof.localcloud.controlplane.sagemaker.rules import check_config, check_model, check_role, refuse
from loadproof.localcloud.controlplane.sagemaker.store import Key, Stored, key
from loadproof.localcloud.controlplane.wire import Caller, Params
from loadproof.localcloud.documents import Document


class ModelOperations(Operations):
    """Resources that never change once made."""

    def CreateModel(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        check_model(params)
        check_role(self.roles, caller, params.get("ExecutionRoleArn", "(none)"))
        arn = self._store(self.store.models, caller, params["ModelName"], "model", params)
        return {"ModelArn": arn}

    def DescribeModel(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        with self.store.lock:
            model = self._find(self.store.models, caller, params["ModelName"], "model")
            return {**_without_tags(model.request), "ModelArn": model.arn, "CreationTime": model.created}

    def ListModels(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        with self.store.lock:
            rows = self._rows(self.store.models, caller, "Model")
        return page(rows, params, "ModelName", "Models")

    def DeleteModel(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self._delete(self.store.models, caller, params["ModelName"], "model")

    def CreateEndpointConfig(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        if params.get("ExecutionRoleArn"):
            check_role(self.roles, caller, params["ExecutionRoleArn"])
        with self.store.lock:
            check_config(self.store, caller, params)
            arn = self._store(self.store.configs, caller, params["EndpointConfigName"], "endpoint-config", params)
        return {"EndpointConfigArn": arn}

    def DescribeEndpointConfig(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        with self.store.lock:
            config = self._find(self.store.configs, caller, params["EndpointConfigName"], "endpoint-config")
            return {**_without_tags(config.request), "EndpointConfigArn": config.arn, "CreationTime": config.created}

    def ListEndpointConfigs(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        with self.store.lock:
            rows = self._rows(self.store.configs, caller, "EndpointConfig")
        return page(rows, params, "EndpointConfigName", "EndpointConfigs")

    def DeleteEndpointConfig(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self._delete(self.store.configs, caller, params["EndpointConfigName"], "endpoint-config")

    def AddTags(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        with self.store.lock:
            self._check_arn(params["ResourceArn"])
            self.tag(params["ResourceArn"], params["Tags"])
            return {"Tags": _tag_list(self.store.tags.get(params["ResourceArn"], {}))}

    def ListTags(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        with self.store.lock:
            self._check_arn(params["ResourceArn"])
            return {"Tags": _tag_list(self.store.tags.get(params["ResourceArn"], {}))}

    def DeleteTags(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with self.store.lock:
            self._check_arn(params["ResourceArn"])
            for name in params["TagKeys"]:
                self.store.tags.get(params["ResourceArn"], {}).pop(name, None)

    def _check_arn(self, arn: str) -> None:
        self.settle()
        tables = (self.store.models, self.store.configs, self.store.endpoints, self.store.components)
        if not any(one.arn == arn for table in tables for one in table.values()):
            raise refuse(f"Could not find resource {arn}.")

    def _store(self, table: dict[Key, Stored], caller: Caller, name: str, kind: str, params: Params) -> str:
        arn = caller.arn("sagemaker", f"{kind}/{name.lower()}")
        with self.store.lock:
            if key(caller, name) in table:
                raise refuse(f'Cannot create already existing {kind.replace("-", " ")} "{arn}".')
            table[key(caller, name)] = Stored(name=name, arn=arn, request=params)
            self.tag(arn, params.get("Tags"))
        return arn

    def _find(self, table: dict[Key, Stored], caller: Caller, name: str, kind: str) -> Stored:
        found = table.get(key(caller, name))
        if found is None:
            arn = caller.arn("sagemaker", f"{kind}/{name.lower()}")
            raise refuse(f'Could not find {kind.replace("endpoint-config", "endpoint configuration")} "{arn}".')
        return found

    def _delete(self, table: dict[Key, Stored], caller: Caller, name: str, kind: str) -> None:
        with self.store.lock:
            found = self._find(table, caller, name, kind)
            del table[key(caller, name)]
            self.store.tags.pop(found.arn, None)

    def _rows(self, table: dict[Key, Stored], caller: Caller, noun: str) -> list[Document]:
        return [
            {f"{noun}Name": one.name, f"{noun}Arn": one.arn, "CreationTime": one.created}
            for (account, region, _), one in table.items()
            if (account, region) == (caller.account, caller.region)
        ]


def _without_tags(request: Params) -> Params:
    return {name: value for name, value in request.items() if name != "Tags"}


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": name, "Value": value} for name, value in tags.items()]
