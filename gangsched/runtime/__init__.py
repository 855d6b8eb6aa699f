"""The process around core and cluster: loop, configuration, logs, metrics, health, shutdown."""
