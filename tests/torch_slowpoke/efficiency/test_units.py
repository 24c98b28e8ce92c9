import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.units import parse_bandwidth, parse_bytes, parse_hours, parse_rate


def test_decimal_and_binary_prefixes_differ() -> None:
    assert parse_bytes("1GB") == 1e9
    assert parse_bytes("1GiB") == 2.0**30
    assert parse_bandwidth("6 TB/s") == 6e12


@pytest.mark.parametrize(
    ("text", "hours"),
    [("2s", 2 / 3600), ("90min", 1.5), ("2d", 48.0), ("01:30:00", 1.5), ("1-00:00:36", 24.01)],
)
def test_durations_are_read_in_hours(text: str, hours: float) -> None:
    assert parse_hours(text) == pytest.approx(hours, rel=1e-15)


def test_a_rate_per_node_day_is_a_24th_of_one_per_node_hour() -> None:
    assert parse_rate("2.4e-4/node-day") == pytest.approx(1e-5, rel=1e-15)


@pytest.mark.parametrize("text", ["6", "6TB", "6Tb/s", "TB/s", "-6TB/s", "0TB/s", "nanTB/s", ""])
def test_a_bandwidth_that_could_be_misread_is_one_sentence(text: str) -> None:
    with pytest.raises(SlowpokeError, match="6TB/s"):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["200", "200gb", "infGB", "1e300EB"])
def test_a_size_that_could_be_misread_is_one_sentence(text: str) -> None:
    with pytest.raises(SlowpokeError, match="200GB"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["²h", "9" * 5000 + "-00:00:00", "٣h", "1e999h", "--1h"])
def test_odd_digits_are_no_duration(text: str) -> None:
    with pytest.raises(SlowpokeError, match="30min"):
        parse_hours(text)


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_one_sentence(text: str) -> None:
    for parse in (parse_bytes, parse_bandwidth, parse_hours, parse_rate):
        try:
            assert parse(text) >= 0
        except SlowpokeError as error:
            assert "\n" not in str(error)
