"""Public traces of GPU clusters, played under several orders of victims, and against what others have published."""
