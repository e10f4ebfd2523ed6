"""Comparisons of many variants: dots in order with their intervals, on the page and in print."""

from __future__ import annotations

import re
from typing import Any

from airtcp.report import interactive, model, plot_style
from airtcp.report import print as printed


def many(count: int, **more: Any) -> model.Plot:
    """A bar for each variant; the values of the first series are no order of the names."""
    names = [f"variant {i}" for i in range(count)]
    values = [float((7 * i) % count) + 1 for i in range(count)]
    series = model.Series(
        name="one", x=list(names), y=list(values), lo=[v - 0.5 for v in values], hi=[v + 0.5 for v in values]
    )
    return model.Plot(
        id="p", title="P", kind="bar", x=model.Axis(label="variant"), y=model.Axis(label="y"), series=[series], **more
    )


def look_of(plot: model.Plot) -> dict[str, plot_style.SeriesStyle]:
    experiment = model.Experiment(id="e", title="E", plots=[plot])
    return plot_style.series_styles(model.Study(study="s", title="S", experiments=[experiment]))


def test_many_variants_are_dots_in_order_with_their_intervals() -> None:
    few, plot = many(plot_style.MANY_VARIANTS), many(33)
    assert interactive.figure(few, look_of(few))["data"][0]["type"] == "bar"
    drawn = interactive.figure(plot, look_of(plot))
    (trace,) = drawn["data"]
    assert (trace["type"], trace["mode"]) == ("scatter", "markers")
    assert dict(zip(trace["y"], trace["x"], strict=True)) == dict(zip(plot.series[0].x, plot.series[0].y, strict=True))
    assert trace["error_x"]["array"] == trace["error_x"]["arrayminus"] == [0.5] * 33
    assert "error_y" not in trace
    values = {x: y or 0.0 for x, y in zip(plot.series[0].x, plot.series[0].y, strict=True)}
    from_below = [values[name] for name in drawn["layout"]["yaxis"]["categoryarray"]]
    assert from_below == sorted(from_below), "the greatest value is above"
    assert drawn["layout"]["xaxis"]["title"]["text"] == "y"
    height = interactive.height_rem(plot)
    assert height is not None
    assert height > 33
    assert interactive.height_rem(few) is None


def test_the_first_series_decides_the_order_of_dots_and_what_it_lacks_comes_by_the_next() -> None:
    plot = many(14)
    first = plot.series[0]
    first.y[3] = None
    plot.series.append(model.Series(name="two", x=list(first.x), y=[100.0 - i for i in range(14)]))
    order = plot_style.ranked(plot)
    assert order[0] == "variant 3"
    assert order[1:] == sorted(
        (str(x) for x in first.x if x != "variant 3"), key=lambda name: -(first.y[first.x.index(name)] or 0)
    )
    numbers = many(14)
    numbers.series[0].x = list(range(14))
    assert not plot_style.is_ranking(numbers), "numbers have an order of their own"


def test_dots_have_a_print_figure_as_well() -> None:
    plot = many(33)
    plot.x.titles = {"variant 0": "The first of all variants"}
    svg = printed.draw(plot, look_of(plot))["svg"].decode()
    texts = re.findall(r">([^<>]+)</text>", svg)
    named = [text for text in texts if text.startswith("variant ") or text == "The first of all variants"]
    values = {
        "The first of all variants" if x == "variant 0" else str(x): y or 0
        for x, y in zip(plot.series[0].x, plot.series[0].y, strict=True)
    }
    assert named == sorted(values, key=lambda name: -values[name])
    assert ">y</text>" in svg
