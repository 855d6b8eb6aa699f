"""Real controllers that make gangs, run beside the scheduler by hand; what they made is replayed by tests."""
