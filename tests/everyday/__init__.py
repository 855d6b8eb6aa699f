"""Everyday clusters: what people write, with the frequencies with which they write it, and what happens to it.

All objects are plain manifests, so that they go through the API server, the loader and the converters alike. A seed
gives the same cluster and the same changes for ever.
"""
