"""Gang scheduling and job-level preemption for Kubernetes, as a standalone second scheduler."""

__version__ = "0.1.0"
