import subprocess
import sys
from pathlib import Path

import pytest

import torch_slowpoke
from slowpoke_mapping.chip import chip, chip_names
from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.cli import BAD_INPUT, BROKEN_PIPE, INTERRUPTED, main
from torch_slowpoke.cli.options import element_bytes, network

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: str) -> tuple[int, str, str]:
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_without_a_command_the_help_is_shown(capsys: Capture) -> None:
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    for command in (
        "analyze",
        "models",
        "chips",
        "graph",
        "map",
        "simulate",
        "record",
        "efficiency",
    ):
        assert f"\n  {command} " in out
    assert run(capsys, "--help") == (0, out, "")


def test_the_version_is_the_package_s(capsys: Capture) -> None:
    assert run(capsys, "--version") == (0, f"slowpoke {torch_slowpoke.__version__}\n", "")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from torch_slowpoke.cli import main; main(['analyze', '--help']); "
        "print({'torch', 'numpy', 'scipy', 'matplotlib', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
    assert "--fault" in done.stdout


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("analyse resnet50", "No such command 'analyse'. Did you mean 'analyze'?"),
        ("analyze", "Missing argument 'MODEL'"),
        ("analyze x --mesh", "Option '--mesh' requires an argument"),
        ("analyze x --mush 4x4", "No such option: --mush"),
        ("analyze x --inferences 0", "--inferences"),
        ("analyze x --inferences many", "--inferences"),
        ("analyze x --seed -1", "--seed"),
        ("analyze x --mesh 0x4", "mesh 0x4: at least one column and one row"),
        ("analyze x --mesh 4", "write columns x rows"),
        ("analyze x --mesh 4x4 --topology torus:4x4", "leave out --mesh"),
        ("analyze x --topology moebius:4x4", "unknown topology"),
        ("analyze x --chip abacus", "'abacus' is neither a preset"),
        ("analyze x --precision fp8", "--precision 'fp8': give bytes"),
        ("analyze x --precision 0", "bytes_per_element"),
        ("analyze x --precision nan", "bytes_per_element"),
        ("analyze x --fault core:5", "'core:5' is no fault"),
        ("analyze x --fault core:99@10x", "core:99 lies outside the chip"),
        ("analyze x --fault link:0-5@10x", "no such link"),
        ("analyze x --fault core:5@0.5x", "slowdown 0.5 must be"),
        ("analyze x --fault core:5@2x[5ms,5ms]", "is empty or not a number"),
        ("analyze x --fault core:5@2x[nan,5ms]", "is empty or not a number"),
        ("analyze x --fault core:5@2x --fault dram:9@2x", "dram:9 lies outside the chip"),
        ("analyze x --json no/such/folder/x.json", "there is no folder"),
        ("analyze x --plot picture.bmp", "must end in .png, .svg, .pdf"),
        ("simulate x --plot picture.bmp", "must end in .png, .svg, .pdf"),
        ("simulate x --trace no/such/folder/x", "there is no folder"),
        ("map x --objective speed", "objective 'speed'"),
        ("map x --residency none", "choose streamed or resident"),
        ("record x --mode tree", "sketch mode 'tree': static or hash"),
        ("chips abacus", "'abacus' is neither a preset"),
        ("models no*such?name", "`slowpoke models` lists all"),
        ("analyze resnet5", "resnet50"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    capsys: Capture, line: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *line.split())
    assert code == BAD_INPUT
    assert says in err
    assert err.startswith("slowpoke: ")
    assert err.count("\n") == 1
    assert (out, list(tmp_path.iterdir())) == ("", [])


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    for words in (["--debug", "chips", "abacus"], ["chips", "abacus", "--debug"]):
        with pytest.raises(SlowpokeError):
            main(words)


def test_a_fault_of_our_own_is_not_dressed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> tuple[str, ...]:
        raise ZeroDivisionError

    monkeypatch.setattr("slowpoke_mapping.chip.chip_names", broken)
    with pytest.raises(ZeroDivisionError):
        main(["chips"])


def test_an_interrupt_ends_in_one_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> tuple[str, ...]:
        raise KeyboardInterrupt

    monkeypatch.setattr("slowpoke_mapping.chip.chip_names", interrupted)
    code, _, err = run(capsys, "chips")
    assert (code, err) == (INTERRUPTED, "slowpoke: interrupted\n")


def test_a_full_disk_is_one_sentence(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> tuple[str, ...]:
        raise OSError(28, "No space left on device", "out.json")

    monkeypatch.setattr("slowpoke_mapping.chip.chip_names", full)
    code, _, err = run(capsys, "chips")
    assert code == BAD_INPUT
    assert err.startswith("slowpoke: out.json: No space left on device")


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = "import sys; from torch_slowpoke.cli import main; sys.exit(main(['chips']))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == BROKEN_PIPE


def test_every_chip_is_listed_and_a_shown_one_reads_back(capsys: Capture, tmp_path: Path) -> None:
    _, listed, _ = run(capsys, "chips")
    assert [line.split()[0] for line in listed.splitlines()[1:]] == list(chip_names())
    _, shown, _ = run(capsys, "chips", "paper-6x6")
    (tmp_path / "mine.toml").write_text(shown)
    assert chip(tmp_path / "mine.toml") == chip("paper-6x6")


def test_models_are_listed_one_a_line_and_filtered(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("vgg16", "resnet50", "resnet101")
    monkeypatch.setattr("torch_slowpoke.frontend.model_names", lambda: names)
    assert run(capsys, "models")[1].split() == list(names)
    assert run(capsys, "models", "resnet")[1].split() == ["resnet50", "resnet101"]
    assert run(capsys, "models", "*0")[1].split() == ["resnet50"]


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        ((None, None, None), "mesh:4x4"),
        ((None, None, "paper-8x8"), None),  # the chip's own
        (("6x5", None, None), "mesh:6x5"),
        (("6x5", None, "paper-8x8"), "mesh:6x5"),
        (("6x5", "torus", None), "torus:6x5"),
        ((None, "ring:16", None), "ring:16"),
        ((None, "ring:16", "paper-8x8"), "ring:16"),
    ],
)
def test_mesh_topology_and_chip_combine(
    given: tuple[str | None, str | None, str | None], spec: str | None
) -> None:
    assert network(*given) == spec


def test_precision_is_bytes_or_the_model_s_own() -> None:
    assert (element_bytes(None), element_bytes("2"), element_bytes("model")) == (None, 2.0, "model")
