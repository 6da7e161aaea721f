# The images of this project, built from source. Targets: broker (the default).
#
#   docker build --target broker -t tandem/broker .
#
# The two base images are arguments, so that a machine without a registry can give its own.
ARG BUILD_IMAGE=docker.io/library/rust:1.95-slim-bookworm
ARG RUNTIME_IMAGE=docker.io/library/debian:bookworm-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p broker -p broker-client --bin broker --bin mqbench \
    && mkdir /out \
    && cp target/release/broker target/release/mqbench /out/

FROM ${RUNTIME_IMAGE} AS broker
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin tandem \
    && mkdir /data \
    && chown tandem:tandem /data
COPY --from=build /out/broker /out/mqbench /usr/local/bin/
USER 10001:10001
WORKDIR /data
VOLUME /data
ENV TANDEM_LOG_FORMAT=json
# Name server; VIP, clients, replication; HTTP.
EXPOSE 9876 10909 10911 10912 5557
ENTRYPOINT ["broker"]
CMD ["standalone", "--data", "/data"]
