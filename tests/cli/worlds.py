"""Small clusters, as manifests."""

HIGH = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""


def node(name, cpu=4):
    """A node with so many CPUs."""
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{capacity: {{cpu: {cpu}}}}}
"""


NODES = f"{node('n1')}---{node('n2')}"
TWO_NODES = f"{HIGH}---{NODES}"


def gang_job(name, at, run, pods=2, cpu=4):
    """A Job whose pods start together; it arrives after so many seconds and runs as long as it says."""
    return f"""
---
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, annotations: {{gangsched.dev/gang: "true"}}}}
spec:
  parallelism: {pods}
  completions: {pods}
  template:
    metadata:
      annotations:
        sim.gangsched.dev/arrive-after: {at}s
        sim.gangsched.dev/run-for: {run}s
        gangsched.dev/expected-run-time: {run}s
    spec: {{schedulerName: py-gang-scheduler, containers: [{{resources: {{requests: {{cpu: {cpu}}}}}}}]}}
"""
