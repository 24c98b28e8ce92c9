import json
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, Link
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from torch_slowpoke.analysis import Analysis
from torch_slowpoke.report.html import analysis_html

TWIN = Link(0, 1, both=True)
SLOW = Suspect(Core(1), 0.99, 5.0, 9.9, 1e3, 2e6, (TWIN,), "<script>alert(1)</script>")
SICK = Diagnosis(ranked=(SLOW,), reported=(SLOW,), method="<robust>", notes=("<b>note</b>",))


class Page(HTMLParser):
    """Tags, text by tag, and whether every tag is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        tag = self.open[-1] if self.open else ""
        self.text[tag] = self.text.get(tag, "") + data


def page_of(analysis: Analysis, **options: Any) -> Page:
    return Page(analysis_html(analysis, **options))


def test_the_page_is_well_formed_and_fetches_nothing(analysis_of: Callable[..., Analysis]) -> None:
    page = page_of(analysis_of(SICK, Fault(Core(1), 10.0)))
    assert page.open == []
    names = {tag for tag, _ in page.tags}
    assert not names & {"link", "img", "iframe", "object", "embed"}
    for tag, attributes in page.tags:
        for key in ("src", "href", "xlink:href"):
            target = attributes.get(key)
            assert target is None or target.startswith(("#", "data:")), (tag, target)


def test_what_comes_from_the_model_is_text_never_markup(
    analysis_of: Callable[..., Analysis],
) -> None:
    page = page_of(analysis_of(SICK), command="slowpoke analyze '<i>'")
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "diagnosis"}]
    assert not {"i", "b"} & {tag for tag, _ in page.tags if tag == "i"}
    assert "<i>folded</i>" in page.text["td"]
    assert "<script>alert(1)</script>" in page.text["td"]
    assert "slowpoke analyze '<i>'" in page.text["code"]


def test_the_verdict_is_the_heading(analysis_of: Callable[..., Analysis]) -> None:
    sick = page_of(analysis_of(SICK))
    assert sick.text["h1"].startswith("core:1 looks 9.90x slow from 0.001 ms to 2.000 ms")
    assert ("h1", {"class": "fail_slow"}) in sick.tags
    assert "cannot tell core:1 from link:0-1" in sick.text["p"]
    well = page_of(analysis_of(Diagnosis(ranked=(), reported=(), healthy_probability=0.97)))
    assert well.text["h1"] == "healthy: no core or link stands out"
    assert "Probability that nothing is slow: 0.970" in well.text["p"]


def test_programs_read_the_same_result_from_the_island(
    analysis_of: Callable[..., Analysis],
) -> None:
    analysis = analysis_of(SICK, Fault(Core(1), 10.0))
    island = json.loads(page_of(analysis).text["script"])
    assert island["verdict"] == "fail_slow"
    assert island["reported"][0]["place"] == "core:1"
    assert island["model"] == analysis.graph.name
    assert island["healthy_probability"] is None  # NaN in Python


def test_the_picture_is_inline_and_scales(analysis_of: Callable[..., Analysis]) -> None:
    [svg] = [attributes for tag, attributes in page_of(analysis_of(SICK)).tags if tag == "svg"]
    assert svg["width"] == "100%"
    assert "height" not in svg
    assert svg["viewbox"]


def test_the_same_analysis_is_the_same_page(analysis_of: Callable[..., Analysis]) -> None:
    page = analysis_html(analysis_of(SICK))
    assert page == analysis_html(analysis_of(SICK))
    assert len(page) < 2_000_000
