"""What is said about the fields of each API, and what follows for objects that have them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from gangsched.model.dialects import DIALECTS, kai, koordinator, upstream, volcano, yunikorn
from gangsched.model.errors import FieldError
from gangsched.model.fields import Documented, check, meanings, refused
from gangsched.model.wire import CompositePodGroup

#: The fields that the definitions of others have, with their sources: names only.
APIS = json.loads(Path(__file__).with_name("fields_of_apis.json").read_text())
TABLES = {each.title: each for dialect in DIALECTS for each in dialect.documented}


def table_of(kind: str, group: str) -> Documented:
    """The table of a kind."""
    (found,) = [each for title, each in TABLES.items() if title.startswith(f"{kind} `{group}")]
    return found


#: Fields that an API does not have, and that are read all the same: earlier ones, and fields of ours.
OURS = {f"PodGroup.{upstream.FAMILY}": ["podGroupTemplateRef"]}


def status_of(table: Documented) -> Iterator[str]:
    """The fields of a status that have a row; empty for all of it."""
    for label in table.others:
        yield label.strip("`").removeprefix("status").removeprefix(".")


@pytest.mark.parametrize("api", sorted(APIS))
def test_every_field_of_the_api_stands_in_its_table(api: str) -> None:
    """Itself, or as a part of one that is looked at as a whole; and the table has no other field."""
    kind, _, group = api.partition(".")
    table = table_of(kind, group)
    assert table.decoded is not None
    said = [path.removeprefix("networkTopologySpec[].") for path, _ in meanings(table.decoded)]
    has = [path.removeprefix("networkTopologySpec[].") for path in APIS[api]["spec"]]

    def within(path: str, whole: str) -> bool:
        return path == whole or re.match(rf"{re.escape(whole)}(\[\])?\.", path) is not None

    assert [path for path in has if not any(within(path, row) for row in said)] == []
    unknown = [row for row in said if not any(within(path, row) for path in has)]
    assert unknown == OURS.get(api, []), (
        f"not in fields_of_apis.json: if the API has no such field, add it to OURS[{api!r}]"
    )
    status = [*status_of(table)]
    assert [path for path in APIS[api]["status"] if not any(not row or within(path, row) for row in status)] == []


def test_every_field_that_is_decoded_says_what_it_means() -> None:
    """Nothing is read without a row in the table."""
    silent: list[str] = []

    def look(decoded: type[msgspec.Struct], prefix: str = "") -> None:
        rows = {path for path, _ in meanings(decoded)}
        names = [each.encode_name for each in msgspec.structs.fields(decoded)]
        without = (n for n in names if not any(re.match(rf"{n}(\[\])?(\.|$)", path) for path in rows))
        silent.extend(prefix + name for name in without)

    for title, table in TABLES.items():
        if table.decoded is not None:
            look(table.decoded, f"{title}: ")
    assert silent == []


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.family)
def test_each_dialect_has_tables(dialect) -> None:
    """What its objects are decoded as is in one of them, and so are its members."""
    decoded = [each.decoded for each in dialect.documented]
    if dialect.decoded_as is not None:
        assert (
            msgspec.structs.fields(dialect.decoded_as)[-2 if dialect.family == volcano.FAMILY else -1].type in decoded
        )
    assert None in decoded


def raised(group) -> str:
    """The field that is refused, and why."""
    with pytest.raises(FieldError) as caught:
        check(group.spec)
    return str(caught.value)


class Inner(msgspec.Struct):
    """What is in a list."""

    level: Annotated[str, refused("no levels")] = ""


class Spec(msgspec.Struct):
    """A spec with a list."""

    parts: list[Inner]


def test_what_is_refused_is_told_in_the_words_of_the_table() -> None:
    """The first that is refused, wherever it is."""
    assert dict(meanings(Spec)) == {"parts[].level": "refused: no levels"}
    with pytest.raises(FieldError) as caught:
        check(Spec([Inner(), Inner("rack")]))
    assert str(caught.value) == "spec.parts[1].level: no levels"
    basic = {"metadata": {}, "spec": {"schedulingPolicy": {"basic": {"x": 1}}}}
    assert raised(msgspec.convert(basic, CompositePodGroup)).startswith("spec.schedulingPolicy.basic: groups that")


def test_objects_without_such_fields_say_nothing() -> None:
    """Whatever else they have, ignored fields included."""
    spec = {"minMember": 1, "markUnschedulable": True, "subGroups": [{"name": "a", "minMember": 1}]}
    check(msgspec.convert(spec, kai.PodGroupSpec))
    check(koordinator.PodGroupSpec(min_member=3))
    (listed,) = [each for title, each in TABLES.items() if yunikorn.TASK_GROUPS in title]
    assert ("`topologySpreadConstraints`", "ignored: those of each pod count") in listed.rows()
