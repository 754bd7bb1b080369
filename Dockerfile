# fullgraph with a CPU-only torch, for CI services that run images:
#
#   docker build --tag fullgraph .
#   docker run --rm --volume "$PWD:/src" fullgraph check src/

ARG PYTHON=3.12
FROM python:${PYTHON}-slim

ARG TORCH=2.13.0
# https://pypi.org/simple installs torch with CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --index-url "${TORCH_INDEX}" "torch==${TORCH}" numpy

# --changed-since and `fullgraph diff` need git, which refuses mounted folders of other users by default.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && git config --system --add safe.directory "*"

COPY pyproject.toml README.md LICENSE /opt/fullgraph/
COPY engine /opt/fullgraph/engine
COPY server /opt/fullgraph/server
RUN pip install --no-cache-dir /opt/fullgraph && rm -rf /opt/fullgraph

RUN useradd --create-home fullgraph
USER fullgraph
WORKDIR /src
ENTRYPOINT ["fullgraph"]
CMD ["--help"]
