"""Plug-ins of others, and the kit that checks them."""
