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
