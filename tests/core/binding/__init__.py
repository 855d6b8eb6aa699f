"""A gang is bound as a whole, or says so and leaves."""
