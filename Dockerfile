FROM golang:1.26 AS build
COPY . /src
RUN cd /src && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /webhook-auditor ./cmd/webhook-auditor
FROM scratch
COPY --from=build /webhook-auditor /webhook-auditor
USER 65532:65532
ENTRYPOINT ["/webhook-auditor"]
