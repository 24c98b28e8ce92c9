import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.places import Core, DramPort, Link, Place, Router, parse_place
from slowpoke_mapping.topology import Mesh, Topology

IDS = st.integers(0, 999_999_999)
PLACES: st.SearchStrategy[Place] = st.one_of(
    st.builds(Core, IDS),
    st.builds(Router, IDS),
    st.builds(DramPort, IDS),
    st.tuples(IDS, IDS, st.booleans()).filter(lambda t: t[0] != t[1]).map(lambda t: Link(*t)),
)


class NoGrid(Mesh):
    """A network whose routers have ids and no columns."""

    @property
    def columns(self) -> int | None:
        return None


@given(PLACES)
def test_a_place_reads_back_from_its_text(place: Place) -> None:
    assert parse_place(str(place)) == place


@given(PLACES)
def test_a_place_is_a_value(place: Place) -> None:
    assert pickle.loads(pickle.dumps(place)) == place
    assert len({place, parse_place(str(place))}) == 1
    assert parse_place(place) is place


@given(st.text(max_size=12) | st.from_regex(r"(core|link|router|dram):.{0,12}", fullmatch=True))
def test_any_text_is_a_place_or_one_sentence(text: str) -> None:
    try:
        place = parse_place(text, Mesh(4, 4))
    except SlowpokeError as error:
        assert "\n" not in str(error).replace(repr(text), "")
    else:
        assert parse_place(str(place)) == place


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_column_and_row_name_the_core_that_the_mesh_draws_there(
    width: int, height: int, data: st.DataObject
) -> None:
    mesh = Mesh(width, height)
    x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    place = parse_place(f"core:({x},{y})", mesh)
    assert isinstance(place, Core)
    assert mesh.positions()[place.id].tolist() == [x, y]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("core:5", Core(5)),
        (" CORE:5 ", Core(5)),
        ("core: 007", Core(7)),
        ("core:(1,2)", Core(9)),
        ("core:( 3 , 0 )", Core(3)),
        ("router:(0,3)", Router(12)),
        ("dram:0", DramPort(0)),
        ("link:5-6", Link(5, 6, both=True)),
        ("link:6-5", Link(5, 6, both=True)),
        ("link:6->5", Link(6, 5)),
        ("link:(1,1)->(2,1)", Link(5, 6)),
        ("link: (1,1) - 6", Link(5, 6, both=True)),
    ],
)
def test_every_form_of_the_guide_is_understood(text: str, place: Place) -> None:
    assert parse_place(text, Mesh(4, 4)) == place


@pytest.mark.parametrize(
    "text",
    [
        "", "5", "core", "core:", "core:x", "core:-1", "core:1.5", "core:5;", "cores:5",
        "link:5", "link:5-", "link:5--6", "link:5->", "link:5=>6", "link:5-6-7", "router:",
        "dram:(0,0)", "core:(1)", "core:(1,2,3)", "core:(1,2", "core:(-1,2)",
        "core:" + "9" * 5000, "core:٣",
    ],
)  # fmt: skip
def test_what_is_no_place_is_refused_with_a_form_that_would_do(text: str) -> None:
    with pytest.raises(SlowpokeError, match=r"write core:5, core:\(1,2\), link:5-6"):
        parse_place(text, Mesh(4, 4))


@pytest.mark.parametrize("value", [5, None, 5.0, b"core:5", ("core", 5)])
def test_a_value_of_another_type_is_refused_in_a_sentence(value: object) -> None:
    with pytest.raises(SlowpokeError, match="is no place"):
        parse_place(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["core:(4,0)", "core:(0,4)", "link:(0,0)-(0,4)"])
def test_a_column_or_row_outside_the_grid_is_refused(text: str) -> None:
    with pytest.raises(SlowpokeError, match="lies outside the mesh 4x4"):
        parse_place(text, Mesh(4, 4))


@pytest.mark.parametrize("topology", [None, NoGrid(4, 4)])
def test_column_and_row_need_a_grid(topology: Topology | None) -> None:
    with pytest.raises(SlowpokeError, match="needs a mesh or torus; give the id"):
        parse_place("core:(1,2)", topology)


def test_the_physical_link_is_the_same_from_both_ends() -> None:
    assert Link(6, 5, both=True) == Link(5, 6, both=True) == Link(6, 5).physical
    assert Link(6, 5) != Link(5, 6)
    assert Link(5, 6) != Link(5, 6, both=True)


@pytest.mark.parametrize("text", ["link:5-5", "link:5->5"])
def test_a_link_joins_two_routers(text: str) -> None:
    with pytest.raises(SlowpokeError, match=f"{text}: a link joins two different routers"):
        parse_place(text)
