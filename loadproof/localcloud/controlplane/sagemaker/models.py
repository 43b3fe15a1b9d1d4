"""Models, endpoint configurations and tags."""

from __future__ import annotations

from loadproof.localcloud.controlplane.sagemaker.base import Operations, page
from loadproof.localcloud.controlplane.sagemaker.existing import check_existing
from loadproof.localcloud.controlplane.sagemaker.rules import check_config, check_model, check_role
from loadproof.localcloud.controlplane.sagemaker.store import Stored, Table, refuse
from loadproof.localcloud.wire import Caller, Params, key
from loadproof.wire.documents import Document


class ModelOperations(Operations):
    """Resources that never change once made."""

    def CreateModel(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        check_model(params)
        check_role(self.roles, caller, params.get("ExecutionRoleArn", "(none)"))
        check_existing(caller, params)
        arn = self._create(self.store.models, caller, params["ModelName"], params)
        return {"ModelArn": arn}

    def DescribeModel(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        model = self.store.models.find(caller, params["ModelName"])
        return {**_without_tags(model.request), "ModelArn": model.arn, "CreationTime": model.created}

    def ListModels(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        return self._page(self.store.models, caller, params, "Model")

    def DeleteModel(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self._delete(self.store.models, caller, params["ModelName"])

    def CreateEndpointConfig(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        if params.get("ExecutionRoleArn"):
            check_role(self.roles, caller, params["ExecutionRoleArn"])
        check_config(self.store, caller, params)
        arn = self._create(self.store.configs, caller, params["EndpointConfigName"], params)
        return {"EndpointConfigArn": arn}

    def DescribeEndpointConfig(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        config = self.store.configs.find(caller, params["EndpointConfigName"])
        return {**_without_tags(config.request), "EndpointConfigArn": config.arn, "CreationTime": config.created}

    def ListEndpointConfigs(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        return self._page(self.store.configs, caller, params, "EndpointConfig")

    def DeleteEndpointConfig(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self._delete(self.store.configs, caller, params["EndpointConfigName"])

    def AddTags(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        self._check_arn(params["ResourceArn"])
        self.tag(params["ResourceArn"], params["Tags"])
        return {"Tags": _tag_list(self.store.tags.get(params["ResourceArn"], {}))}

    def ListTags(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        self._check_arn(params["ResourceArn"])
        return {"Tags": _tag_list(self.store.tags.get(params["ResourceArn"], {}))}

    def DeleteTags(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self._check_arn(params["ResourceArn"])
        for name in params["TagKeys"]:
            self.store.tags.get(params["ResourceArn"], {}).pop(name, None)

    def _check_arn(self, arn: str) -> None:
        self.settle()
        tables = (self.store.models, self.store.configs, self.store.endpoints, self.store.components)
        if not any(one.arn == arn for table in tables for one in table.values()):
            raise refuse(f"Could not find resource {arn}.")

    def _create(self, table: Table[Stored], caller: Caller, name: str, params: Params) -> str:
        arn = table.new_arn(caller, name)
        self.tag(arn, params.get("Tags"))
        table[key(caller, name)] = Stored(name=name, arn=arn, request=params)
        return arn

    def _delete(self, table: Table[Stored], caller: Caller, name: str) -> None:
        self.store.tags.pop(table.find(caller, name).arn, None)
        del table[key(caller, name)]

    def _page(self, table: Table[Stored], caller: Caller, params: Params, noun: str) -> Document:
        found = table.of(caller)
        rows = [{f"{noun}Name": one.name, f"{noun}Arn": one.arn, "CreationTime": one.created} for one in found]
        return page(rows, params, f"{noun}Name", f"{noun}s")


def _without_tags(request: Params) -> Params:
    return {name: value for name, value in request.items() if name != "Tags"}


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": name, "Value": value} for name, value in tags.items()]
