# A small image with aclmem: docker build -t aclmem .   Then: docker run --rm -v "$PWD:/work" aclmem run ./prog
FROM debian:12 AS build
COPY . /src
RUN apt-get update && apt-get install -y --no-install-recommends make && make -C /src deb

FROM debian:12-slim
COPY --from=build /src/build/deb/*.deb /packages/
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 libunwind8 /packages/aclmem_*.deb /packages/aclmem-dev_*.deb \
        /packages/python3-aclmem_*.deb \
    && rm -rf /packages /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["aclmem"]
CMD ["--help"]
