"""What this process intends and the cluster does not show yet."""
