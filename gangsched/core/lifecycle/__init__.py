"""The life of a gang after its decision: the one table of states, the writes of each step, and what is reported."""
