#!/usr/bin/env bash
# A cluster in Docker with this scheduler and four fake GPU nodes, and a gang that has to evict. Run by `make kind`;
# again, it goes on from what is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

CLUSTER=gangsched
KWOK_VERSION=v0.8.0
KWOK=https://github.com/kubernetes-sigs/kwok/releases/download/$KWOK_VERSION

say() { printf '\n• %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
kubectl_() { kubectl --context "kind-$CLUSTER" "$@"; }

for tool in docker kind kubectl; do
  command -v "$tool" > /dev/null || fail "$tool is not installed; make kind needs docker, kind and kubectl"
done
docker info > /dev/null 2>&1 || fail "no Docker engine answers; start Docker, or see with: docker info"

say "image gangsched:kind"
docker build --quiet -f manifests/Dockerfile -t gangsched:kind .

if kind get clusters 2> /dev/null | grep -qx "$CLUSTER"; then
  say "cluster $CLUSTER is there"
else
  say "cluster $CLUSTER"
  kind create cluster --config examples/kind/cluster.yaml --wait 3m
fi
kind load docker-image gangsched:kind --name "$CLUSTER"

say "KWOK $KWOK_VERSION, for nodes without machines"
kubectl_ apply -f "$KWOK/kwok.yaml"
kubectl_ wait --for=condition=Established --timeout=1m customresourcedefinition/stages.kwok.x-k8s.io
kubectl_ apply -f "$KWOK/stage-fast.yaml"

say "the scheduler"
kubectl_ apply -k examples/kind/scheduler
kubectl_ -n gangsched-system rollout restart deployment/gangsched # the image may be a new one of the same name
kubectl_ -n gangsched-system rollout status deployment/gangsched --timeout=3m
kubectl_ wait --for=condition=Established --timeout=1m customresourcedefinition/podgroups.scheduling.sigs.k8s.io

say "four GPU nodes, and eight notebooks on them"
kubectl_ apply -f examples/kind/nodes.yaml
kubectl_ wait --for=condition=Ready --timeout=1m node -l example.com/gpu=true
kubectl_ delete --ignore-not-found -f examples/kind/training.yaml
kubectl_ apply -f examples/kind/notebooks.yaml
kubectl_ wait --for=condition=Ready --timeout=1m pod -l app=notebook

say "a gang of two that needs two whole nodes"
kubectl_ apply -f examples/kind/training.yaml
kubectl_ wait --for=condition=Ready --timeout=2m pod -l app=training
kubectl_ get pods -o wide
kubectl_ get events --field-selector reason=Preempted

cat << END

Both members run, and four notebooks were evicted for them. Next:

  kubectl config use-context kind-$CLUSTER
  .venv/bin/gangsched get
  .venv/bin/gangsched explain podgroup/training
  .venv/bin/gangsched history
  kind delete cluster --name $CLUSTER
END
