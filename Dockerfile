# One image for every role; docker-compose.yml starts it as each of them. The target `sweep` adds Dask and Parquet.
#
# Packages are put together in stages of their own and copied from there, so that nothing of the work is in the image.
FROM python:3.12-slim AS packages

# A package index or an authority of your own goes in as a build secret, and stays out of the image:
#   docker build --secret id=pip.conf,src=FILE --secret id=ca.pem,src=FILE -t p2p-labeldp .
ARG PIP_CONFIG_FILE=/run/secrets/pip.conf
ARG PIP_NO_CACHE_DIR=1
ARG PIP_PYTHON=/srv/p2p-labeldp
ENV PATH=/srv/p2p-labeldp/bin:$PATH

# What the package needs comes first, in a layer that lasts until pyproject.toml changes. Left out: matplotlib and pygments,
# which no node uses, and of other packages their tests, their pictures and what only compilers and editors read.
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    --mount=type=bind,source=pyproject.toml,target=/src/pyproject.toml \
    python -m venv --without-pip /srv/p2p-labeldp \
    && python -c "import tomllib; needed = tomllib.load(open('/src/pyproject.toml', 'rb'))['project']['dependencies']; \
        print(*(each for each in needed if not each.startswith('matplotlib')), sep='\n')" > /tmp/needed \
    && /usr/local/bin/python -m pip install --no-compile -r /tmp/needed \
    && find /srv/p2p-labeldp -type d \( -name tests -o -name _tests \) -prune -exec rm -rf {} + \
    && find /srv/p2p-labeldp -regex '.*\.\(pyi\|pyx\|pxd\|pxi\|h\|hpp\|c\|cpp\|a\|tp\|build\)' -delete \
    && rm -rf /srv/p2p-labeldp/lib/python3*/site-packages/pygments /srv/p2p-labeldp/lib/python3*/site-packages/sklearn/datasets/images

FROM packages AS sweep-packages
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    --mount=type=bind,source=pyproject.toml,target=/src/pyproject.toml \
    python -c "import tomllib; more = tomllib.load(open('/src/pyproject.toml', 'rb'))['project']['optional-dependencies']; \
        print('matplotlib', *more['dask'], *more['parquet'], sep='\n')" > /tmp/needed \
    && /usr/local/bin/python -m pip install --no-compile -r /tmp/needed
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem --mount=type=bind,target=/src \
    /usr/local/bin/python -m pip install --no-compile --no-deps /src

# A deployment tries the packages, and leaves compiled what nodes import: containers cannot write, and all of it is large.
FROM packages AS node-packages
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem --mount=type=bind,target=/src \
    /usr/local/bin/python -m pip install --no-compile --no-deps /src
RUN p2p-labeldp deploy quickstart --hosts 1 --no-report --out /tmp/tried

# Of the base what a node uses: no installer, so that nobody adds to a container, no editor, manuals or translations.
FROM python:3.12-slim AS system
RUN cd "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && rm -rf ensurepip idlelib lib2to3 pydoc_data test tkinter turtledemo config-* site-packages/* \
    && cd /usr/local/bin && rm -rf pip* wheel idle* pydoc* 2to3* ../include ../share/man ../lib/pkgconfig \
    && rm -rf /usr/share/locale/* /usr/share/man/* /usr/share/info/* /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* \
    && find /usr/share/doc -type f ! -name copyright -delete

FROM scratch AS base
COPY --from=system / /
ENV PATH=/srv/p2p-labeldp/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
# Compose mounts a volume over each of these folders; a new volume takes over owner and mode.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin labeldp \
    && install -d -o 10001 -g 10001 -m 0700 \
        /certs /state /results /trace /authority \
        /study /hand-out/study /hand-out/coordinator /hand-out/learner /hand-out/auditor /hand-out/users-1 /hand-out/users-2 /hand-out/users-3
# One thread per process: several nodes share a machine, and results must not depend on the number of cores.
ENV OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp
USER 10001:10001
ENTRYPOINT ["p2p-labeldp"]
CMD ["--help"]

FROM base AS sweep
COPY --from=sweep-packages /srv/p2p-labeldp /srv/p2p-labeldp

FROM base AS node
COPY --from=node-packages /srv/p2p-labeldp /srv/p2p-labeldp
