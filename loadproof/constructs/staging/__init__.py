"""Weights from the hub into S3, by commit and with checksums, before a model is made of them."""
