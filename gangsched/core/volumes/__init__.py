"""Claims and volumes: who uses what, which nodes reach it, and what is bound to what when a gang is placed."""
