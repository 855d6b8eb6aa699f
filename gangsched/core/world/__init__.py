"""What is known of the cluster and, beside it, what is intended: one object that every decision reads."""
