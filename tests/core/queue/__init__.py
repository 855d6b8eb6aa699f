"""Who is tried when: order, backoff, hints and wake-ups."""
