"""The same clusters and pods given to upstream's kube-scheduler and to this scheduler's core, answers compared."""
