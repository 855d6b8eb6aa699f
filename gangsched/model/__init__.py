"""Kubernetes objects as this scheduler sees them: typed wire structs, and the compact records made from them."""
