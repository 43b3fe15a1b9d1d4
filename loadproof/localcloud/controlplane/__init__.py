"""The control plane of the local cloud: SageMaker, Application Auto Scaling, CloudFormation, and moto for the rest."""
