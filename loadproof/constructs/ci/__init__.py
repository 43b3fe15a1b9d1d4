"""Roles that a repository's pipelines take by OIDC: no stored key, each trusting exactly one kind of job."""
