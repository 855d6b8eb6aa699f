"""What joins core and cluster into a process: loop, configuration, logs, metrics, health, shutdown."""
