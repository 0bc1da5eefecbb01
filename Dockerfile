# syntax=docker/dockerfile:1
# The server as a container: `docker build -t kitemq .`; docs/container.md says how to run it.
# Reports by Spark are left out (0.7 GB); --build-arg ANALYTICS=1 adds them.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
ARG ANALYTICS=0
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
COPY requirements.lock requirements-analytics.lock ./
# Wheels alone, each checked by its hash: nothing is compiled and no compiler is needed.
RUN python -m venv /opt/kitemq \
    && /opt/kitemq/bin/pip install --only-binary :all: --require-hashes -r requirements.lock \
    && if [ "$ANALYTICS" = 1 ]; then \
    /opt/kitemq/bin/pip install --only-binary :all: --require-hashes -r requirements-analytics.lock; fi
COPY . .
# The tools that install do not come along into the image.
RUN /opt/kitemq/bin/pip install --no-deps --no-build-isolation ./kitemq . \
    && /opt/kitemq/bin/pip uninstall --yes setuptools pip

FROM python:${PYTHON}-slim-bookworm
# The base image's own pip goes too. The data directory belongs to the user before it is a volume.
RUN python -m pip uninstall --yes --root-user-action=ignore setuptools wheel pip \
    && useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin kitemq \
    && install --directory --owner=kitemq --group=kitemq --mode=0700 /data
COPY --from=build /opt/kitemq /opt/kitemq
ENV PATH=/opt/kitemq/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
ENTRYPOINT ["kitemq", "serve"]
CMD ["--data", "/data", "--host", "0.0.0.0", "--port", "8080"]
