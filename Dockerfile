# One image for every role; docker-compose.yml starts it as each of them. The target `sweep` adds Dask and Parquet.
FROM python:3.12-slim AS base

# Compose mounts a volume over each of these folders; a new volume takes over owner and mode.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin labeldp \
    && install -d -o 10001 -g 10001 -m 0700 \
        /certs /state /results /trace /authority \
        /study /hand-out/study /hand-out/coordinator /hand-out/learner /hand-out/auditor /hand-out/users-1 /hand-out/users-2 /hand-out/users-3

# A package index or an authority of your own goes in as a build secret, and stays out of the image:
#   docker build --secret id=pip.conf,src=FILE --secret id=ca.pem,src=FILE -t p2p-labeldp .
ARG PIP_CONFIG_FILE=/run/secrets/pip.conf
ARG PIP_NO_CACHE_DIR=1
ARG PIP_ROOT_USER_ACTION=ignore

# What the package needs comes first, in a layer that lasts until pyproject.toml changes. Left out: matplotlib, which no node
# uses, and the tests of other packages.
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    --mount=type=bind,source=pyproject.toml,target=/src/pyproject.toml \
    python -c "import tomllib; needed = tomllib.load(open('/src/pyproject.toml', 'rb'))['project']['dependencies']; \
        print(*(each for each in needed if not each.startswith('matplotlib')), sep='\n')" > /tmp/needed \
    && pip install -r /tmp/needed && rm /tmp/needed \
    && find /usr/local/lib/python3*/site-packages -type d -name tests -prune -exec rm -rf {} +

# One thread per process: several nodes share a machine, and results must not depend on the number of cores.
ENV OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp
ENTRYPOINT ["p2p-labeldp"]
CMD ["--help"]

FROM base AS sweep
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    --mount=type=bind,source=pyproject.toml,target=/src/pyproject.toml \
    python -c "import tomllib; more = tomllib.load(open('/src/pyproject.toml', 'rb'))['project']['optional-dependencies']; \
        print('matplotlib', *more['dask'], *more['parquet'], sep='\n')" > /tmp/needed \
    && pip install -r /tmp/needed && rm /tmp/needed
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem --mount=type=bind,target=/src \
    pip install --no-deps /src
USER 10001:10001

FROM base AS node
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem --mount=type=bind,target=/src \
    pip install --no-deps /src
USER 10001:10001
