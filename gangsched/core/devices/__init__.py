"""Devices by dynamic resource allocation: which pools a node reaches, and which devices claims get there."""
