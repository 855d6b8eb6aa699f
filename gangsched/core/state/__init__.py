"""What is known of the cluster: records kept as columns, event by event, and a simulation to try changes."""
