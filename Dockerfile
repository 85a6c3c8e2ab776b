# A worker of a cluster, its tasks in Spark within the container. docs/containers.md says how it is configured.
# For executors in pods of their own (spark.master=k8s://..) see docs/clusters.md.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /src
# What is in the lock, by its hashes; pyspark is built from its sources here, and the build stays in this stage
COPY requirements.lock ./
RUN python -m venv /opt/kconnect \
    && /opt/kconnect/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
# The wheel has the program that hosts Java's plugins, which javac makes
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jdk-headless \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY core core
COPY cli cli
COPY java java
RUN /opt/kconnect/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM python:${PYTHON}-slim-bookworm
LABEL org.opencontainers.image.title="kconnect" \
      org.opencontainers.image.description="Kafka Connect for Python teams, with Spark beneath" \
      org.opencontainers.image.licenses="Apache-2.0"
# procps: Spark's scripts call ps. tini: as process 1 it passes signals on and buries the Python processes that slots
# leave behind, which a worker as process 1 would not; Docker has --init for that, Kubernetes has nothing.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --gid 0 --no-create-home --home-dir /var/lib/kconnect kconnect \
    && install -d -o 10001 -g 0 -m 0770 /var/lib/kconnect
COPY --from=build /opt/kconnect /opt/kconnect
ENV PATH=/opt/kconnect/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    KCONNECT_CACHE=/opt/kconnect/cache \
    KCONNECT_MAKE_CLASS_ARCHIVE=no
# Workers start 2 s sooner with it; it belongs to this Java and this Spark, so it is made here
RUN python -m kconnect.spark.make_archive && chmod -R a+rX /opt/kconnect/cache
# Passwords are no part of an image: variables, files and mounts bring them
USER 10001
WORKDIR /var/lib/kconnect
EXPOSE 8083
STOPSIGNAL SIGTERM
# Unhealthy while Kafka is away too: it is reported, and nothing restarts a container for it but what you set up.
# With https or users set KCONNECT_HEALTH_URL, or a check of your own
HEALTHCHECK --interval=15s --timeout=5s --start-period=90s --retries=4 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(os.environ.get('KCONNECT_HEALTH_URL', 'http://localhost:8083/health'), timeout=4)"]
ENTRYPOINT ["tini", "--", "connect"]
# Without a file its settings are CONNECT_* variables
CMD ["distributed"]
