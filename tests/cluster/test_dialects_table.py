"""The first table of the documentation: which promise holds for the gangs of which API.

That it is current is tested with all that `make readme` writes.
"""

from __future__ import annotations

from tests.cluster import dialects


def test_a_gang_that_is_one_in_name_only_would_show() -> None:
    """Pods that name no group keep none of the promises of gangs."""

    def none(wish: dialects.Wish) -> tuple[list[dialects.Object], dialects.Members]:
        return [], lambda _: {}

    api = dialects.Api("none", none)
    said = {name: dialects.cell(api, each) for name, each in dialects.BEHAVIOURS.items()}
    assert {name for name, word in said.items() if word == "yes"} == set()
