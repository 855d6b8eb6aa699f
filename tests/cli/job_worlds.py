"""Clusters for Jobs and JobSets, as manifests."""

TWO_NODES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {capacity: {cpu: 4}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {capacity: {cpu: 4}}
"""
