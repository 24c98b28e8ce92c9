from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, DramPort, Link, Router
from slowpoke_tracer.diagnosis import Suspect
from torch_slowpoke.report.plots import chip_figure, save_figure

CHIP = ChipConfig(topology="mesh:3x2")
SUSPECTS = (
    Suspect(Core(4), 0.9, 5.0, 9.8),
    Suspect(Link(0, 1, both=True), 0.1, 1.0),
    Suspect(DramPort(0), 0.1, 1.0, 2.0),
    Suspect(Router(2), 0.1, 1.0, 2.0),
)


def figure(**options: object) -> Figure:
    cores = np.linspace(0, 1, CHIP.n_cores)
    return chip_figure(CHIP, cores, np.linspace(0, 1, CHIP.n_links), **options)  # type: ignore[arg-type]


def texts(drawn: Figure) -> set[str]:
    return {text.get_text() for text in drawn.axes[0].texts}


def test_every_core_shows_its_id_and_its_share_and_every_port_its_name() -> None:
    shown = texts(figure())
    assert {"0", "1", "2", "3", "4", "5", "0%", "20%", "40%", "60%", "80%", "100%"} <= shown
    assert {f"DRAM {p}" for p in range(len(CHIP.dram_ports))} <= shown


def test_suspects_are_named_in_words_not_by_colour_alone() -> None:
    shown = texts(figure(suspects=SUSPECTS))
    assert {"1. core:4 9.8x", "2. link:0-1", "3. dram:0 2.0x", "4. router:2 2.0x"} <= shown


def test_a_busier_core_has_another_colour() -> None:
    axes = figure().axes[0]
    faces = [patch.get_facecolor() for patch in axes.patches]
    assert len(set(faces)) == CHIP.n_cores


def test_injected_faults_add_a_dashed_outline() -> None:
    plain, marked = figure().axes[0], figure(faults=[Fault(Core(1), 2.0)]).axes[0]
    assert len(marked.patches) == len(plain.patches) + 1
    assert marked.patches[-1].get_linestyle() == "--"


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_picture_is_the_same_file(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        save_figure(figure(suspects=SUSPECTS, title="x < y"), tmp_path / f"{name}.{suffix}")
    first, second = (tmp_path / f"{name}.{suffix}" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 1000


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SlowpokeError, match=r"must end in \.png, \.svg, \.pdf"):
        save_figure(figure(), tmp_path / "a.jpeg2")


def test_values_for_another_chip_are_refused() -> None:
    with pytest.raises(SlowpokeError, match="for a chip of 6 cores and 14 links"):
        chip_figure(CHIP, np.zeros(4), np.zeros(4))


@pytest.mark.parametrize("topology", ["mesh:1x1", "mesh:1x3"])
def test_a_chip_without_much_to_draw_is_drawn(topology: str, tmp_path: Path) -> None:
    chip = ChipConfig(topology=topology)
    drawn = chip_figure(chip, np.ones(chip.n_cores), np.zeros(chip.n_links))
    save_figure(drawn, tmp_path / "a.png")
    assert len(texts(drawn)) > 1
