"""Deciding one gang: all members are placed or none, with what is there or what victims and terminating pods leave."""
