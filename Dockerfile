# The command line: docker build -t loadproof . && docker run --rm -v "$PWD:/work" loadproof check
FROM public.ecr.aws/docker/library/python:3.12-slim
COPY requirements.txt requirements-uv.txt pyproject.toml README.md LICENSE NOTICE /src/
COPY app.py cdk.json package.json package-lock.json /src/
COPY loadproof /src/loadproof
COPY stacks /src/stacks
COPY benchmarks /src/benchmarks
COPY scripts/ci /src/scripts/ci
COPY docs/ci /src/docs/ci
COPY docs/runbook.md docs/review-findings.md /src/docs/
COPY deploy_profiles /src/deploy_profiles
# Synthesis, and so a review, runs the CDK's own Node.
COPY --from=public.ecr.aws/docker/library/node:22-slim /usr/local/bin/node /usr/local/bin/node
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends git && rm -rf /var/lib/apt/lists/* \
 && pip install --no-cache-dir --require-hashes -r /src/requirements.txt \
 && pip install --no-cache-dir --no-deps /src && rm -rf /src && useradd --create-home loadproof \
 && git config --system --add safe.directory /work
USER loadproof
WORKDIR /work
ENTRYPOINT ["loadproof"]
CMD ["--help"]
