"""Provisioned throughput, which CloudFormation has no resource for."""
