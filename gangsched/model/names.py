"""Names as the API server accepts them: DNS-1123 subdomains.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names
"""

from __future__ import annotations

import re

from gangsched.messages import invalid

MAX_NAME = 253
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAMESPACE = re.compile(_LABEL)
#: So much of a wrong name is shown.
_SHOWN = 60

ALLOWED = invalid.subdomain(MAX_NAME)


def is_subdomain(name: str) -> bool:
    """Can an object have this name?"""
    return len(name) <= MAX_NAME and _SUBDOMAIN.fullmatch(name) is not None


def is_key(text: str) -> bool:
    """Is this ``namespace/name``, both such as objects have?"""
    namespace, _, name = text.partition("/")
    return len(namespace) <= 63 and _NAMESPACE.fullmatch(namespace) is not None and is_subdomain(name)


def shown(text: str) -> str:
    """What users have written, in quotes and cut to a readable length."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
