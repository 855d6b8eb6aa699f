"""An independent judge of the planner: its own reading of the cluster, the exact optimum, random clusters."""
