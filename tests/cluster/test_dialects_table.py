"""The table of the documentation: which promise holds for the gangs of which API."""

from __future__ import annotations

from tests.cluster import dialects
from tests.pages import between, text_of

PAGE = "docs/reference/dialects.md"


def test_the_table_is_what_plans_say() -> None:
    """Each cell is decided anew."""
    assert between(text_of(PAGE), "dialects") == dialects.as_markdown()


def test_a_gang_that_is_one_in_name_only_would_show() -> None:
    """Pods that name no group keep none of the promises of gangs."""

    def none(wish: dialects.Wish) -> tuple[list[dialects.Object], dialects.Members]:
        return [], lambda _: {}

    api = dialects.Api("none", none)
    said = {name: dialects.cell(api, each) for name, each in dialects.BEHAVIOURS.items()}
    assert {name for name, word in said.items() if word == "yes"} == set()
