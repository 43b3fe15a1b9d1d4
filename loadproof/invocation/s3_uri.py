"""Where an object lies in S3."""

from __future__ import annotations

import re

S3_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.*)")  # bucket, key
