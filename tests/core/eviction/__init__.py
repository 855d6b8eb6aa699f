"""From marks to removals: lists of victims, their recall, draining, and suspension."""
