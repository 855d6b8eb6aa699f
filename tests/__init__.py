"""Tests. A package, so that helpers are imported by name: `from tests.controlplane.plane import ControlPlane`."""
