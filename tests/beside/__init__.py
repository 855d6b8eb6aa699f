"""Beside kube-scheduler: the room that is freed for a gang reaches it, on a real control plane."""
