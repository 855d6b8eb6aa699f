"""What goes wrong on the way: failed writes, restarts, lost leadership, lost members, other clocks."""
