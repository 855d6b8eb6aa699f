"""Who is decided next: order, backoff and wake-ups, and what a gang that does not fit keeps from those behind it."""
