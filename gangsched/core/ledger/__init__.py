"""The intentions of this process that the cluster does not show yet."""
