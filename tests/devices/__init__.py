"""Devices by dynamic resource allocation, compared with Kubernetes' own code."""
